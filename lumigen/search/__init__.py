"""search: what regions run as, found by measuring on this machine, and kept as values that a project ships.

choice    one place in a region's space: a candidate, in a form that a file can hold
book      a choice for each region, as a text
samples   the dims at which entries are measured
lanes     how a target's kernels are measured: by its row, or those of the host (`host`) in the worker itself
trial     kernels of one choice of each region, measured by workers that may crash or hang
jobs      what such a worker, a `child` process, is told and answers
crew      who measures: processes here or of a cluster (`cluster`), whose machines have a worker each (`node`)
worker    the worker itself
models    a model with a choice for each region, and what each takes in a trial
climb     the search of one region, on a device that builds each plan once (`remembering`)
batches   trials that are built together, of which the better half is measured well
features  a candidate as numbers, by which `rank` says what to measure first
history   what was measured on this machine, of which `measured` has the rows
bounded   two choices of a region, each for other dims
story     what a search did, for people
clock     what can end in time
least     what regions take at least on this machine
shipped   what was found on other machines, and came with lumigen
winners   what was found before on this machine; `export` gives it as a book
database  the file of winners and measurements
flipping  what is stored, joined or in another order after all, before the search
tune      the search itself
asked     what a user asks of it
"""

"""search: what regions run as, found by measuring on this machine, and kept as values that a project ships.

choice    one place in a region's space: a candidate, in a form that a file can hold
book      a choice for each region, as a text
samples   the dims at which entries are measured
lanes     how a target's kernels are measured: by its row, or those of the host (`host`) in the worker itself
trial     kernels of one choice of each region, measured in a process that may crash or hang
worker    that process
climb     the search of one region, on a device that builds each plan once (`remembering`)
clock     what can end in time
least     what regions take at least on this machine
winners   what was found before on this machine, in a database; `export` gives it as a book
tune      the search itself
asked     what a user asks of it
"""

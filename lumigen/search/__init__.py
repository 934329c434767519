"""search: what regions run as, found by measuring on this machine, and kept as values that a project ships.

choice    one place in a region's space: a candidate, in a form that a file can hold
book      a choice for each region, as a text
trial     kernels of one choice of each region, measured in a process that may crash or hang
worker    that process
winners   what was found before on this machine, in a database
tune      the search itself
"""

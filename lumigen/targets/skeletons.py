"""skeletons: how kernels work that several targets have, in words for the reader of a project."""

LOOPS = "loops over elements: maps, sums along an axis, gathers, scans"
ORDER = "sorts each row, or finds the places of its first elements"
CASCADE = "products and what is made of them in one loop, which stores nothing in between"
GROUPS = "puts the places of elements in the order of their groups, for what reduces each group"

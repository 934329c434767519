"""From graphs to programs. The one place where the order of the graph passes is written."""

from lumigen.lower.canonicalize import canonicalize
from lumigen.lower.fold import fold
from lumigen.lower.offsets import offsets
from lumigen.lower.share import share

GRAPH_PASSES = (
    canonicalize,  # first: whatever follows matches one spelling
    fold,  # what canonicalize's rules have turned into constants
    offsets,  # of products in that spelling
    share,  # what is the same by then
)

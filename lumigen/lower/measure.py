"""measure: bounds of the parts of a graph's values, counted from the sources and from the values that are cut."""

from __future__ import annotations

from dataclasses import dataclass, field

from lumigen.graph import Node
from lumigen.memo import remembered
from lumigen.region import Expr, children

LARGEST = 200  # different values that one element of a region is made of
DEEPEST = 150  # steps from a buffer to a value


@remembered
def deepest(e: Expr) -> int:
    """The steps of an expression; a gather is one, whatever it was written as."""
    return 1 + max(map(deepest, children(e)), default=0)


@dataclass
class Sizes:
    """Steps and values that each node is made of, from what is `cut` on; what is shared counts at each use."""

    cut: set[Node]
    depth: dict[Node, int] = field(default_factory=dict[Node, int])
    spelled: dict[Node, int] = field(default_factory=dict[Node, int])

    def measure(self, n: Node) -> None:
        """From its operands, which are measured."""
        inner = [a.node for a in n.args if a.node not in self.cut]
        self.depth[n] = 1 + max((self.depth[a] for a in inner), default=0)
        self.spelled[n] = 1 + sum(self.spelled[a] for a in inner)

    def is_deep(self, n: Node) -> bool:
        return self.depth[n] > DEEPEST

    def is_long(self, n: Node) -> bool:
        return self.spelled[n] > LARGEST

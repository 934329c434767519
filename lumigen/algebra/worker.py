"""worker: answers for the blocks that it is told of on stdin, one after another on stdout, as they are found.

A process of its own, `python -m lumigen.algebra.worker`, since a round of egglog that grows can only be killed.
"""

from __future__ import annotations

import pickle
import sys
from itertools import product

from lumigen.algebra.answer import answer
from lumigen.algebra.egraph import EGraph


def main() -> None:
    """Until all blocks have an answer."""
    # What is read is of the process that has started this one.
    blocks, variants = pickle.load(sys.stdin.buffer)  # noqa: S301
    graph = EGraph()
    for variant, block in product(variants, blocks):
        sys.stdout.buffer.write(pickle.dumps(answer(graph, block, variant)))
        sys.stdout.buffer.flush()


if __name__ == "__main__":
    main()

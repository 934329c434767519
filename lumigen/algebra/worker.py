"""worker: answers for blocks, in a process of its own, since a round of egglog that grows can only be killed."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from time import monotonic
from typing import cast

from lumigen.algebra.answer import Answer, RuleSet, answer
from lumigen.algebra.egraph import EGraph
from lumigen.algebra.terms import Block
from lumigen.child import Child, served

SECONDS = 30.0  # that all blocks of a model may take; a block of a transformer takes less than one


def answers(
    blocks: Sequence[Block], variants: Sequence[RuleSet], seconds: float = SECONDS
) -> list[list[Answer | None]]:
    """Of each variant, for each block; None of those that it has not come to in so many seconds, or has failed at."""
    end = monotonic() + seconds
    with tempfile.TemporaryDirectory(prefix="lumigen-algebra-") as folder:
        child = Child(Path(folder) / "worker", "lumigen.algebra.worker")

        def one(block: Block, variant: RuleSet) -> Answer | None:
            left = end - monotonic()
            return cast("Answer | None", child.run((block, variant), left)) if left > 0 else None

        found = [[one(block, variant) for block in blocks] for variant in variants]
        child.end()
    return found


def _answered(graph: EGraph, job: tuple[Block, RuleSet]) -> Answer:
    return answer(graph, *job)


if __name__ == "__main__":
    served(partial(_answered, EGraph()))

"""process: blocks are answered by a process that is ended when it takes too long."""

from __future__ import annotations

import io
import os
import pickle
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from lumigen import debug
from lumigen.algebra.answer import Answer, RuleSet
from lumigen.algebra.terms import Block

SECONDS = 30.0  # that all blocks of a model may take; a block of a transformer takes less than one


def answers(
    blocks: Sequence[Block], variants: Sequence[RuleSet], seconds: float = SECONDS
) -> list[list[Answer | None]]:
    """Of each variant, for each block; None of those that it has not come to in so many seconds, or has failed at."""
    places = os.pathsep.join(map(str, (Path(__file__).parents[2], *filter(None, sys.path))))
    with subprocess.Popen(
        [sys.executable, "-P", "-m", "lumigen.algebra.worker"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env=debug.child_environment({"PYTHONPATH": places}),
    ) as worker:
        try:
            said, _ = worker.communicate(pickle.dumps((tuple(blocks), tuple(variants))), seconds)
        except subprocess.TimeoutExpired:
            worker.kill()
            said, _ = worker.communicate()
    wanted = len(variants) * len(blocks)
    found = [*_each(said), *[None] * wanted][:wanted]
    return [found[i : i + len(blocks)] for i in range(0, wanted, len(blocks))]


def _each(said: bytes) -> list[Answer]:
    """The answers that were written in full."""
    stream, out = io.BytesIO(said), list[Answer]()
    try:
        while True:
            out.append(pickle.load(stream))  # noqa: S301 - the worker is ours
    except (EOFError, pickle.UnpicklingError):
        return out

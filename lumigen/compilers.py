"""Compilers of the small way: passes and a backend, to hand to `Graph.compile` in any mixture."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from lumigen import fast_lane
from lumigen.graph import Graph
from lumigen.lower import GRAPH_PASSES
from lumigen.lower.assemble import assemble
from lumigen.verify.graph import verify

Array = npt.NDArray[Any]
Pass = Callable[[Graph], Graph]


def GenericCompiler() -> tuple[Pass, ...]:
    """The passes that every target wants, each verified."""
    return tuple(map(_verified, GRAPH_PASSES))


def _verified(step: Pass) -> Pass:
    return lambda graph: verify(step(graph), step.__name__)


class CPUCompiler:
    """Native code for this machine: one call of the C++ compiler, then loaded into this process."""

    def executor(self, graph: Graph) -> Callable[[Mapping[str, Array]], Mapping[str, Array]]:
        """What runs the graph."""
        lane = fast_lane.load(assemble((("run", graph),)))

        def run(values: Mapping[str, Array]) -> Mapping[str, Array]:
            inputs = {name: np.asarray(a, order="C") for name, a in values.items()}
            return lane.run("run", inputs, {})

        return run

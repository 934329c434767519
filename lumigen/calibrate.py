"""calibrate: weights of few bits whose scales are searched with what a model multiplies them by, on inputs of a user's.

The model runs here, as floats, on the processor of this machine. Promises an honest account: how far what was held
back is moved by these weights, and by those that are made without calibration.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from lumigen import fast_lane
from lumigen.errors import BadArgument
from lumigen.fast_lane import FastLane
from lumigen.frontend import Traced
from lumigen.graph import tensor_of
from lumigen.model_weights import check_weights
from lumigen.multiplied import Squares, total, with_squares
from lumigen.pipeline import lower_model
from lumigen.progress import Stages
from lumigen.quantise import FLOATS, Quantised, quantised
from lumigen.samples import Given, Sample, Samples, samples
from lumigen.weights import Array, Weights, named_array

FEW = 3  # names in a line


@dataclass(frozen=True)
class Moved:
    """How far quantising moves something of what was held back, by norm, relative: with calibration and `without`.

    An output, or the products with a matrix, as if what multiplies it were independent from column to column.
    """

    name: str
    apart: float
    without: float


@dataclass(frozen=True)
class Calibration:
    """What calls of an entry have said; `held` of them were kept for the errors, none if there was one call alone.

    `unknown` are the matrices that nothing which is known multiplies along their rows.
    """

    entry: str
    calls: int
    held: int
    matrices: tuple[Moved, ...]
    outputs: tuple[Moved, ...]
    unknown: tuple[str, ...]

    def lines(self) -> list[str]:
        """What calibrated, and what that gains, in lines for a person."""
        held = f"{self.held} more were held back" if self.held else "none was held back"
        calls = "a call" if self.calls - self.held == 1 else f"{self.calls - self.held} calls"
        said = [f"calibrated with {calls} of {self.entry}; {held}"]
        of = "what was held back" if self.held else "the calibration itself"
        said += [
            f"{m.name} of {of} is {m.apart:.2%} from that of floats by norm, {m.without:.2%} without calibration"
            for m in self.outputs
        ]
        if self.unknown:
            names, more = ", ".join(self.unknown[:FEW]), len(self.unknown) - FEW
            also = f" and {more} more" if more > 0 else ""
            said.append(f"not calibrated, as no product along its rows was found: {names}{also}")
        return said

    def each(self) -> list[str]:
        """How far products with each matrix are moved, in a line for each, the farthest first."""
        rows = sorted(self.matrices, key=lambda m: -m.apart)
        return [f"{m.apart:7.2%}  products with {m.name}, {m.without:.2%} without" for m in rows]


def calibrated(
    traced: Traced,
    weights: Weights | Mapping[str, Any] | None,
    name: str | None,
    keep: Sequence[str],
    given: Given,
    stages: Stages | None = None,
) -> tuple[Quantised, Calibration]:
    """`quantised`, where the square of an error counts as the squares of what multiplies it do, in inputs of a user's.

    `given` is as `samples` says. BadArgument without weights and without a format for them, and where the model's
    numbers are not finite; CompilerMissing where no C++ compiler is here, since the model runs.
    """
    arrays = _checked(traced, weights, name)
    assert name is not None
    asked = samples(traced, given)
    plain = quantised(traced, arrays, name, keep)
    observed = _Observed.of(traced, asked, plain.packed, arrays, stages or Stages())
    measured = observed.as_floats()
    found = quantised(traced, arrays, name, keep, measured.used)
    apart, without = (observed.apart(q, measured.outputs) for q in (found, plain))
    matrices = tuple(
        Moved(n, _weighed(found, arrays[n], n, h), _weighed(plain, arrays[n], n, h))
        for n, h in measured.held.items()
    )
    outputs = tuple(Moved(n, apart[n], without[n]) for n in apart)
    unknown = tuple(n for n in plain.packed if n not in measured.used)
    return found, Calibration(asked.entry, len(asked.calls), asked.held, matrices, outputs, unknown)


def _checked(
    traced: Traced, weights: Weights | Mapping[str, Any] | None, name: str | None
) -> Weights | Mapping[str, Array]:
    if name is None or name == FLOATS:
        expected = "it with a format for weights, such as --weights-dtype q4"
        raise BadArgument(op="compile", name="calibrate", value="given alone", expected=expected)
    if weights is None:
        value = "given without weights"
        raise BadArgument(op="compile", name="calibrate", value=value, expected="them: it runs")
    if not isinstance(weights, Weights):
        weights = {each: named_array("compile", each, a) for each, a in weights.items()}
    check_weights(traced, weights)
    return weights


@dataclass(frozen=True)
class _Measured:
    """Sums of squares that elements are multiplied by, where calls calibrate and where they are held back; outputs."""

    used: Mapping[str, Array]
    held: Mapping[str, Array]
    outputs: Sequence[Mapping[str, Array]]


@dataclass(frozen=True)
class _Observed:
    """An entry that gives sums of squares as well, built for this machine, and the calls of it."""

    traced: Traced
    lane: FastLane
    asked: Samples
    squares: tuple[Squares, ...]
    weights: Mapping[str, Array]
    floats: frozenset[str]  # outputs
    stages: Stages

    @staticmethod
    def of(
        traced: Traced,
        asked: Samples,
        names: Collection[str],
        weights: Weights | Mapping[str, Array],
        stages: Stages,
    ) -> _Observed:
        graph, squares = with_squares(dict(traced.entries)[asked.entry], names)
        alone = replace(traced, entries=((asked.entry, graph),), text=None)
        lane = fast_lane.load(lower_model(alone, {}).lowered)
        read = {tensor_of(n).name for n in graph.weights()}
        arrays = {w.name: np.asarray(weights[w.name]) for w in traced.weights if w.name in read}
        floats = frozenset(name for name, e in graph.outputs if e.dtype.is_float)
        return _Observed(traced, lane, asked, squares, arrays, floats, stages)

    def as_floats(self) -> _Measured:
        """What the model gives with the weights as they are; BadArgument where that is not finite."""
        sums: tuple[dict[str, Array], dict[str, Array]] = ({}, {})
        outputs: list[Mapping[str, Array]] = []
        names = {s.output for s in self.squares}
        for call, found in self._run(self.weights, self.asked.calls):
            of = sums[call.is_held]
            for name in names:
                of[name] = of.get(name, 0.0) + found[name].astype(np.float64)
            if call.is_held or not self.asked.held:
                outputs.append({n: a for n, a in found.items() if n not in names})
        used, held = (total(self.squares, of) if of else {} for of in sums)
        for name, a in (*used.items(), *held.items()):
            if not np.isfinite(a).all():
                value = f"inputs with which {name} is multiplied by what is not finite"
                expected = "inputs with which the model computes"
                raise BadArgument(op="compile", name="calibrate", value=value, expected=expected)
        return _Measured(used, held or used, outputs)

    def apart(self, found: Quantised, expected: Sequence[Mapping[str, Array]]) -> dict[str, float]:
        """How far outputs are from what they were, by norm, relative: those of floats, where both are finite."""
        decoded = {n: p.decoded() for n, p in found.packed.items() if n in self.weights}
        runs = self._run({**self.weights, **decoded}, self.asked.measured)
        measured = (o for call, o in runs if call.is_held or not self.asked.held)
        sums: dict[str, Array] = {}
        for got, meant in zip(measured, expected, strict=True):
            for name, y in meant.items():
                if name not in self.floats:
                    continue
                both = _pair(got[name].astype(np.float64), y.astype(np.float64))
                sums[name] = sums.get(name, np.zeros(2)) + both
        return {n: float(np.sqrt(a / b)) if b else 0.0 for n, (a, b) in sums.items()}

    def _run(
        self, weights: Mapping[str, Array], calls: Sequence[Sample]
    ) -> Iterator[tuple[Sample, Mapping[str, Array]]]:
        """The outputs of each call, with these weights."""
        packed, states = self.lane.packed(weights), dict[str, Array]()
        for i, call in enumerate(calls):
            self.stages.step("calibrate", i, len(calls), f"calls of {self.asked.entry}")
            if call.is_new:
                states = {s.name: np.zeros(s.shape, s.dtype.numpy) for s in self.traced.states}
            made = self.lane.prepare(self.asked.entry, call.inputs, packed, states)
            made.run()
            yield call, made.outputs


def _pair(got: Array, meant: Array) -> Array:
    """The sums of squares of a difference, and of what is meant."""
    finite = np.isfinite(got) & np.isfinite(meant)
    got, meant = got[finite], meant[finite]
    return np.array([np.square(got - meant).sum(), np.square(meant).sum()])


def _weighed(found: Quantised, weight: Array, name: str, squares: Array) -> float:
    """How far products with a matrix are moved, by norm, relative, where its columns meet what is independent."""
    meant = weight.astype(np.float32)
    apart = np.square(found.packed[name].decoded() - meant)
    size = float((np.square(meant) * squares).sum())
    return float(((apart * squares).sum() / size) ** 0.5) if size else 0.0

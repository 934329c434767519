"""mapped: operands of products that a tensor copy engine can fetch.

Such an operand is read in the dtype that it has in memory, contiguous along the depth or along the majors (its rows or
columns). The address is affine in the axes of the product's grid, and lines and batches are whole multiples of 16 bytes
apart.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from lumigen.index import Axis, Ix, Quotient, is_nonnegative, ix, product
from lumigen.lower.operands import affine
from lumigen.region import Buffer, Expr
from lumigen.tile import TensorMap

ONE = ix(1)


@dataclass(frozen=True)
class Batches:
    """Axes of a grid over which an operand's address is one stride times one number, `at`, below `extent`.

    So many successive points of the last of the axes have the same number: heads of queries that share their keys.
    """

    extent: Ix
    stride: Ix
    at: Ix
    points: Ix = ONE


NO_BATCHES = Batches(ix(1), ix(0), ix(0))


@dataclass(frozen=True)
class Mapped:
    """An operand over (major, depth). `is_deep`: contiguous along the depth. `steps`: along the grid's axes."""

    source: Buffer
    base: Ix
    is_deep: bool
    line_stride: Ix
    steps: tuple[Batches, ...]
    major: Axis
    k: Axis

    @staticmethod
    def of(value: Expr, major: Axis, k: Axis, grid: Sequence[Axis]) -> Mapped | None:
        """The operand, None if it is of another form. Errors: none."""
        found = affine(value, major, k)
        if found is None:
            return None
        source, start, stride, k_stride = found
        if not source.dtype.is_float or source.dtype.bits != 16 or 1 not in (stride, k_stride):
            return None
        steps: list[Batches] = []
        base = start
        for axis in grid:
            along = _along(base, axis)
            if along is None:
                return None
            step, base = along
            steps.append(step)
        is_deep = k_stride == 1
        line_stride = stride if is_deep else k_stride
        out = Mapped(source, base, is_deep, line_stride, tuple(steps), major, k)
        return out if out._is_fetched() else None

    @property
    def elements(self) -> Ix:
        return self.k.extent if self.is_deep else self.major.extent

    @property
    def lines(self) -> Ix:
        return self.major.extent if self.is_deep else self.k.extent

    def source_elements(self) -> int:
        """How many there are to read at the dims' typical values."""
        moved = (step.extent for step in self.steps if step.stride != 0)
        return product((self.lines, self.elements, *moved)).estimate()

    def _is_fetched(self) -> bool:
        """Whether the engine takes it: nothing empty, whole 16 bytes, lines that do not overlap."""
        vector = 16 // self.source.dtype.itemsize
        strides = (self.base, self.line_stride, *(step.stride for step in self.steps))
        sizes = (self.elements, self.lines, *(step.extent for step in self.steps))
        return (
            all(i % vector == 0 and not i.axes for i in strides)
            and all(is_nonnegative(i - 1) for i in sizes)
            and is_nonnegative(self.line_stride - self.elements)
        )

    def batches(self) -> tuple[Batches, ...]:
        """The fewest that reach every point of the grid, the slowest first; axes that do not move it are left out."""
        out: list[Batches] = []
        for step in self.steps:
            if step.stride == 0:
                continue
            last = out[-1] if out else None
            if last is not None and last.stride == step.stride * step.extent:
                at = last.at * step.extent + step.at
                out[-1] = Batches(last.extent * step.extent, step.stride, at)
            else:
                out.append(step)
        return tuple(out)

    def shared(self) -> tuple[Batches, Ix] | None:
        """(the batches, how many successive points of the grid have the same one); None if no quotient says which."""
        steps = list(self.steps)
        share = ix(1)
        while steps and steps[-1].stride == 0:
            share = share * steps.pop().extent
        if any(step.stride == 0 for step in steps) or any(s.points != 1 for s in steps[:-1]):
            return None
        if steps:
            share = share * steps[-1].points
        found = self.batches()
        if len(found) > 1:
            return None
        return (found[0] if found else NO_BATCHES), share

    def map(self, name: str, lines: int, box: int) -> TensorMap:
        """The map of an operand whose batches a quotient numbers."""
        shared = self.shared()
        assert shared is not None, "asked before"
        batches, share = shared
        return self.boxes(name, lines, box, (batches,), share)

    def boxes(
        self,
        name: str,
        lines: int,
        box: int,
        batches: tuple[Batches, ...],
        share: Ix | None = None,
    ) -> TensorMap:
        """Its map, of which a copy moves so many lines of an operand that is deep, and a `box` of another."""
        group, batch = (*(NO_BATCHES,) * (2 - len(batches)), *batches)
        return TensorMap(
            name=name,
            source=self.source,
            base=self.base,
            groups=group.extent,
            batches=batch.extent,
            lines=self.lines,
            elements=self.elements,
            group_stride=group.stride,
            batch_stride=batch.stride,
            line_stride=self.line_stride,
            share=ix(1) if share is None else share,
            box_lines=lines if self.is_deep else box,
        )


def _along(address: Ix, axis: Axis) -> tuple[Batches, Ix] | None:
    """(how the address moves along the axis, what it is at its first point); None if not by whole strides."""
    stride, at, extent, points = address.coefficient(axis), ix(axis), axis.extent, ix(1)
    rest = address
    if stride is None:  # as of axis // points, for whole groups of points
        quotients = (a for a in address.atoms() if isinstance(a, Quotient))
        points = next((q.denominator for q in quotients if q.numerator == ix(axis)), ix(1))
        if points == 1 or extent % points != 0:
            return None
        extent, at = extent // points, at // points
        number, point = Axis(axis.name, extent), Axis(f"{axis.name}_point", points)
        rest = address.substitute({axis: ix(number) * points + point})
        stride = rest.coefficient(number)
        if stride is None or point in rest.axes:
            return None
        axis = number
    if stride.axes or not is_nonnegative(stride):
        return None
    return Batches(extent, stride, at, points), rest - stride * axis

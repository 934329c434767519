"""The drawing of a search: times of candidates as it went on, on a scale of logarithms, and the best so far."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import exp2, log2

from lumigen.page.contexts import ChartContext, DotContext, MarkContext
from lumigen.printer.amount import duration

WIDTH, HEIGHT = 560, 220
LEFT, RIGHT, TOP, BOTTOM = 62, 470, 10, 196
SLOWEST = (
    4.0  # times the heuristic's time that a chart shows: what takes longer lies at its upper edge
)
TICKS = 5


@dataclass(frozen=True)
class ChartDot:
    """A candidate, measured so many seconds after the beginning; None: it was lost."""

    at: float
    seconds: float | None
    is_quick: bool
    hint: str


def chart(
    end: float,
    before: float,
    least: float | None,
    steps: Sequence[tuple[float, float]],
    dots: Iterable[ChartDot] = (),
) -> ChartContext:
    """Over `end` seconds: `steps` are (when, the best from then on), the first of them at the beginning."""
    shown = [*dots]
    times: list[float] = [before, *(t for _, t in steps)]
    times += [d.seconds for d in shown if d.seconds]
    low: float = min(*times, least or before) / 1.1
    high = max(low * 1.5, min(max(times), SLOWEST * before) * 1.1)

    def x(at: float) -> int:
        return round(LEFT + (RIGHT - LEFT) * min(1.0, at / end)) if end else LEFT

    def y(seconds: float) -> int:
        share = (log2(seconds) - log2(low)) / (log2(high) - log2(low))
        return round(BOTTOM - (BOTTOM - TOP) * min(1.0, max(0.0, share)))

    path = f"M{LEFT} {y(steps[0][1])}"
    path += "".join(f"H{x(at)}V{y(t)}" for at, t in steps[1:]) + f"H{RIGHT}"
    step = (log2(high) - log2(low)) / (TICKS - 1)
    ticks = [low * exp2(i * step) for i in range(TICKS)]
    better = {(at, t) for at, t in steps[1:]}
    marks = [MarkContext(y(before), "heuristic")]
    marks += [MarkContext(y(least), "limit", "least")] if least else []
    return ChartContext(
        width=WIDTH,
        height=HEIGHT,
        left=LEFT,
        right=RIGHT,
        end=duration(end),
        path=path,
        ticks=tuple(MarkContext(y(t), duration(t)) for t in ticks),
        marks=tuple(marks),
        dots=tuple(
            DotContext(
                x(d.at),
                TOP if d.seconds is None else y(d.seconds),
                _kind(d, is_better=(d.at, d.seconds) in better),
                d.hint,
            )
            for d in shown
        ),
    )


def _kind(d: ChartDot, *, is_better: bool) -> str:
    if d.seconds is None:
        return "lost"
    if d.is_quick:
        return ""
    return "better" if is_better else "well"

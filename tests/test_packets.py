"""Packets: a vector that may move whole begins at a multiple of the lanes, for every value of axes and dims."""

from __future__ import annotations

import itertools

import pytest

from lumigen.dtype import f32
from lumigen.emit.packets import Packets
from lumigen.index import Axis, Dim, Ix, ix, lookup
from lumigen.region import Buffer, Role

WIDTH = 8
N = Dim("n", 1, 20)
M = Dim("m", 4, 20, multiple_of=4)
ROW, LANE, TASK = (Axis(name, ix(9)) for name in ("row", "lane", "task"))
X = Buffer("x", Role.INPUT, (ix(100_000),), f32)
AT = lookup(Buffer("i", Role.INPUT, (ix(9),), f32), (ix(0),), 0, 9)
(AT_ATOM,) = AT.atoms()

# the place of a vector; what must be a multiple of the lanes, or None where it may begin anywhere
PLACES: tuple[tuple[Ix, tuple[str, ...] | None], ...] = (
    (ix(LANE), ()),
    (ROW * ix(16) + LANE, ()),
    (ROW * ix(N) + LANE, ("n",)),
    (ROW * ix(N) + LANE + N * ix(4), ("n", "4*n")),
    (ROW * ix(M) * 2 + LANE, ()),
    (ROW * ix(M) + LANE, ("m",)),
    (ix(AT) * 24 + LANE, ()),
    (ix(AT) * N + LANE, ("n",)),
    (ix(N) - 3 + LANE, ("n - 3",)),
    (ROW * ix(12) + LANE, None),
    (ix(LANE) + 1, None),
    (ROW + ix(LANE), None),
    (ix(AT) + LANE, None),
)


@pytest.mark.parametrize(("place", "wanted"), PLACES, ids=lambda p: str(p))
def test_what_a_packet_asks_for(place: Ix, wanted: tuple[str, ...] | None) -> None:
    packets = Packets(WIDTH)
    assert packets.take(X, place, LANE) == (wanted is not None)
    assert tuple(map(str, packets.multiples)) == (wanted or ())
    assert tuple(packets.buffers) == ((X,) if wanted is not None else ())
    if wanted is None:
        return
    for row, n, m, at in itertools.product(range(3), range(1, 20), range(4, 20, 4), range(3)):
        env = {ROW: row, N: n, M: m, LANE: 16}
        if all(e.evaluate(env) % WIDTH == 0 for e in packets.multiples):
            assert place.evaluate({**env, AT_ATOM: at}) % WIDTH == 0


def test_a_loop_that_begins_elsewhere() -> None:
    packets = Packets(WIDTH, {LANE: 24 * ix(TASK)})
    assert packets.take(X, ROW * ix(16) + LANE, LANE)
    packets = Packets(WIDTH, {LANE: ix(ROW) + 1})
    assert not packets.take(X, ix(LANE), LANE)

"""What is measured first: candidates are ranked by the roofline and by what measurements have taught."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import islice
from math import log2
from random import Random
from typing import Any

import numpy as np
import pytest
from test_tune import entries_of, regions_of

import lumigen as lg
from lumigen.region import Region
from lumigen.search.book import key_of
from lumigen.search.choice import Choice
from lumigen.search.climb import Climb, Rank, Space, crossed, unranked
from lumigen.search.features import ROOFLINE, Workers
from lumigen.search.rank import Learned, Measured, Ranking, learned
from lumigen.targets.cpu.device import CPU

ROWS = lg.Dim("rows", 1, 4096, typical=512)
SPACE = Space(CPU, (), (), [{ROWS: 512}], Workers(4))


def made_up(region: str, count: int, rng: np.random.Generator) -> list[Measured]:
    """Times that a law of two features gives, with the level of the region and noise."""
    level, out = float(rng.uniform(-20, -10)), list[Measured]()
    for _ in range(count):
        size, stages, bytes_ = rng.uniform(0, 8), rng.integers(1, 5), rng.uniform(10, 12)
        time = level + bytes_ + 0.3 * (size - 5) ** 2 - 0.5 * stages + rng.normal(0, 0.03)
        features = {ROOFLINE: bytes_, "size": size, "size squared": size * size, "stages": stages}
        out.append(Measured(region, features, 2**time))
    return out


def test_without_measurements_the_roofline_ranks() -> None:
    assert Learned().order([{ROOFLINE: 3.0}, {ROOFLINE: 1.0}, {ROOFLINE: 2.0}]) == [1, 2, 0]
    assert learned([]) == Learned()
    assert learned([Measured("a", {ROOFLINE: 1.0, "size": 2.0}, 1.0)]) == Learned()


def test_what_other_regions_teach_ranks_a_new_one(rng: np.random.Generator) -> None:
    taught = [m for name in "abc" for m in made_up(name, 30, rng)]
    new = made_up("new", 40, rng)
    truly = np.argsort([m.seconds for m in new])
    ranked = learned(taught).order([m.features for m in new])
    by_roofline = Learned().order([m.features for m in new])
    assert truly[0] in ranked[:3]
    places = np.argsort(np.argsort([m.seconds for m in new]))
    assert np.corrcoef(places[ranked], np.arange(40))[0, 1] > 0.95
    assert np.corrcoef(places[by_roofline], np.arange(40))[0, 1] < 0.6


def test_a_region_teaches_what_is_its_own(rng: np.random.Generator) -> None:
    """The others say that many stages are good; here they are bad."""
    ranking = Ranking([m for name in "abc" for m in made_up(name, 30, rng)])
    candidates = [{ROOFLINE: 1.0, "stages": float(n)} for n in range(1, 5)]
    assert ranking.order("here", candidates)[0] == 3
    ranking.add([Measured("here", f, 2 ** f["stages"]) for f in candidates])
    assert ranking.order("here", candidates)[0] == 0


# ---- in a climb, over the space of a product ----


def region_of(k: int, n: int) -> Region:
    (region,) = regions_of(entries_of(lambda x, w: x @ w, x=lg.spec(ROWS, k), w=lg.spec(k, n)))
    return region


def seconds_of(choice: Choice) -> float:
    """Best at sizes that the heuristic does not choose; much depends on the depth, little on the rows."""
    (sizes,) = choice.schedules
    best = {"rows": 48, "chunk": 64, "deep": 32, "held": 64}
    weights = {"rows": 0.02, "chunk": 0.1, "deep": 0.2, "held": 0.1}
    off = (weights[s] * abs(log2(sizes.get(s, 1) / best[s])) for s in best)
    return 2 ** sum(off) * 1e-5


def measurements(region: Region, rank: Rank) -> tuple[int, list[Measured]]:
    """How many it takes to reach the best, and all of them."""
    first = SPACE.first(region)
    before = (seconds_of(first),)
    climb = Climb(region, SPACE, first, before, before, rank=rank)
    out: list[Measured] = []
    while (choice := climb.next()) is not None:
        climb.found(choice, (seconds_of(choice),))
        out.append(Measured(key_of(region), climb.features[choice], seconds_of(choice)))
        if climb.seconds[0] < 1.05e-5:
            return len(out), out
    pytest.fail("the best was not found")


@pytest.mark.slow
def test_fewer_measurements_find_the_winner() -> None:
    _, taught = measurements(region_of(512, 1024), unranked)
    ranking = Ranking(taught)

    def rank(region: Region, features: Sequence[Any]) -> Sequence[int]:
        return ranking.order(key_of(region), features)

    plain, _ = measurements(region_of(768, 2048), unranked)
    ranked, again = measurements(region_of(768, 2048), rank)
    assert ranked <= 0.6 * plain
    assert again == measurements(region_of(768, 2048), rank)[1], "the same each time"


def test_children_have_some_decisions_of_each_of_two() -> None:
    region = region_of(512, 1024)
    first = SPACE.first(region)
    (sizes,) = first.schedules
    other = replace(first, schedules=(sizes.at("rows", 16).at("chunk", 32),))
    made = {*islice(crossed(first, other, Random(3)), 32)}
    assert {first, other} < made
    assert len(made) == 4
    assert not [*crossed(first, replace(other, first=1), Random(3))], "of two plans"

"""How many measurements it takes to find a winner: by chance, by the roofline, and by what was learned.

    python benchmarks/ranking.py [--within 3] [--rows FILE.json] [--unranked 4]

Replays what searches on this machine have measured, from the database of the cache, or from a file of its rows. For
each region with enough candidates: how many are measured until one is within so many percent of the best one, if they
are taken by chance (the mean), in the order of the roofline, and ranked, by what other regions taught and by what is
measured of the region on the way.
"""

from __future__ import annotations

import argparse
import json
import sqlite3
from collections.abc import Callable, Sequence
from math import exp, log
from pathlib import Path
from typing import Any

from lumigen.search.climb import UNRANKED
from lumigen.search.database import database
from lumigen.search.features import ROOFLINE
from lumigen.search.rank import Measured, Ranking

LEAST = 12  # candidates of a region
QUERY = "select region, choice, seconds, features from measured order by rowid"


def rows_of(file: str | None) -> list[tuple[str, str, str, str]]:
    if file is not None:
        return json.loads(Path(file).read_text(encoding="utf-8"))
    with sqlite3.connect(database()) as db:
        return db.execute(QUERY).fetchall()


def measured_of(rows: Sequence[Any]) -> dict[str, list[Measured]]:
    out: dict[str, list[Measured]] = {}
    for region, _, seconds, features in rows:
        times = json.loads(seconds)
        if times and times[0] > 0:
            out.setdefault(region, []).append(Measured(region, json.loads(features), times[0]))
    return {region: found for region, found in out.items() if len(found) >= LEAST}


def until(found: list[Measured], within: float, pick: Callable[[list[Measured]], int]) -> int:
    """How many are measured until one is good."""
    limit = min(m.seconds for m in found) * (1 + within)
    left, count = [*found], 0
    while True:
        count += 1
        if left.pop(pick(left)).seconds <= limit:
            return count


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--within", type=float, default=3.0, help="percent of the best time")
    parser.add_argument("--rows", help="rows of the database as JSON")
    parser.add_argument(
        "--unranked", type=int, default=UNRANKED, help="one of so many is not ranked"
    )
    told = parser.parse_args()
    regions, within = measured_of(rows_of(told.rows)), told.within / 100
    print(f"{'region':10} {'all':>4} {'good':>4} {'chance':>7} {'roofline':>8} {'ranked':>6}")
    each: list[tuple[float, float, float]] = []
    for region, found in regions.items():
        best = min(m.seconds for m in found)
        good = sum(m.seconds <= best * (1 + within) for m in found)
        chance = (len(found) + 1) / (good + 1)
        roofline = until(
            found,
            within,
            lambda left: min(range(len(left)), key=lambda i: left[i].features[ROOFLINE]),
        )
        others = [m for name, some in regions.items() if name != region for m in some]
        ranking = Ranking(others)

        def ranked(left: list[Measured], region: str = region, ranking: Ranking = ranking) -> int:
            count = sum(m.region == region for m in ranking.measured) + 1
            order = ranking.order(region, [m.features for m in left])
            place = 0 if count % told.unranked == 0 else order[0]
            ranking.add([left[place]])
            return place

        counts = (chance, float(roofline), float(until(found, within, ranked)))
        each.append(counts)
        print(
            f"{region[:10]} {len(found):4} {good:4} {counts[0]:7.1f} {counts[1]:8.0f} {counts[2]:6.0f}"
        )
    means = [exp(sum(log(c[i]) for c in each) / len(each)) for i in range(3)]
    print(f"{'mean':20} {means[0]:7.1f} {means[1]:8.1f} {means[2]:6.1f}")


if __name__ == "__main__":
    main()

"""history: what was measured on this machine, before and in this search; candidates are ranked by it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from lumigen.region import Region
from lumigen.search import measured
from lumigen.search.book import key_of
from lumigen.search.climb import Climb, Times
from lumigen.search.features import Features
from lumigen.search.measured import MeasuredRow
from lumigen.search.rank import Measured, Ranking


class History:
    """Of one machine; `before` is what regions take by the heuristic."""

    def __init__(self, machine: str, before: Mapping[Region, Times]) -> None:
        self.machine, self.before = machine, before
        self.keys = {region: key_of(region) for region in before}
        self.ranking = Ranking(measured.known(machine))
        self.kept = dict.fromkeys(before, 0)  # attempts of each region

    def order(self, region: Region, candidates: Sequence[Features]) -> Sequence[int]:
        """Places of these candidates, what to measure first."""
        return self.ranking.order(self.keys[region], candidates)

    def keep(self, climbs: Sequence[Climb]) -> None:
        """Remember what was measured since the last time, so that a search which is killed loses nothing."""
        rows: list[MeasuredRow] = []
        for climb in climbs:
            key, start = self.keys[climb.region], self.kept[climb.region]
            if start == 0 and climb.tries:  # what others are compared with
                rows.append(
                    MeasuredRow(key, climb.first, climb.features[climb.first], climb.before)
                )
            rows += [
                MeasuredRow(key, t.choice, climb.features[t.choice], t.seconds or ())
                for t in climb.tries[start:]
            ]
            self.kept[climb.region] = len(climb.tries)
        self.ranking.add(
            [
                Measured(r.region, r.features, r.seconds[0])
                for r in rows
                if r.seconds and r.seconds[0]
            ]
        )
        if rows:
            measured.keep(self.machine, rows)

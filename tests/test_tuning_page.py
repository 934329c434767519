"""The page of a search: whole, self-contained, escaped, and drawn from what was tried."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
from test_page import compiled
from test_tune import FOUND

from lumigen.page import tuning_page
from lumigen.page.chart import ChartDot, chart
from lumigen.schedule import Schedule
from lumigen.search.book import key_of
from lumigen.search.choice import Choice, beginnings
from lumigen.search.story import Attempt, RegionStory, Story, as_text, curve_of, reached, steps_of
from lumigen.targets.cpu.device import CPU

MADE = compiled()


def story() -> Story:
    """Of each region of a decoding step, a search that found something after two seconds."""
    regions: list[RegionStory] = []
    for k in MADE.lowered.kernels:
        assert k.of is not None
        first = next(beginnings(k.of, CPU))
        attempts = (
            Attempt(1.0, first, 4e-6, is_quick=True),
            Attempt(1.5, FOUND.choice, None, is_quick=False),
            Attempt(2.0, first, 1.5e-6, is_quick=False, is_best=True),
        )
        refused = {"a tile of <more> than memory has": 3}
        told = ("1.33 times as fast, confirmed", attempts, refused, 5, 7)
        regions.append(RegionStory(key_of(k.of), k.name, 2e-6, 1.5e-6, 1e-6, first, *told))
    return Story(4.0, 12, ("a processor",), tuple(regions), {"gave other results": 1})


def test_a_page_says_what_was_tried_and_what_was_not() -> None:
    page = tuning_page(MADE, story())
    articles = re.findall(r"<article .*?</article>", page, re.DOTALL)
    assert len(articles) == len(MADE.model.kernels)
    for article in articles:
        titles = re.findall(r'data-title="([^"]*)"', article)
        assert titles == ["Search", "Not measured", "Region", "Plan", "Tile program", "C++ source"]
        assert "a tile of &lt;more&gt; than memory has" in article
        assert "makes kernels that another candidate makes" in article
        assert "had no turn" in article
        assert 'class="dot lost"' in article
        assert 'class="dot better"' in article
        assert "lumigen_tasks" in article or "for (" in article, "its source"
    assert "12 trials" in page
    assert "1 candidate gave other results" in page


def test_a_curve_says_when_most_of_the_speed_was_there() -> None:
    def region(key: str, before: float, *falls: tuple[float, float]) -> RegionStory:
        each = (Attempt(at, FOUND.choice, t, is_quick=False, is_best=True) for at, t in falls)
        best = falls[-1][1] if falls else before
        return RegionStory(key, key, before, best, None, FOUND.choice, "", tuple(each))

    made = (
        region("a", 8.0, (3.0, 4.0), (9.0, 3.9)),
        region("b", 2.0, (1.0, 1.5)),
        region("c", 0.05),
        region("c", 0.05),
    )
    whole = Story(10.0, 4, (), made, {})
    curve = [(0.0, 10.1), (1.0, 9.6), (3.0, 5.6), (9.0, 5.5)]
    assert curve_of(whole) == [(at, pytest.approx(seconds)) for at, seconds in curve]
    assert (reached(whole), reached(whole, 1.0), reached(whole, 0.5)) == (3.0, 9.0, 0.0)
    assert reached(Story(10.0, 0, (), (), {})) == 0.0, "nothing was searched"
    assert "95% of that speed after 2" in tuning_page(MADE, story())


def test_it_needs_nothing_else_and_is_the_same_twice() -> None:
    page = tuning_page(MADE, story())
    assert page == tuning_page(MADE, story())
    assert "http" not in page
    assert not re.search(r"\b(src|srcset|action)=|@import|url\((?!#)|<link|<iframe", page)
    assert all(target.startswith("#") for target in re.findall(r'\bhref="([^"]*)"', page))


def test_a_curve_falls_where_something_was_better() -> None:
    (region, *_) = story().regions
    assert steps_of(region) == [(0.0, 2e-6), (2.0, 1.5e-6)]
    drawn = chart(4.0, 2e-6, 1e-6, steps_of(region), [ChartDot(9.0, 1.0, is_quick=True, hint="")])
    heights = [int(y) for y in re.findall(r"V(\d+)|M\d+ (\d+)", drawn.path)[0] if y]
    assert len(re.findall(r"V", drawn.path)) == 1
    assert int(re.findall(r"V(\d+)", drawn.path)[0]) > heights[0], "down"
    assert (drawn.dots[0].x, drawn.dots[0].y) == (drawn.right, min(t.y for t in drawn.ticks))


def test_a_choice_is_a_line() -> None:
    (region,) = (k.of for k in MADE.lowered.kernels[:1])
    assert region is not None
    text = as_text(next(beginnings(region, CPU)))
    assert re.fullmatch(r"candidate 0: \w+( \w+ \d+)+", text)
    assert as_text(Choice(1, ((0, 2),), ())) == "candidate 1, plan 2 near kernel 0: "
    one, other = Schedule("simt", (("lanes", 8),)), Schedule("panel", ())
    several = Schedule("side_by_side", (), (), (other, other, one))
    said = as_text(Choice(0, (), (one, one, other, one, several)))
    shown = "2 x simt lanes 8; panel; simt lanes 8; side_by_side 2 x [panel] [simt lanes 8]"
    assert said == f"candidate 0: {shown}"


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("chromium") is None, reason="there is no chromium")
def test_a_browser_shows_one_region_at_a_time(tmp_path: Path) -> None:
    file = tmp_path / "page.html"
    file.write_text(tuning_page(MADE, story()), encoding="utf-8")
    name = MADE.model.kernels[-1].name
    command = ["chromium", "--headless", "--no-sandbox", "--disable-gpu", "--dump-dom"]
    done = subprocess.run(
        [*command, f"file://{file}#{name}"], capture_output=True, text=True, check=True
    )
    articles = re.findall(r"<article ([^>]*)>", done.stdout)
    shown: list[Any] = [a for a in articles if "hidden" not in a]
    assert len(shown) == 1
    assert name in shown[0]
    assert done.stdout.count('aria-selected="true"') >= 2, "a tab of the regions, one of a region"

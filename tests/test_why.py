"""Why a kernel is what it is, as `show --why` says it: cuts, the space, measurements."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from test_page import DECODE
from test_tune import FOUND

import lumigen as lg
from lumigen.dtype import f32
from lumigen.errors import BadArgument
from lumigen.forms import text_after
from lumigen.frontend import Traced
from lumigen.lower.cuts import CUTS
from lumigen.search import host, measured, winners
from lumigen.search.book import Book, Found, key_of
from lumigen.search.choice import beginnings
from lumigen.search.story import as_text
from lumigen.target import HOST
from lumigen.targets.cpu.device import CPU
from lumigen.why import lower_model, why

ROOT = Path(__file__).parent.parent
KERNEL = "k05_product_cascade"


def traced() -> Traced:
    return lg.load_model_file(DECODE).trace()


@pytest.fixture(autouse=True)
def _cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LUMIGEN_CACHE", str(tmp_path))


def test_it_says_why_two_kernels_are_not_one() -> None:
    text = why(traced(), KERNEL, HOST, f32)
    rule = next(r for r in CUTS.at_nodes if r.__name__ == "computed_operands")
    assert f"rotate, which k02_rotate_simt computes: {(rule.__doc__ or '').splitlines()[0]}" in text
    assert "out, its result: it is an output or a state of the model" in text
    assert "slot rotate " in text_after(traced(), "program"), "the name is the program's"
    other = why(traced(), "k02_rotate_simt", HOST, f32)
    assert f"rotate, its result, which {KERNEL} reads: " in other


def test_it_says_what_a_region_could_run_as_and_what_was_measured() -> None:
    (region,) = (k.of for k in lower_model(traced(), {}).lowered.kernels if k.name == KERNEL)
    assert region is not None
    plain = why(traced(), KERNEL, HOST, f32)
    assert "candidate 0: cascade_row depth 256: it runs" in plain
    assert "Nothing of it was measured on this machine" in plain
    *_, last = beginnings(region, CPU)
    machine = winners.machine_of(host.MEASURING, os.cpu_count() or 1, cold=False)
    rows = [
        measured.MeasuredRow(key_of(region), last, {"roofline": 1.0}, (2e-6,)),
        measured.MeasuredRow(key_of(region), FOUND.choice, {"roofline": 1.0}, ()),
    ]
    measured.keep(machine, rows)
    found = Book({key_of(region): Found(last, 1.0, 2.0)})
    text = why(traced(), "k05_product_simt", HOST, f32, schedules=lambda *_: found)
    assert "Measured on this machine: 1 choices, 1 more did not run" in text
    assert "  2 us  candidate 2: simt" in text
    assert "it runs, as the schedules say" in text
    assert " refused:" in text


def test_of_what_was_faster_it_says_why_that_does_not_run() -> None:
    (region,) = (k.of for k in lower_model(traced(), {}).lowered.kernels if k.name == KERNEL)
    assert region is not None
    machine = winners.machine_of(host.MEASURING, os.cpu_count() or 1, cold=False)
    runs, other, *_ = beginnings(region, CPU)

    def line(now: tuple[float, ...]) -> str:
        rows = [
            measured.MeasuredRow(key_of(region), c, {"roofline": 1.0}, t)
            for c, t in ((runs, (2e-6, 2e-6)), (other, now))
        ]
        measured.keep(machine, rows)
        text = why(traced(), KERNEL, HOST, f32).partition("the fastest:\n")[2].splitlines()
        assert next(t for t in text if t.startswith("  2 us  candidate 0: ")).endswith(": it runs")
        return next(t for t in text if "candidate 1: " in t)

    assert line((1e-6, 1e-6)).endswith(
        ": no run of the whole model confirmed the difference, so it does not run"
    )
    assert line((1e-6, 3e-6)).endswith(": slower at other dims, so it does not run")
    assert line((1.99e-6, 1.99e-6)).endswith(": faster by no more than noise, so it does not run")
    assert line((1e-6,)).endswith(": it was not measured at all dims, so it does not run")
    assert line((3e-6, 3e-6)).partition("us  ")[2] == as_text(other)
    place = winners.Kept(frozenset(), machine, "")
    winners.keep({key_of(region): Found(other, 1e-6, 2e-6)}, {}, place, 9.0)
    assert line((1e-6, 1e-6)).endswith(": a search confirmed it, and compile --tune takes it")


def test_there_has_to_be_such_a_kernel() -> None:
    with pytest.raises(BadArgument, match="--why cannot be k99"):
        why(traced(), "k99", HOST, f32)


def test_the_page_shows_what_is_printed() -> None:
    page = (ROOT / "docs" / "searching.md").read_text(encoding="utf-8")
    begin = "$ lumigen show examples/digits/model.py --why k02_probs_simt\n"
    shown = page.partition(begin)[2].partition("```")[0]
    digits = lg.load_model_file(ROOT / "examples" / "digits" / "model.py")
    assert f"{why(digits.trace(), 'k02_probs_simt', HOST, f32)}\n" == shown

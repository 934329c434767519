"""PyTorch's ops by PyTorch's samples: same names, shapes, dtypes and values through graph and interpreter."""

from __future__ import annotations

import importlib.util
import itertools
import os
import random
from pathlib import Path

import pytest
import torch
from commit import commit
from exclusions import DRAWN, NO_ORACLE, PARTLY, is_drawn, left_out
from opinfo import DTYPES, OPS, called, check, dtypes_of, samples
from table import CALLS

from lumigen.frontend.excluded import EXCLUDED, reason

DTYPES_OF_ALL = (torch.float32, torch.int64, torch.bool)  # many samples of every op
OTHER_DTYPES = tuple(d for d in DTYPES if d not in DTYPES_OF_ALL)  # few samples, as slow tests
FEW = 2
MANY = 12
ROOT = Path(__file__).parent.parent.parent

OFFERED = [n for n in OPS if reason(n) is None]


def run(name: str, dtype: torch.dtype, most: int | None, seed: str = "") -> int:
    """Checks samples of one dtype, and says how many: the first ones, or with a seed some of all."""
    call = called(name, CALLS)
    assert call is not None, f"neither offered nor excluded: {name}"
    count = 0
    kept = (s for s in samples(OPS[name], dtype) if not left_out(name, s))
    if seed and most is not None:
        listed = list(kept)
        kept = iter(random.Random(seed).sample(listed, min(most, len(listed))))
    for sample in itertools.islice(kept, most):
        check(OPS[name], call, sample, drawn=is_drawn(name, sample))
        count += 1
    return count


@pytest.mark.parametrize("name", OFFERED)
def test_first_sample(name: str) -> None:
    """One, so that the tests without `slow` stay quick; the slow ones run all."""
    run(name, dtypes_of(OPS[name], (*DTYPES_OF_ALL, *OTHER_DTYPES))[0], 1)


@pytest.mark.slow
@pytest.mark.parametrize("name", OFFERED)
def test_many_samples(name: str) -> None:
    """At most MANY of a dtype, and others with each commit: LUMIGEN_ALL=1 takes all of them."""
    most = None if os.environ.get("LUMIGEN_ALL") == "1" else MANY
    counts = [run(name, dtype, most, commit()) for dtype in dtypes_of(OPS[name], DTYPES_OF_ALL)]
    assert sum(counts), "no sample was run"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "dtype"), [(n, d) for n in OFFERED for d in dtypes_of(OPS[n], OTHER_DTYPES)], ids=str
)
def test_other_dtypes(name: str, dtype: torch.dtype) -> None:
    if (name, dtype) in NO_ORACLE:
        pytest.skip(NO_ORACLE[name, dtype])
    run(name, dtype, FEW)


def test_where_torch_is_no_oracle_it_has_the_op() -> None:
    pairs = {(n, d) for n in OFFERED for d in dtypes_of(OPS[n], OTHER_DTYPES)}
    assert set(NO_ORACLE) <= pairs


def test_exclusions_are_of_entries_that_are_not_offered() -> None:
    listed = [n for names in EXCLUDED.values() for n in names]
    assert len(listed) == len(set(listed))
    assert set(listed) <= set(OPS)
    whole = [n for n in listed if "|" not in n]  # a variant may be left out alone
    offered = [n for n in whole if called(n, CALLS) is not None]
    assert not offered, "these are offered: take them out of the exclusions"
    assert set(PARTLY) <= set(OFFERED)
    assert set(DRAWN) <= set(OFFERED)


def test_the_page_of_ops_is_up_to_date() -> None:
    spec = importlib.util.spec_from_file_location("make_ops", ROOT / "docs" / "make_ops.py")
    assert spec is not None
    assert spec.loader is not None
    make_ops = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(make_ops)
    page = make_ops.PAGE.read_text(encoding="utf-8")
    assert make_ops.render() == page, "review the tables, then run `python docs/make_ops.py`"

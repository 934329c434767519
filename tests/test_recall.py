"""A second compilation of the same finds what is there, and only then."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

import lumigen as lg
from lumigen import debug
from lumigen.errors import EditedFiles
from lumigen.make_project import compile_project
from lumigen.summary import Summary


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LUMIGEN_CACHE", str(tmp_path / "cache"))


def compiled(place: Path, scale: float = 2.0, weight: float = 1.0, **options: object) -> Summary:
    net = lg.nn.Linear(3, 4)
    model = lg.Model("again", net)

    @model.entry(x=lg.spec(lg.Dim("batch", 1, 9), 3))
    def run(x: lg.Tensor) -> lg.Tensor:
        return net(x) * scale

    weights = {"weight": np.full((4, 3), weight, np.float32), "bias": np.zeros(4, np.float32)}
    given = {"weights": weights, "build": False, **options}
    return compile_project(model.trace(), directory=place, **given)


def was_lowered(summary: Summary) -> bool:
    return "lower" in summary.seconds


def test_the_same_is_not_lowered_again(tmp_path: Path) -> None:
    first, again = compiled(tmp_path / "p"), compiled(tmp_path / "p")
    assert was_lowered(first)
    assert not was_lowered(again)
    assert again.entries == first.entries
    assert again.written.unchanged == tuple(sorted(first.written.written))


@pytest.mark.parametrize(
    "change",
    [
        {"scale": 3.0},
        {"weight": 2.0},
        {"dtype": lg.bf16},
        {"weights": None},
        {"options": {"a": "b"}},
    ],
    ids=lambda c: next(iter(c)),
)
def test_what_is_not_the_same_is_lowered(tmp_path: Path, change: dict[str, object]) -> None:
    compiled(tmp_path / "p")
    assert was_lowered(compiled(tmp_path / "p", **change))


def test_an_edited_file_is_still_named(tmp_path: Path) -> None:
    compiled(tmp_path / "p")
    with (tmp_path / "p" / "CMakeLists.txt").open("a") as file:
        file.write("# mine\n")
    with pytest.raises(EditedFiles, match=r"CMakeLists.txt"):
        compiled(tmp_path / "p")
    assert was_lowered(compiled(tmp_path / "p", force=True))


def test_lost_weights_are_written_again(tmp_path: Path) -> None:
    compiled(tmp_path / "p")
    (tmp_path / "p" / "weights" / "again.safetensors").unlink()
    assert was_lowered(compiled(tmp_path / "p"))
    assert (tmp_path / "p" / "weights" / "again.safetensors").is_file()


def test_a_cut_weights_file_is_written_again(tmp_path: Path) -> None:
    compiled(tmp_path / "p")
    file = tmp_path / "p" / "weights" / "again.safetensors"
    whole = file.read_bytes()
    file.write_bytes(whole[:-1])
    assert was_lowered(compiled(tmp_path / "p"))
    assert file.read_bytes() == whole


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (r"[\s\S]*", "["),
        (r"[\s\S]*", "[" * 10_000),
        (r"[\s\S]*", "{}"),
        (r"[\s\S]*", '{"hash": "", "said": []}'),
        ('"kernels": ', '"kernel": '),
        ('"files": ', '"files": 1'),
    ],
)
def test_a_record_that_is_damaged_is_none(tmp_path: Path, old: str, new: str) -> None:
    compiled(tmp_path / "p")
    (record,) = (debug.cache_dir() / "compiled").iterdir()
    text = re.sub(old, new, record.read_text(), count=1)
    assert text != record.read_text()
    record.write_text(text)
    assert was_lowered(compiled(tmp_path / "p"))

"""Folds around contractions on a GPU: tests/folds.py and gradients.py in each dtype, by interpreter and by ctest."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from folds import FEW, FOLDED, KEYS, POSITIONS, specs_of
from gradients import CASES, QUERIES
from gradients import specs_of as specs_of_gradient
from shipped_programs import ship
from small_programs import SmallProgram

import lumigen as lg
from lumigen.build import build_project
from lumigen.target import parse_target

pytestmark = pytest.mark.gpu

DTYPES = {"f32": lg.f32, "f16": lg.f16, "bf16": lg.bf16}
POINTS = tuple(
    {POSITIONS.name: n, KEYS.name: n + 7, FEW.name: min(n, 60), QUERIES.name: n}
    for n in (1, 2, 65, 130, 300)
)


@pytest.mark.parametrize("dtype", DTYPES)
def test_folds_agree_with_the_interpreter(dtype: str, target: str, tmp_path: Path) -> None:
    programs = [
        SmallProgram(name, function, tuple(specs_of(name, DTYPES[dtype]).items()), POINTS)
        for name, (function, *_) in FOLDED.items()
    ]
    programs += [
        SmallProgram(
            f"gradient_{name}",
            case.function,
            tuple(specs_of_gradient(case, DTYPES[dtype]).items()),
            POINTS,
        )
        for name, case in CASES.items()
    ]
    shipped = ship(
        f"folds_{dtype}", programs, parse_target(target), DTYPES[dtype], tmp_path / "out"
    )
    wrong = shipped.wrong()
    assert not wrong, "\n".join(wrong.values())


@pytest.mark.parametrize("dtype", DTYPES)
def test_folds_pass_their_own_tests(dtype: str, target: str, tmp_path: Path) -> None:
    model = lg.Model(f"folds_{dtype}")
    for name, (function, *_) in FOLDED.items():

        def entry(function=function, **inputs: lg.Tensor) -> object:
            out = function(**inputs)
            return out if isinstance(out, dict) else {"out": out}

        entry.__name__ = name
        model.entry(**specs_of(name, DTYPES[dtype]))(entry)
    lg.compile(model, target, tmp_path / "out")
    build_project(tmp_path / "out", tests=True)
    build = tmp_path / "out" / "build" / "release"
    done = subprocess.run(
        ["ctest", "--output-on-failure"], cwd=build, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout[-4000:]

"""Targets: how `--target` is read, and what CMake is told."""

from __future__ import annotations

import pytest

from lumigen.errors import UnsupportedTarget
from lumigen.target import TARGETS, parse_target
from lumigen.targets.cpu.row import CPU
from lumigen.targets.cuda.row import CUDA


def test_names_are_rows() -> None:
    assert parse_target("cpu") is CPU
    assert parse_target("cuda") is CUDA
    assert CUDA.architectures == ("sm_80", "sm_90a", "sm_100", "sm_120")


def test_architectures_are_in_order_and_once() -> None:
    target = parse_target("cuda:sm_120, sm_90a,sm_120")
    assert target.architectures == ("sm_90a", "sm_120")
    assert target.text == "cuda:sm_90a,sm_120"
    assert parse_target(target.text) == target


@pytest.mark.parametrize(
    ("text", "cmake"),
    [
        ("cuda", "80-real;90a-real;100-real;120-real;80-virtual"),
        ("cuda:sm_90a,sm_100", "90a-real;100-real;100-virtual"),
        ("cuda:sm_90a", "90a-real"),  # its PTX would run nowhere else
        ("cuda:sm_90,sm_90a", "90a-real;90-virtual"),  # one machine code for the same GPUs
    ],
)
def test_the_lowest_has_ptx(text: str, cmake: str) -> None:
    assert parse_target(text).cmake_architectures == cmake


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("tpu", r"there is no such target. Choose one of: cpu, cuda, metal\.$"),
        ("", r"there is no such target. Choose one of: cpu, cuda, metal\.$"),
        (
            "cuda:",
            r"an architecture is missing behind its colon .* Choose one of: sm_80, .* sm_121",
        ),
        ("cuda:sm_90a,", r"an architecture is missing behind its colon or a comma"),
        ("cuda:sm_35", r"'sm_35' is no architecture .* Choose one of: sm_80, sm_86, "),
        ("cuda:sm_90a,90", r"cuda:sm_90a,90 cannot be used: '90' is no architecture"),
        ("cpu:avx2", r"the machine chooses"),
    ],
)
def test_others_are_refused(text: str, why: str) -> None:
    with pytest.raises(UnsupportedTarget, match=why):
        parse_target(text)


@pytest.mark.parametrize("name", TARGETS)
def test_a_target_has_its_folders(name: str) -> None:
    target = TARGETS[name].target
    assert (target.runtime_folder / "model.cpp").is_file()
    for file in (*(template for template, _ in target.templates), *target.files):
        assert target.find(f"project/{file}").is_file()
    assert set(target.architectures) <= set(target.known_architectures)


def test_guards_ask_for_what_code_runs_on() -> None:
    assert CUDA.features["sm_80"] == "call.model().gpu.capability >= 80"
    assert CUDA.features["sm_90a"] == "call.model().gpu.capability == 90"
    assert "sm_90" not in CPU.features

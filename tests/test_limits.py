"""What the machine can do at most: the arithmetic of limits, and the probes that this machine can run."""

from __future__ import annotations

import ctypes
from contextlib import suppress
from functools import partial
from pathlib import Path

import pytest

from lumigen.errors import BuildFailed, LimitsUnknown
from lumigen.limits import Limits, Memory, Rate
from lumigen.targets.cpu.limits import probe_cpu
from lumigen.targets.cuda.limits import GPU_FLAGS, probe_gpu
from lumigen.targets.cuda.tools import nvcc
from lumigen.toolchain import compiled_library, cxx

LIMITS = Limits(
    (Memory(1000, 400.0, 200.0), Memory(10_000, 100.0, 50.0)),
    {"f32": Rate(1000.0, "avx2"), "bf16": Rate(8000.0, "wgmma")},
)


@pytest.mark.parametrize(
    ("computes", "work", "wanted"),
    [
        ("f32", (0, 100, 100), (100 / 400 + 100 / 200, "memory")),
        ("f32", (0, 9000, 999), (9000 / 400 + 999 / 200, "memory")),
        ("f32", (0, 9000, 1000), (9000 / 100 + 1000 / 50, "memory")),
        ("f32", (10_000, 100, 100), (10.0, "f32")),
        ("bf16", (10_000, 100, 100), (1.25, "bf16")),
        ("f64", (1, 100, 100), None),
        ("f64", (0, 100, 100), (0.75, "memory")),
    ],
)
def test_what_binds(
    computes: str, work: tuple[int, int, int], wanted: tuple[float, str] | None
) -> None:
    assert LIMITS.least(computes, *work) == wanted


@pytest.mark.slow
def test_the_processor_is_probed() -> None:
    if cxx() is None:
        pytest.skip("no C++ compiler")
    found = probe_cpu(1, {"f32", "f64"})
    assert set(found.arithmetic) == {"f32", "f64"}
    single, double = found.arithmetic["f32"], found.arithmetic["f64"]
    assert 1e8 < double.flops < single.flops < 1e13
    for m in found.memory:
        assert 1e8 < m.read < 1e14
        assert 1e8 < m.written < 1e14
    assert [m.bytes for m in found.memory] == sorted(m.bytes for m in found.memory)
    for smaller, larger in zip(found.memory, found.memory[1:], strict=False):
        assert smaller.read >= larger.read
        assert smaller.written >= larger.written


@pytest.mark.slow
def test_only_what_is_asked_for_is_probed() -> None:
    if cxx() is None:
        pytest.skip("no C++ compiler")
    assert probe_cpu(1, set()).arithmetic == {}


@pytest.mark.parametrize(
    "architecture",
    ["sm_80", *(pytest.param(a, marks=pytest.mark.slow) for a in ("sm_90a", "sm_120a"))],
)
def test_the_probes_of_gpus_compile(
    architecture: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Up to where a GPU is asked what it can do, which may be none, or another."""
    if nvcc() is None:
        pytest.skip("no nvcc")
    monkeypatch.setenv("LUMIGEN_CACHE", str(tmp_path))
    monkeypatch.setattr("lumigen.targets.cuda.limits.gpu_architecture", lambda _: architecture)
    monkeypatch.setattr(
        "lumigen.targets.cuda.limits.GPU_FLAGS", (*GPU_FLAGS, "-Werror=all-warnings")
    )
    with suppress(LimitsUnknown):
        probe_gpu({"f32"})
    assert [p.suffix for p in (tmp_path / "limits").iterdir()] == [".so"]


def test_a_library_is_compiled_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    compiler = cxx()
    if compiler is None:
        pytest.skip("no C++ compiler")
    monkeypatch.setenv("LUMIGEN_CACHE", str(tmp_path))
    header = tmp_path / "one.h"
    header.write_text("inline int one() { return 1; }\n")
    text = '#include "runtime/one.h"\nextern "C" int two() { return one() + 1; }\n'
    flags = ("-shared", "-fPIC")
    first = compiled_library("kind", compiler, flags, "two.cpp", text, [header])
    written = first.stat().st_mtime_ns
    assert compiled_library("kind", compiler, flags, "two.cpp", text, [header]) == first
    assert first.stat().st_mtime_ns == written
    first.write_bytes(first.read_bytes()[:1000])
    again = compiled_library("kind", compiler, flags, "two.cpp", text, [header])
    assert ctypes.CDLL(str(again)).two() == 2
    header.write_text("inline int one() { return 2; }\n")
    assert compiled_library("kind", compiler, flags, "two.cpp", text, [header]) != first
    with pytest.raises(BuildFailed, match=r"compile two\.cpp") as caught:
        compiled_library("kind", compiler, flags, "two.cpp", "int one = nothing;", [])
    assert "nothing" in str(caught.value)
    assert str(tmp_path) not in str(caught.value).split("error", 1)[1], "names a file that is gone"
    assert len(list((tmp_path / "kind").iterdir())) == 2, "nothing of a failure is left"


def test_a_header_is_read_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    compiler = cxx()
    if compiler is None:
        pytest.skip("no C++ compiler")
    monkeypatch.setenv("LUMIGEN_CACHE", str(tmp_path))
    header = tmp_path / "one.h"
    text = '#include "runtime/one.h"\nextern "C" int two() { return one() + 1; }\n'
    build = partial(compiled_library, "kind", compiler, ("-shared", "-fPIC"), "two.cpp")
    for result in (1, 2):
        header.write_text(f"#pragma once\ninline int one() {{ return {result}; }}\n")
        library = build(text, [header], parsed="one.h")
        assert ctypes.CDLL(str(library)).two() == result + 1
        made = library.read_bytes()
        library.unlink()
        assert build(text, [header]).read_bytes() == made, "it changes nothing"
        assert len([*tmp_path.glob("headers/parsed-*/first.h.gch")]) == result
    header.write_text("#pragma once\ninline int one( {\n")
    with pytest.raises(BuildFailed, match=r"compile two\.cpp"):
        build(text, [header], parsed="one.h")

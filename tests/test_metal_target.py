"""The Metal target: kernels are what Metal's language allows, and one project of all kinds of them passes its tests.

There is no Mac: kernels run on the emulator, and clang reads them for their address spaces.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from pathlib import Path
from random import Random

import numpy as np
import pytest
from commit import commit
from metal import address_spaces, read_with_metal_cpp, said, said_of_shaders
from metal_programs import programs
from safetensors.numpy import save_file
from sweeps import metal_emulated
from test_cpu_ops import ROWS

import lumigen as lg
from lumigen import cli
from lumigen.errors import UnsupportedTarget
from lumigen.frontend import Traced
from lumigen.lower.built import Built
from lumigen.pipeline import lower_model
from lumigen.plan import Illegal
from lumigen.target import parse_target
from lumigen.targets.metal.device import METAL
from lumigen.targets.metal.speller import metal_kernel_body

DIGITS = Path(__file__).parent.parent / "examples" / "digits" / "model.py"


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """All programs, emitted with what the interpreter makes of them."""
    out = tmp_path_factory.mktemp("metal") / "programs"
    lg.compile(programs(), target="metal", output=out, build=False)
    return out


def kernels(project: Path) -> list[Path]:
    return sorted((project / "kernels").glob("k*.metal"))


@pytest.mark.slow
def test_every_kind_of_kernel_is_among_them(project: Path) -> None:
    words = {path.stem.rsplit("_", 1)[-1] for path in kernels(project)}
    assert words == {"simt", "pipeline", "cascade", "fold", "order", "groups"}


# What Metal's compiler refuses and the emulator's does not.
NUMBER = r"(?:const )?(?:float|half|bfloat|char|bool|u?int\w*|T|Total<\w+>|\w+_args) ?[*&]"
REFUSED = {
    "a lambda": r"\[[&=]?\] ?[({]",
    "a pointer without an address space": rf"(?:^\s*|[(,<]\s*){NUMBER}",
    "a library of C++": r"\bstd::",
    "f64": r"\bdouble\b",
    "a variable that outlives its call": r"\bstatic (?!const)[^;(){}]*[=;]",
    "an integer of more than 64 bits": r"\blong long\b",
    "an address from a number": r"\*(?:>\(|\) ?\()\(?(?:static_cast<)?(?:u?long|size_t|u?int64_t|uintptr_t)\b",
}


def refused(text: str) -> list[str]:
    """What of the GPU's half of a kernel, or of a header, Metal has not."""
    text = re.sub(r"//.*", "", text).partition("#ifdef LUMIGEN_HOST")[0]
    return [what for what, pattern in REFUSED.items() if re.search(pattern, text, re.MULTILINE)]


def test_kernels_have_only_what_metal_has(project: Path) -> None:
    headers = [project / "runtime" / n for n in ("arithmetic.h", "group.h", "order.h", "product.h")]
    for path in (*kernels(project), *headers):
        assert not refused(path.read_text(encoding="utf-8")), path.name


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("f([&](int i) { return i; });", "a lambda"),
        ("  const float* x = y;", "a pointer without an address space"),
        ("void f(device float* x, T& y)", "a pointer without an address space"),
        ("reinterpret_cast<float*>(shared)", "a pointer without an address space"),
        ("std::min(a, b)", "a library of C++"),
        ("double x;", "f64"),
        ("static int calls = 0;", "a variable that outlives its call"),
        ("long long x;", "an integer of more than 64 bits"),
        ("(device float*)(ulong)shared", "an address from a number"),
        (
            "reinterpret_cast<device float*>(static_cast<ulong>(x))",
            "an address from a number",
        ),
    ],
)
def test_what_metal_has_not_is_seen(text: str, what: str) -> None:
    assert refused(text) == [what]


def named_again(text: str) -> set[str]:
    """Names that a statement as a value declares inside of another one that has declared them."""
    open_names: list[set[str]] = []
    found: set[str] = set()
    for token in re.finditer(r"\(\{|\}\)|const \w+ (common\d+) =", text):
        if token[0] == "({":
            open_names.append(set())
        elif token[0] == "})":
            open_names.pop()
        else:
            found |= {token[1]} & set().union(*open_names)
            open_names[-1].add(token[1])
    return found


@pytest.mark.slow
def test_names_inside_of_a_value_are_its_own() -> None:
    """A guard around what has names, which are used inside of it: the inner ones must not hide them."""
    smoothed = next(p for p in ROWS if p.name == "smoothed")
    entries = (("smoothed", smoothed.graph),)
    lowered = lower_model(Traced("s", "1", entries, ()), {}, target=parse_target("metal")).lowered
    texts = [metal_kernel_body(k.name, k.program, k.parameters, "").body for k in lowered.kernels]
    assert any(text.count("({") > 2 for text in texts)
    kernels_alone = (text.partition("EMULATED_KERNEL")[0] for text in texts)
    assert not set().union(*map(named_again, kernels_alone))
    assert named_again("({ const float common0 = 1; ({ const float common0 = 2; }) })")


def test_statistics_of_columns_are_cut_where_no_thread_holds_rows() -> None:
    normal = next(p for p in ROWS if p.name == "normal_columns")
    model = Traced("n", "1", (("normal", normal.graph),), ())
    assert len(lower_model(model, {}, target=parse_target("metal")).lowered.kernels) > 1


@pytest.mark.slow
def test_address_spaces_are_kept_apart(project: Path) -> None:
    folders = (f"-I{project / f}" for f in ("", "runtime", "kernels"))
    flags = ["-D__METAL_VERSION__=310", "-DLUMIGEN_NS=programs_impl", *folders]
    found = {path.name: address_spaces(path, *flags) for path in kernels(project)}
    if None in found.values():
        pytest.skip("no clang++, which reads kernels for their address spaces")
    assert not {name: text for name, text in found.items() if text}


def test_the_host_keeps_to_metal_cpp(project: Path) -> None:
    metal_cpp = os.environ.get("LUMIGEN_METAL_CPP")
    if not metal_cpp:
        pytest.skip("LUMIGEN_METAL_CPP does not say where Apple's metal-cpp is")
    folders = [f"-I{project / f}" for f in ("", "runtime")]
    sources = [*(project / "runtime").glob("*.cpp"), project / "src" / "model.cpp"]
    flags = ("-DLUMIGEN_NS=programs_impl", *folders)
    found = {path.name: read_with_metal_cpp(path, metal_cpp, *flags) for path in sources}
    assert not {name: text for name, text in found.items() if text}
    wrong = project / "wrong.cpp"
    text = (project / "runtime" / "gpu.cpp").read_text(encoding="utf-8")
    wrong.write_text(
        text.replace("setThreadgroupMemoryLength(", "setThreadgroupMemoryLength(nullptr, ")
    )
    assert "error" in read_with_metal_cpp(wrong, metal_cpp, *flags)


def save_aligned(arrays: dict[str, np.ndarray], file: Path) -> tuple[int, int]:
    """(bytes of those that do not begin at a multiple of four elements, in lines of 256; bytes of all)."""
    for padding in ("", "of 8 bytes"):
        save_file(arrays, file, {"padding": padding})
        text = file.read_bytes()
        start = 8 + int.from_bytes(text[:8], "little")
        rows = json.loads(text[8:start])
        places = {name: start + rows[name]["data_offsets"][0] for name in arrays}
        copied = [x for name, x in arrays.items() if places[name] % (4 * x.itemsize) != 0]
        if len(copied) < len(arrays) // 2:
            break
    return sum(-(-x.nbytes // 256) * 256 for x in copied), sum(x.nbytes for x in arrays.values())


def check_calls(project: Path) -> None:
    """Weights stay where the file is mapped, but for those that do not begin at a multiple of four elements.

    The first call makes its buffers; each has one command buffer and one encoder, for several launches.
    """
    traced = programs()
    zeros = {w.name: np.zeros(w.shape, w.dtype.numpy) for w in traced.weights}
    copied, total = save_aligned(zeros, project / "zeros.safetensors")
    assert copied < total // 10
    main = Path(__file__).parent / "native" / "metal" / "calls.cpp"
    folders = (f"-I{project / f}" for f in ("include", "emulator"))
    built = project / "build" / "metal-emulated"
    own = (f"-D{name}=programs_impl_{name}" for name in ("NS", "MTL", "metal", "emulated"))
    flags = (
        *own,
        "-std=c++17",
        "-Wall",
        "-Wextra",
        "-Werror",
        *folders,
        f"-L{built}",
        "-lprograms",
        "-lpthread",
    )
    done = said("c++", str(main), "-o", str(built / "calls"), *flags)
    assert done.returncode == 0, done.stderr
    done = said(str(built / "calls"), str(project / "zeros.safetensors"))
    assert done.returncode == 0, done.stderr
    opened, *calls = done.stdout.splitlines()
    assert opened.endswith(f"{len(zeros)} weights, {copied} bytes of them copied")
    first, *others = ([int(n) for n in line.split()] for line in calls)
    assert first[0] > 0
    assert [call[:3] for call in others] == [[0, 1, 1]] * 2
    assert all(call[3] > 1 for call in others)


def check_symbols(project: Path) -> None:
    """Each symbol has the model's name, but for those of inline functions: models link into one program."""
    library = project / "build" / "metal-emulated" / "libprograms.a"
    done = said("nm", "--defined-only", "--extern-only", str(library))
    assert done.returncode == 0, done.stderr
    rows = [line.split() for line in done.stdout.splitlines() if len(line.split()) == 3]
    names = {name for _, kind, name in rows if kind not in "WVu"}
    assert any("emulated" in name for name in names)
    assert not {name for name in names if "programs" not in name}
    inline = {name for _, kind, name in rows if kind in "WVu" and "emulated" in name}
    alike = {"emulated_switch"}  # of the processor, in assembly
    assert not {name for name in inline - alike if "programs" not in name}


@pytest.mark.slow
def test_the_emulated_project_passes_its_tests(project: Path) -> None:
    """Each kernel against its reference, in two orders of threads, and each entry against the interpreter."""

    def run(*command: str) -> str:
        done = subprocess.run(
            command, cwd=project, capture_output=True, text=True, timeout=1200, check=False
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    run("cmake", "--preset", "metal-emulated", "-G", "Ninja", "-DPROGRAMS_FROM_SOURCE=ON")
    run("cmake", "--build", "--preset", "metal-emulated")
    one_source = project / "build" / "metal-emulated" / "programs.metal"
    assert not said_of_shaders(one_source, "programs_impl")  # a second compiler
    text = run("ctest", "--preset", "metal-emulated", "-V")
    assert "100% tests passed" in text
    assert "Skipped" not in text
    assert text.count(" 0 do not") == 2
    check_calls(project)
    check_symbols(project)
    # without waiting for what it reads, and the tests must see it
    entry = project / "src" / "convolution.cpp"
    text = entry.read_text(encoding="utf-8")
    assert "call.wait_for_launches();" in text
    entry.write_text(text.replace("call.wait_for_launches();", ""), encoding="utf-8")
    run("cmake", "--build", "--preset", "metal-emulated", "--target", "programs_entries_test")
    test = project / "build" / "metal-emulated" / "programs_entries_test"
    seeds = [{"LUMIGEN_EMULATOR_SEED": str(seed)} for seed in range(4)]
    assert said(str(test), env=seeds[0]).returncode == 0
    assert any(said(str(test), env=seed).returncode == 1 for seed in seeds[1:])
    # a barrier less, and the tests must see it
    without = next(p for p in kernels(project) if p.stem.endswith("_pipeline"))
    text = without.read_text(encoding="utf-8")
    barrier = "threadgroup_barrier(mem_flags::mem_threadgroup);"
    assert barrier in text
    without.write_text(text.replace(barrier, ""), encoding="utf-8")
    run("cmake", "--build", "--preset", "metal-emulated", "--target", "programs_kernels_test")
    test = project / "build" / "metal-emulated" / "programs_kernels_test"
    done = said(str(test), without.stem, env={"LUMIGEN_EMULATOR_SEED": "1"})
    assert done.returncode == 1, done.stdout


@pytest.mark.slow
def test_a_sample_agrees_with_the_interpreter() -> None:
    """Of what docs/metal_emulated.md has all of; other programs, and threads in another order, with each commit."""
    seed = commit()
    part = metal_emulated.sample(seed, 10)
    assert len(part.names) == 10
    order = Random(seed).randrange(1, 1000)
    assert not metal_emulated.run(part, order), f"{part} of the sample of {seed}, order {order}"


# ---- what it refuses ----------------------------------------------------------------------------


def test_f64_is_refused_with_what_can_do_it() -> None:
    model = lg.Model("doubles")

    @model.entry(x=lg.spec(4, dtype=lg.f64))
    def twice(x: lg.Tensor) -> lg.Tensor:
        return x * 2

    said = (
        r"no f64, in which twice computes at test_metal_target\.py:\d+\. Choose one of: cpu, cuda"
    )
    with pytest.raises(UnsupportedTarget, match=said):
        lower_model(model.trace(), {}, target=parse_target("metal"))


def test_a_readme_says_what_this_target_needs(project: Path) -> None:
    text = (project / "README.md").read_text(encoding="utf-8")
    options = set(re.findall(r"(?<=-D)\w+|PROGRAMS_\w+", text))
    assert {"PROGRAMS_METAL_CPP", "PROGRAMS_FROM_SOURCE"} <= options
    assert "--preset metal-emulated" in text
    assert "instruction set" not in text
    lists = (project / "CMakeLists.txt").read_text(encoding="utf-8")
    assert not {o for o in options if o not in lists}
    header = (project / "include" / "programs.h").read_text(encoding="utf-8")
    assert "all cores" not in header


def test_words_for_memory_are_no_names() -> None:
    model = lg.Model("named")

    @model.entry(ray_data=lg.spec(4), object_data=lg.spec(4), device=lg.spec(4))
    def added(ray_data: lg.Tensor, object_data: lg.Tensor, device: lg.Tensor) -> lg.Tensor:
        return ray_data + object_data + device

    lowered = lower_model(model.trace(), {}, target=parse_target("metal")).lowered
    names = {p.name for k in lowered.kernels for p in k.parameters}
    assert {"ray_data_", "object_data_", "device_"} <= names


@pytest.mark.slow
def test_what_is_not_there_is_illegal_and_says_why() -> None:
    """Every change of every schedule of the programs builds a kernel that has text, or is refused."""
    compiled = lower_model(programs(), {}, target=parse_target("metal"))
    reasons: set[str] = set()
    for kernel in compiled.lowered.kernels:
        found, _ = METAL.lower(kernel.region)
        for other in METAL.changes(found):
            for plan, sizes in zip(other.plan.kernels, other.schedules, strict=True):
                built = METAL.build(plan, sizes)
                assert isinstance(built, Built | Illegal)
                if isinstance(built, Illegal):
                    reasons.add(built.reason)
        for plan, sizes in zip(found.plan.kernels, found.schedules, strict=True):
            for site in ("width", "hold", "blocks", "stages"):
                if sizes.get(site, None) is not None:
                    assert isinstance(METAL.build(plan, sizes.at(site, 2)), Illegal)
    assert not any("bug" in reason for reason in reasons)


XCRUN = '#!/bin/sh\nwhile [ $# -gt 0 ]; do [ "$1" = -o ] && echo "MTLB" > "$2"; shift; done\n'


def check_kernels_of_a_mac(project: Path, folder: Path) -> None:
    """A library of kernels is made where Xcode's tools are, and again where a header has changed.

    The tools are stand-ins that write files; clang makes the object that has the library inside.
    """
    tools, metal_cpp = folder / "tools", folder / "metal-cpp" / "Metal"
    for made in (tools, metal_cpp):
        made.mkdir(parents=True)
    (metal_cpp / "Metal.hpp").touch()
    xcrun = tools / "xcrun"
    xcrun.write_text(XCRUN, encoding="utf-8")
    xcrun.chmod(0o755)
    env = os.environ | {"PATH": f"{tools}{os.pathsep}{os.environ['PATH']}"}
    mac = (
        *("-DCMAKE_SYSTEM_NAME=Darwin", "-DCMAKE_SYSTEM_VERSION=23"),
        *("-DCMAKE_OSX_DEPLOYMENT_TARGET=14.0", "-DCMAKE_TRY_COMPILE_TARGET_TYPE=STATIC_LIBRARY"),
        *("-DCMAKE_CXX_COMPILER=clang++", f"-DCMAKE_AR={shutil.which('ar')}"),
        "-DCMAKE_CXX_FLAGS=-target arm64-apple-macos14 -stdlib=libc++",
        *("-DCMAKE_HAVE_LIBC_PTHREAD=ON", f"-DDIGITS_METAL_CPP={metal_cpp.parent}"),
        *("-DDIGITS_TESTS=OFF", "-DDIGITS_WERROR=ON"),
    )
    built = folder / "mac"
    done = said("cmake", "-G", "Ninja", "-S", str(project), "-B", str(built), *mac, env=env)
    assert done.returncode == 0, done.stderr
    made = "CMakeFiles/digits_kernels.dir/library.cpp.o"
    build = ("ninja", "-C", str(built), made)
    done = said(*build, env=env)
    assert done.returncode == 0, done.stdout
    assert "digits.metallib" in done.stdout
    assert "warning" not in done.stdout
    assert (built / made).read_bytes().count(b"MTLB") == 1
    header = project / "kernels" / "k00_product_pipeline.h"
    header.write_text(header.read_text(encoding="utf-8") + "\n", encoding="utf-8")
    assert "library.cpp.o" in said(*build, env=env).stdout


def test_no_file_has_options_for_one_configuration(project: Path) -> None:
    """Xcode's generator refuses them, and does not see what else an object of a file depends on."""
    lists = (project / "CMakeLists.txt").read_text(encoding="utf-8")
    calls = re.findall(r"set_source_files_properties\([^()]*\)", lists)
    assert calls
    assert not [call for call in calls if "$<" in call or "OBJECT_DEPENDS" in call]


def test_the_digits_compile_on_any_machine(tmp_path: Path) -> None:
    out = tmp_path / "digits"
    assert cli.run(["compile", str(DIGITS), "--target", "metal", "--no-build", "-o", str(out)]) == 0
    assert (out / "emulator" / "metal_stdlib").is_file()
    carried = {p.name for p in (out / "emulator").iterdir() if p.is_dir()}
    assert carried == {"Foundation", "Metal", "dispatch", "emulated"}  # what a build of it reads
    if shutil.which("clang++") is None:
        pytest.skip("no clang++, which makes objects for Macs: the kernels of a Mac were not built")
    check_kernels_of_a_mac(out, tmp_path)
    assert {p.suffix for p in (out / "kernels").glob("k*")} == {".metal", ".h"}

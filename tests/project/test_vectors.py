"""Stored vectors: the tests' numbers in numpy, what is stored and what is not, and that it counts."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path

import numpy as np
import pytest

import lumigen as lg
from lumigen import nn
from lumigen.build import build_project, write_project
from lumigen.dtype import DTYPES, i64
from lumigen.emit import kernel_vectors as kernel_module
from lumigen.emit import vectors as module
from lumigen.emit.counter import elements, few, fill, sample
from lumigen.emit.kernel_vectors import kernel_vectors
from lumigen.emit.project import render_project
from lumigen.emit.vectors import vectors
from lumigen.interp.region import evaluate
from lumigen.make_project import compile_project
from lumigen.pipeline import lower_model
from lumigen.program import CompiledModel, OutputArg
from lumigen.resources import templates_dir
from lumigen.targets.cuda.row import CUDA

NATIVE = Path(__file__).parent / "native"


class Net(nn.Module):
    def __init__(self) -> None:
        self.table = nn.Embedding(50, 6)
        self.inner = nn.Linear(6, 8)
        self.outer = nn.Linear(8, 3)


def several() -> lg.Model:
    """Products, lookups, attention, integers that floats decide, narrow floats, a bare number."""
    net = Net()
    model = lg.Model("several", net)
    batch, n = lg.Dim("batch", 1, 8), lg.Dim("n", 2, 40, multiple_of=2)

    @model.entry(x=lg.spec(batch, 6))
    def classify(x):
        probs = net.outer(net.inner(x).relu()).softmax(-1)
        return {"probs": probs, "best": probs.argmax(-1), "sure": probs.amax(-1) > 0.34}

    @model.entry(ids=lg.spec(batch, n, dtype=lg.i64, range=(0, 49)))
    def attend(ids):
        x = net.table(ids) * 20
        scores = (x @ x.transpose(-1, -2)).softmax(-1)
        return net.inner(scores @ x)

    @model.entry(
        half=lg.spec(n, dtype=lg.f16),
        brain=lg.spec(n, 300, dtype=lg.bf16),
        wide=lg.spec(n, dtype=lg.f64),
        i=lg.spec(n, dtype=lg.i32, range=(-9, 9)),
    )
    def narrow(half, brain, wide, i):
        return {
            "more": half * 2 + half,
            "grown": brain.exp(),
            "total": wide.sin().sum(),
            "square": i * i,
        }

    @model.entry(x=lg.spec(64))
    def noise(x):
        return {"units": (x * 1e6).to(lg.i32), "third": x / 3}

    return model


def parts(traced):
    """What a project is made from."""
    model = lower_model(traced, {}).model
    return model, vectors(model, traced.entries)


def kernel_parts(traced, **options):
    """The same with the vectors of kernels, and what kernels mean."""
    compiled = lower_model(traced, {}, **options)
    kernels = compiled.lowered.kernels
    return compiled.model, kernel_vectors(compiled.model, kernels), kernels


@pytest.fixture(scope="module")
def traced():
    return several().trace()


@pytest.fixture(scope="module")
def project(traced, tmp_path_factory) -> Path:
    directory = tmp_path_factory.mktemp("several")
    model, stored = parts(traced)
    _, of_kernels, _ = kernel_parts(traced)
    write_project(render_project(model, vectors=stored, kernel_vectors=of_kernels), directory)
    build_project(directory, python=False, tests=True)
    return directory


def run_test(
    directory: Path, what: str = "entries", isa: str = "baseline"
) -> subprocess.CompletedProcess[str]:
    program = directory / "build" / "release" / f"several_{what}_test"
    return subprocess.run([program, isa], capture_output=True, text=True, check=False, timeout=120)


# --- numbers --------------------------------------------------------------------------------------


@pytest.mark.slow
def test_numpy_makes_the_numbers_of_the_tests(tool, tmp_path):
    program = tmp_path / "dump"
    flags = [
        "-std=c++17",
        "-Wall",
        "-Wextra",
        "-Werror",
        f"-I{templates_dir() / 'project'}",
    ]
    source = NATIVE / "counter_dump.cpp"
    subprocess.run([tool("c++"), *flags, "-O1", source, "-o", program], check=True)
    run = subprocess.run([program], capture_output=True, text=True, check=True)
    lines = run.stdout.splitlines()
    info = np.iinfo(np.int64)
    for dtype in DTYPES:
        lo, hi = (int(info.min), int(info.max)) if dtype is i64 else (0, 1)
        for count in (7, 40000):
            for scale in (1.0, 0.05):
                made = fill(dtype, count, 100, lo, hi, scale)
                assert made.tobytes().hex() == lines.pop(0), (dtype, count, scale)
    for count in (0, 5, 48, 49, 280, 281, 100000):
        for chosen in (sample(count), few(count)):
            assert chosen.tolist() == [int(e) for e in lines.pop(0).split()]


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_an_element_is_the_same_alone(dtype):
    whole = fill(dtype, 40000, 9, -3, 4)
    at = np.array([[0, 39999], [32767, 32768], [5, 5]])
    np.testing.assert_array_equal(elements(dtype, at, 9, -3, 4), whole[at])
    assert elements(dtype, np.array(7), 9, -3, 4) == whole[7]


# --- what is stored -------------------------------------------------------------------------------


@pytest.mark.slow
def test_points_are_the_least_and_a_small_odd_one(traced):
    _, stored = parts(traced)
    assert [v.dims for v in stored["attend"]] == [(1, 2), (3, 10)]
    assert [v.dims for v in stored["narrow"]] == [(2,), (6,)]
    assert [v.dims for v in stored["noise"]] == [()]


@pytest.mark.slow
def test_long_outputs_are_sampled(traced):
    _, stored = parts(traced)
    more, grown, total, square = stored["narrow"][1].outputs
    assert [len(more), len(grown), len(total), len(square)] == [6, 280, 1, 6]


@pytest.mark.slow
def test_an_integer_that_a_rounding_error_decides_is_not_stored(traced):
    model, stored = parts(traced)
    units, third = stored["noise"][0].outputs
    assert units is None
    assert len(third) == 64
    assert None not in stored["classify"][1].outputs
    text = render_project(model, vectors=stored)["tests/vectors/noise.h"]
    assert "// units: i32[64]; not stored: a rounding error may give another integer" in text


@pytest.mark.slow
def test_too_much_work_is_not_done_and_said_so(traced, monkeypatch):
    monkeypatch.setattr(module, "MAX_WORK", 1000)
    model, stored = parts(traced)
    assert stored["attend"] == ()
    text = render_project(model, vectors=stored)["tests/vectors/attend.h"]
    assert "// None are stored" in text


@pytest.mark.slow
def test_vectors_are_stable_and_of_the_meaning(traced):
    model, stored = parts(traced)
    assert vectors(model, several().trace().entries) == stored
    x = fill(lg.f32, 18, 1, 0, 7).reshape(3, 6)
    shapes = {s.weight.name: s.weight.shape for s in model.weights}
    streams = {name: stream for stream, name in enumerate(shapes, 100)}

    def weight(name):
        flat = fill(lg.f32, int(np.prod(shapes[name])), streams[name], 0, 1, 0.05)
        return flat.reshape(shapes[name]).astype(np.float64)

    h = np.maximum(x @ weight("inner.weight").T + weight("inner.bias"), 0)
    e = np.exp(h @ weight("outer.weight").T + weight("outer.bias"))
    probs = np.asarray(stored["classify"][1].outputs[0]).reshape(3, 3)
    np.testing.assert_allclose(probs, e / e.sum(-1, keepdims=True), rtol=1e-6)


# --- what is stored of kernels --------------------------------------------------------------------


def kernel_of(model: CompiledModel, entry: str, output: str) -> str:
    """The kernel that writes an output."""
    (program,) = (p for p in model.programs if p.entry == entry)
    (name,) = (x.kernel for x in program.launches if OutputArg(output) in x.arguments)
    return name


@pytest.mark.slow
def test_kernels_are_stored_at_the_points_of_their_entries(traced):
    model, stored, _ = kernel_parts(traced)
    assert stored.keys() == {k.name for k in model.kernels}
    assert [v.dims for v in stored[kernel_of(model, "attend", "out")]] == [(1, 2), (3, 10)]
    assert [v.dims for v in stored[kernel_of(model, "narrow", "square")]] == [(2,), (6,)]
    assert [v.dims for v in stored[kernel_of(model, "noise", "third")]] == [()]
    grown = stored[kernel_of(model, "narrow", "grown")]
    assert [len(v.outputs[0]) for v in grown] == [48, 48]


def test_what_dims_do_not_change_is_stored_once():
    model = lg.Model("still")

    @model.entry(x=lg.spec(lg.Dim("batch", 1, 8), 4), w=lg.spec(4, 4))
    def apply(x, w):
        return {"y": x + 1, "z": w.exp()}

    compiled, stored, _ = kernel_parts(model.trace())
    assert [v.dims for v in stored[kernel_of(compiled, "apply", "y")]] == [(1,), (3,)]
    assert [v.dims for v in stored[kernel_of(compiled, "apply", "z")]] == [(1,)]


@pytest.mark.slow
@pytest.mark.parametrize("options", [{}, {"dtype": lg.bf16}, {"target": CUDA}], ids=str)
def test_what_is_stored_is_what_the_region_means(traced, options):
    """The whole region, from whole buffers as the test in C++ fills them."""
    model, stored, kernels = kernel_parts(traced, **options)
    dims = {x.kernel: p.dims for p in reversed(model.programs) for x in reversed(p.launches)}
    text = render_project(model, kernel_vectors=stored)["tests/kernels_test.cpp"]
    for k in kernels:
        struct = text[text.index(f"struct case_{k.name} {{") :]
        rows = re.findall(r"buffer_(\w+) = filled\(.*, (\d+), (-?\d+), (-?\d+)\);", struct)
        ranges = {name: tuple(map(int, row)) for name, *row in rows[: len(k.program.args)]}
        assert stored[k.name]
        for vector in stored[k.name]:
            numbers = dict(zip(dims[k.name], vector.dims, strict=True))
            buffers = {}
            for b in k.program.args:
                shape = [int(e.evaluate(numbers)) for e in b.dims]
                buffers[b.name] = fill(b.dtype, int(np.prod(shape)), *ranges[b.name]).reshape(shape)
            results = evaluate(k.region, buffers, numbers).values()
            for output, found in zip(vector.outputs, results, strict=True):
                if output is not None:
                    chosen = found.reshape(-1)[few(found.size)].astype(np.float64)
                    close = 1e-2 if found.dtype.itemsize == 2 else 1e-6
                    np.testing.assert_allclose(output, chosen, close, 1e-9)


@pytest.mark.slow
def test_an_integer_of_a_kernel_that_a_rounding_error_decides_is_not_stored(traced):
    model, stored, _ = kernel_parts(traced)
    units = kernel_of(model, "noise", "units")
    assert stored[units][0].outputs == (None,)
    assert None not in stored[kernel_of(model, "narrow", "square")][1].outputs
    text = render_project(model, kernel_vectors=stored)[f"tests/vectors/kernels/{units}.h"]
    assert "// units: i32; not stored: a rounding error may give another integer" in text


@pytest.mark.slow
def test_a_kernel_of_too_much_work_is_not_stored_and_that_is_said(traced, monkeypatch):
    monkeypatch.setattr(kernel_module, "MAX_VALUES", 100)
    model, stored, _ = kernel_parts(traced)
    name = kernel_of(model, "narrow", "grown")
    assert stored[name] == ()
    text = render_project(model, kernel_vectors=stored)[f"tests/vectors/kernels/{name}.h"]
    assert "// None are stored" in text


def test_a_kernel_of_many_layers_is_stored_once():
    layers = nn.ModuleList([nn.Linear(300, 300) for _ in range(5)])
    model = lg.Model("deep", layers)

    @model.entry(x=lg.spec(lg.Dim("batch", 1, 8), 300))
    def apply(x):
        for layer in layers:
            x = layer(x).relu()
        return x

    compiled, stored, _ = kernel_parts(model.trace())
    assert len(compiled.programs[0].launches) == 5
    files = render_project(compiled, kernel_vectors=stored)
    found = [p for p in files if p.startswith("tests/vectors/kernels/")]
    assert len(found) == len(compiled.kernels) == 1
    assert len(files[found[0]]) < 4000


# --- the project ----------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("isa", ["baseline", "avx2", "avx512"])
@pytest.mark.parametrize("what", ["entries", "kernels"])
def test_a_project_gives_what_is_stored(project, what, isa):
    run = run_test(project, what, isa)
    assert run.returncode in {0, 77}, run.stdout


@pytest.mark.slow
def test_a_broken_kernel_differs_from_what_is_stored(project, broken):
    texts = {p: p.read_text() for p in sorted((project / "kernels").glob("k*.cpp"))}
    maxima = [p for p, text in texts.items() if "max_ordered(" in text and "splat(0.0f)" in text]
    path = str(maxima[0].relative_to(project))
    broken(project, path, "splat(0.0f)", "splat(-1.0f)", python=False)
    run = run_test(project)
    assert run.returncode == 1
    failed = [line for line in run.stdout.splitlines() if line.startswith("FAILED")]
    assert any("[classify] probs differs from what is stored at batch=3" in f for f in failed)
    assert all("[classify]" in f for f in failed), run.stdout


def scaled() -> lg.Model:
    model = lg.Model("several")

    @model.entry(x=lg.spec(lg.Dim("batch", 1, 8), 40))
    def apply(x):
        return x * 3.5 + 1

    return model


@pytest.mark.slow
def test_a_kernel_broken_like_its_reference_is_named_with_its_line(tmp_path):
    """What is stored notices it, where kernel and reference agree; and it notices either of them alone."""
    traced = scaled().trace()
    model, stored, (kernel,) = kernel_parts(traced)
    files = render_project(model, kernel_vectors=stored)
    paths = [f"kernels/{kernel.name}.cpp", f"tests/references/{kernel.name}.cpp"]
    line = next(x.line for x in kernel.lines)

    def failures(*broken: str) -> list[str]:
        changed = {path: files[path].replace("3.5", "4.5") for path in broken}
        assert all(changed[path] != files[path] for path in broken)
        write_project(files | changed, tmp_path, force=True)
        build_project(tmp_path, python=False, tests=True, isa="baseline")
        run = run_test(tmp_path, "kernels")
        assert run.returncode == (1 if broken else 0), run.stdout
        # a failure, the kernel's title, what differs
        parts = run.stdout.split(f"FAILED {kernel.name} (test_vectors.py:{line})\n")[1:]
        return [p.splitlines()[1].strip() for p in parts]

    def at_the_second_point(found: list[str]) -> list[str]:
        """What differs from what, at the dims that only what is stored adds."""
        found = [f for f in found if " at batch=3: element" in f]
        return [f"{f.split(' at ')[0]} by {f.split(' by ')[1].split(',')[0]}" for f in found]

    assert failures() == []
    both, alone, reference = failures(*paths), failures(paths[0]), failures(paths[1])
    kernel_differs, reference_differs = (
        f"{what} by what is stored" for what in ("out", "the reference of out")
    )
    assert at_the_second_point(both) == [kernel_differs, reference_differs]
    assert at_the_second_point(alone) == ["out by the reference", kernel_differs]
    assert at_the_second_point(reference) == ["out by the reference", reference_differs]


# --- the manifest ---------------------------------------------------------------------------------


@pytest.mark.slow
def test_manifest_has_the_hash_of_the_weights(tmp_path):
    linear = nn.Linear(4, 3)
    model = lg.Model("one", linear)

    @model.entry(x=lg.spec(lg.Dim("batch", 1, 8), 4))
    def apply(x):
        return linear(x)

    rng = np.random.default_rng(0)
    arrays = {"weight": rng.normal(size=(3, 4)), "bias": rng.normal(size=3)}
    arrays = {name: a.astype(np.float32) for name, a in arrays.items()}

    def recorded(weights):
        compile_project(model.trace(), directory=tmp_path, weights=weights, build=False)
        return json.loads((tmp_path / "manifest.json").read_text())["weights_hash"]

    assert recorded(None) is None
    first = recorded(arrays)
    data = (tmp_path / "weights" / "one.safetensors").read_bytes()
    header = json.loads(data[8 : 8 + int.from_bytes(data[:8], "little")])
    assert header["__metadata__"]["lumigen.hash"] == first
    assert recorded(arrays) == first
    assert recorded({**arrays, "bias": arrays["bias"] + 1}) != first

"""Names that users choose: they stand beside ours in every emitted file, or are refused while tracing."""

from __future__ import annotations

import subprocess
from pathlib import Path

import numpy as np
import pytest

import lumigen as lg
from lumigen import fast_lane
from lumigen.emit.project import render_project
from lumigen.errors import BadArgument
from lumigen.lower.assemble import assemble
from lumigen.names import taken_by
from lumigen.pipeline import lower_model
from lumigen.targets.cpu.device import CPU

# What kernels call their arguments, numbers, locals and functions; keywords, types and macros.
KERNEL_WORDS = (
    *("x0", "x1", "out", "w0", "row_tiles", "column_tiles", "task", "args", "raw", "scratch", "m0"),
    *("v0", "acc0", "a_tile", "rows_each", "lanes", "load", "int", "int64_t", "EOF", "dims", "k"),
)
# What entries, headers and examples call their own things.
ENTRY_WORDS = (
    *("context", "model", "status", "dims", "args", "Tensor", "Status", "View", "fail", "tensor"),
    *("kernels", "copies", "borrow", "buffer", "options", "check_tensor", "index_min", "data_of"),
    *("error", "argv", "detail", "x", "x_shape", "dims_", "handle", "float16", "s", "printf"),
)


def model_of(name: str = "named", entry: str = "go", dims=("rows",), inputs=("x",), outputs=("y",)):
    """Every input has every dim as an extent; there is an output for each input."""
    model = lg.Model(name)
    extents = [lg.Dim(d, 1, 40) for d in dims]

    def function(**given):
        return {o: given[i] * 2.0 + 1.0 for o, i in zip(outputs, inputs, strict=True)}

    function.__name__ = entry
    model.entry(**{i: lg.spec(*extents, 3) for i in inputs})(function)
    return model


def render(model: lg.Model) -> dict[str, str]:
    return render_project(lower_model(model.trace(), {}).model)


def compile_files(files: dict[str, str], directory: Path, wanted: tuple[str, ...]) -> None:
    """Whether C and C++ take the files whose paths start so, as tests of names would have it."""
    for path, text in files.items():
        (directory / path).parent.mkdir(parents=True, exist_ok=True)
        (directory / path).write_text(text)
    includes = [f"-I{directory / folder}" for folder in (".", "include", "runtime")]
    defines = ["-DLUMIGEN_NS=named_impl", "-DLUMIGEN_HAS_BASELINE"]
    for path in sorted(p for p in files if p.startswith(wanted) and p.endswith((".c", ".cpp"))):
        compiler = ["gcc", "-std=gnu11"] if path.endswith(".c") else ["g++", "-std=gnu++17"]
        isa = ["-DLUMIGEN_ISA=isa_baseline"] * path.startswith("kernels/")
        command = [*compiler, "-fsyntax-only", *defines, *isa, *includes, str(directory / path)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 0, f"{path}\n{done.stderr[:2000]}"


@pytest.mark.slow
def test_dims_may_be_called_like_anything_in_a_kernel(tmp_path, monkeypatch, rng):
    """One library of a kernel of each skeleton for each name; their numbers are numpy's."""
    monkeypatch.setenv("LUMIGEN_CACHE", str(tmp_path))
    entries = []
    for word in KERNEL_WORDS:
        model = lg.Model("named")
        rows, deep = lg.Dim(word, 1, 40), lg.Dim("deep", 1, 9)

        @model.entry(x=lg.spec(rows, deep), y=lg.spec(deep, rows))
        def go(x, y):
            return {"p": (x @ y).exp(), "q": x.sum(0) * x.shape[0]}

        entries.append((f"on_{word}", model.trace().entries[0][1]))
    loaded = fast_lane.load(assemble(tuple(entries), CPU), "-O0")
    x, y = rng.normal(size=(7, 5)).astype(np.float32), rng.normal(size=(5, 7)).astype(np.float32)
    for name, _ in entries:
        got = loaded.run(name, {"x": x, "y": y}, {})
        np.testing.assert_allclose(got["p"], np.exp(x @ y), rtol=1e-5, err_msg=name)
        np.testing.assert_allclose(got["q"], x.sum(0) * 7, rtol=1e-4, atol=1e-5, err_msg=name)


def test_dims_and_kernel_numbers_are_told_apart_in_tile_programs():
    """A dim like a number that launches work out, even in its range, is still not that number."""
    most = 2**31
    rows = lg.Dim("row_tiles", 1, most)
    model = lg.Model("named")

    @model.entry(x=lg.spec(rows, 8), y=lg.spec(8, 16))
    def go(x, y):
        return x @ y

    for kernel in lower_model(model.trace(), {}).lowered.kernels:
        names = [d.name for d in kernel.program.dim_arguments]
        assert len(set(names)) == len(names)


@pytest.mark.slow
def test_dims_may_be_called_like_anything_in_a_project(tmp_path):
    dims = ("int", "int_", "x0", "x0_", "out", "linux", "EOF", "dims", "k_x_dim", "Dims", "values")
    files = render(model_of(dims=dims))
    compile_files(files, tmp_path, ("src/go", "kernels/k", "tests/", "examples/"))


@pytest.mark.slow
@pytest.mark.parametrize("as_inputs", [True, False])
def test_tensors_may_be_called_like_anything_in_an_entry(tmp_path, as_inputs):
    others = tuple(f"other{i}" for i in range(len(ENTRY_WORDS)))
    inputs, outputs = (ENTRY_WORDS, others) if as_inputs else (others, ENTRY_WORDS)
    files = render(model_of(inputs=inputs, outputs=outputs))
    compile_files(files, tmp_path, ("src/go", "examples/"))


@pytest.mark.slow
@pytest.mark.parametrize("as_inputs", [True, False])
def test_tensors_may_be_called_like_anything_in_a_kernel(tmp_path, as_inputs):
    words = tuple(w for w in (*KERNEL_WORDS, *ENTRY_WORDS) if taken_by(w) is None and w != "out")
    words = tuple(dict.fromkeys(words))
    others = tuple(f"other{i}" for i in range(len(words)))
    inputs, outputs = (words, others) if as_inputs else (others, words)
    files = render(model_of(inputs=inputs, outputs=outputs))
    compile_files(files, tmp_path, ("kernels/k", "src/go", "tests/references/"))


class Weighted(lg.nn.Module):
    def __init__(self):
        self.x_port = lg.nn.Parameter(3)


def test_a_weight_may_be_called_like_the_constant_of_a_tensor(tmp_path):
    model = lg.Model("named", Weighted())

    @model.entry(w_x=lg.spec(3))
    def go(w_x):
        return w_x + model.net.x_port

    compile_files(render(model), tmp_path, ("src/go",))


MEMBERS = ("cancel", "handle", "Model", "check", "tensors", "dims")


@pytest.mark.parametrize(
    "entry", ["View", *(pytest.param(n, marks=pytest.mark.slow) for n in MEMBERS)]
)
def test_entries_may_be_called_like_members(tmp_path, entry):
    compile_files(render(model_of(entry=entry)), tmp_path, (f"src/{entry}.cpp", "examples/cpp"))


REFUSED = [
    ({"name": "std"}, "'std'", "C++"),
    ({"name": "class"}, "'class'", "keyword"),
    ({"name": "math"}, "'math'", "<math.h>"),
    ({"name": "check"}, "'check'", "runtime"),
    ({"name": "test"}, "'test'", "CMake"),
    ({"name": "numpy"}, "'numpy'", "Python module"),
    ({"entry": "int"}, "'int'", "keyword"),
    ({"entry": "lambda"}, "'lambda'", "keyword"),
    ({"entry": "model"}, "'model'", "named_model"),
    ({"entry": "context_open"}, "'context_open'", "named_context_open"),
    ({"inputs": ["class"]}, "'class'", "keyword"),
    ({"inputs": ["NULL"]}, "'NULL'", "headers"),
    ({"inputs": ["out"]}, "'out'", "Python module"),
    ({"inputs": ["named_tensor"]}, "'named_tensor'", "the model itself"),
    ({"inputs": ["LUMIGEN_NS"]}, "'LUMIGEN_NS'", "headers"),
    ({"outputs": ["x"]}, "'x'", "an input"),
    ({"outputs": ["def"]}, "'def'", "keyword"),
    ({"outputs": ["named_go_dims"]}, "'named_go_dims'", "the entry go"),
    ({"dims": ["a-b"]}, "'a-b'", "C identifier"),
    ({"dims": ["NAMED_H"]}, "'NAMED_H'", "the macros of the model named"),
    ({"inputs": ["NAMED_API"]}, "'NAMED_API'", "the macros of the model named"),
    ({"outputs": ["NAMED_OK"]}, "'NAMED_OK'", "the macros of the model named"),
    ({"entry": "embedded"}, "'embedded'", "named_embedded"),
    ({"name": "a" * 101}, "of 101 characters", "100 at most"),
    ({"entry": "a" * 252}, "of 252 characters", "100 at most"),
    ({"dims": ["a" * 252]}, "of 252 characters", "100 at most"),
]


@pytest.mark.parametrize(("names", "name", "user"), REFUSED, ids=lambda v: str(v))
def test_other_names_are_refused_while_tracing(names, name, user):
    with pytest.raises(BadArgument) as caught:
        model_of(**names).trace()
    message = str(caught.value)
    assert "test_names.py:" in message
    assert name in message
    assert user in message


def test_entries_that_would_share_a_c_symbol_are_refused():
    model = model_of(entry="go")

    def go_shape(x):
        return x

    with pytest.raises(BadArgument, match="named_go_shape"):
        model.entry(x=lg.spec(3))(go_shape)

"""The pipeline as one: deterministic, verified, dumped; the small way; weights that do not fit."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
import torch
from safetensors.numpy import save_file

import lumigen as lg
from lumigen import errors, make_project, nn
from lumigen.emit.project import render_project
from lumigen.forms import FORMS, text_after
from lumigen.frontend import Traced
from lumigen.graph import Edge, Graph, binary, const, edge, shape, source, unary
from lumigen.identity import graph_hash
from lumigen.index import ix
from lumigen.make_project import compile_project
from lumigen.ops import Op
from lumigen.passes import run_pass
from lumigen.pipeline import lower_model
from lumigen.target import parse_target
from lumigen.trail import Trail
from lumigen.view import expand


def make_model(classes: int = 3) -> lg.Model:
    net = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, classes))
    model = lg.Model("small", net)

    @model.entry(x=lg.spec(lg.Dim("batch", 1, 64, typical=2), 4))
    def classify(x):
        return {"probs": net(x).softmax(-1)}

    return model


WEIGHTS = {"0.weight": (8, 4), "0.bias": (8,), "2.weight": (3, 8), "2.bias": (3,)}


@pytest.fixture
def arrays(rng: np.random.Generator) -> dict[str, np.ndarray]:
    return {name: rng.normal(size=shape).astype(np.float32) for name, shape in WEIGHTS.items()}


def tree(directory: Path) -> dict[str, bytes]:
    files = (p for p in directory.rglob("*") if p.is_file())
    return {p.relative_to(directory).as_posix(): p.read_bytes() for p in files}


# --- files ----------------------------------------------------------------------------------------


@pytest.mark.slow
def test_compiling_twice_gives_the_same_bytes(
    tmp_path: Path, arrays: dict[str, np.ndarray]
) -> None:
    traced = make_model().trace()
    first = compile_project(traced, directory=tmp_path / "a", weights=arrays, build=False)
    before = tree(tmp_path / "a")
    again = compile_project(
        make_model().trace(), directory=tmp_path / "b", weights=arrays, build=False
    )
    assert tree(tmp_path / "b") == before
    assert again.written.written == first.written.written
    same = compile_project(traced, directory=tmp_path / "a", weights=arrays, build=False)
    assert tree(tmp_path / "a") == before
    assert (same.written.written, same.written.removed) == ((), ())


@pytest.mark.slow
def test_bytes_depend_on_no_hash_seed_and_no_directory(tmp_path: Path) -> None:
    model = Path(__file__).parent.parent / "examples" / "digits" / "model.py"
    found: list[dict[str, bytes]] = []
    for seed in ("1", "2"):
        place = tmp_path / seed
        place.mkdir()
        (place / "model.py").write_bytes(model.read_bytes())
        code = (
            "from lumigen.cli import main; main(['compile', 'model.py', '--no-build', '-o', 'out'])"
        )
        environment = {
            "PYTHONPATH": str(Path(__file__).parent.parent),
            "PYTHONHASHSEED": seed,
            "PATH": "",
        }
        command = [sys.executable, "-c", code]
        subprocess.run(command, cwd=place, env=environment, check=True, capture_output=True)
        found.append(tree(place / "out"))
    assert found[0] == found[1]


def test_the_graph_hash_is_of_the_meaning() -> None:
    traced = make_model().trace()
    bare = replace(traced, entries=tuple((n, replace(g, lines={})) for n, g in traced.entries))
    renamed = replace(traced, entries=tuple(("other", g) for _, g in traced.entries))
    assert graph_hash(traced) == graph_hash(bare)
    assert graph_hash(traced) != graph_hash(renamed)


def test_the_graph_hash_is_of_no_folder(tmp_path: Path) -> None:
    """Nor does the body of a loop bring one. In processes of their own: equal graphs are one in a process."""
    text = """
import lumigen as lg

net = lg.nn.RNN(3, 4)
model = lg.Model("steps", net)

@model.entry(x=lg.spec(5, 3))
def run(x):
    return net(x)[0]
"""
    code = """
import sys, lumigen as lg
from lumigen.identity import graph_hash
from lumigen.index import ix
print(graph_hash(lg.load_model_file(sys.argv[1]).trace()))
"""
    found: set[str] = set()
    for folder in (tmp_path / "here", tmp_path / "there"):
        folder.mkdir()
        (folder / "model.py").write_text(text)
        command = [sys.executable, "-c", code, str(folder / "model.py")]
        found.add(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    assert len(found) == 1


@pytest.mark.slow
def test_a_summary_says_what_the_model_costs(tmp_path: Path) -> None:
    summary = compile_project(make_model().trace(), directory=tmp_path / "out", build=False)
    (entry,) = summary.entries
    assert entry.dims == {"batch": 2}
    assert entry.signature == "classify(x: f32[batch, 4]) -> probs: f32[batch, 3]; batch 1..64"
    products = 2 * 2 * (4 * 8 + 8 * 3)
    assert products < entry.flops < 2 * products
    read = 4 * sum(int(np.prod(shape)) for shape in WEIGHTS.values())
    assert read < entry.bytes < 2 * read
    assert (summary.weights, summary.built, summary.has_weights) == (4, None, False)
    assert list(summary.seconds) == ["recall", "passes", "lower", "emit", "vectors", "write"]


# --- passes ---------------------------------------------------------------------------------------


def test_a_pass_that_breaks_a_rule_is_found_and_named() -> None:
    def forget(graph: Graph) -> Graph:
        return replace(graph, inputs=())

    with pytest.raises(errors.VerifyFailed, match=r"\[forget\] .* is no input of the graph"):
        run_pass("forget", forget, make_model().trace().entries, Trail())


@pytest.mark.slow
@pytest.mark.parametrize("dtype", [lg.f32, lg.bf16], ids=str)
@pytest.mark.parametrize("target", ["cpu", "cuda"])
def test_every_stage_that_can_be_shown_is_dumped(
    target: str,
    dtype: lg.DType,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    traced, row = make_model().trace(), parse_target(target)
    monkeypatch.setenv("LUMIGEN_DUMP", str(tmp_path / "dump"))
    lower_model(traced, {"target": row.text}, None, row, dtype=dtype)
    monkeypatch.delenv("LUMIGEN_DUMP")
    forms = [f for f in FORMS if f != "retype" or dtype is not lg.f32]
    files = sorted((tmp_path / "dump").iterdir())
    assert [p.name for p in files] == [f"{i:02d}-{f}.txt" for i, f in enumerate(forms)]
    for form, file in zip(forms, files, strict=True):
        assert file.read_text(encoding="utf-8") == text_after(traced, form, None, target, dtype)
    assert capsys.readouterr().err == ""


def test_a_line_for_each_pass_is_shown(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("LUMIGEN_DEBUG", "1")
    lower_model(make_model().trace(), {})
    lines = capsys.readouterr().err.splitlines()
    assert [line.split()[0] for line in lines] == [
        "graph",
        "canonicalize",
        "fold",
        "offsets",
        "share",
        "program",
    ]
    assert lines[2].endswith("(unchanged)")


def test_every_rule_that_fires_is_shown(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    x = source(Op.INPUT, "x", shape(3), lg.f32)
    whole = Edge(const(1.0, lg.f32), expand((), x.shape))
    doubled = binary(Op.MUL, whole, edge(unary(Op.SIN, edge(unary(Op.SQRT, edge(x))))))
    traced = replace(make_model().trace(), entries=(("run", Graph((x,), (("y", edge(doubled)),))),))
    monkeypatch.setenv("LUMIGEN_DEBUG", "5")
    lower_model(traced, {})
    fired = [
        line.split() for line in capsys.readouterr().err.splitlines() if "canonicalize.py:" in line
    ]
    assert [words[0] for words in fired] == ["const_right_mul", "mul_one"]
    for name, place, *_ in fired:
        file, _, line = place.rpartition(":")
        assert (
            f'Rule("{name}"' in Path(file).read_text(encoding="utf-8").splitlines()[int(line) - 1]
        )
    before, after = " ".join(fired[1][2:]).split(" -> ")
    assert before == "mul(sin(sqrt(...)), 1.0) f32[3]"
    assert after == "sin(sqrt(x)) f32[3]"


def test_nothing_is_printed_by_default(capsys: pytest.CaptureFixture[str]) -> None:
    lower_model(make_model().trace(), {})
    assert capsys.readouterr() == ("", "")


# --- weights and targets --------------------------------------------------------------------------


BELONGS = "Pass the file that belongs to this model, or "


@pytest.mark.parametrize(
    ("changed", "says"),
    [
        (
            lambda given: {n: a for n, a in given.items() if n != "2.bias"},
            rf"no tensor 2\.bias; the closest names are: .*\. {BELONGS}rename the parameter",
        ),
        (
            lambda given: {f"net.{n}": a for n, a in given.items()},
            r'all names after "net\.": pass lg\.Model\(\.\.\., prefix="net\."\), or rename=',
        ),
        (
            lambda given: {f"{p}.{n}": a for p in "ab" for n, a in given.items()},
            r'all names after "a\." \(or "b\."\): pass .*prefix="a\."\)',
        ),
        (
            lambda given: {f"net.{n}": a for n, a in given.items() if n != "2.bias"},
            f"{BELONGS}rename the parameter",
        ),
        (
            lambda given: given | {"0.bias": given["0.bias"].astype(np.float64)},
            r"is f64\[8\], .* f32\[8\]\. Save .* in f32, .* v\.float\(\) for .*net\.to\(lg\.f64\) before lg",
        ),
        (
            lambda given: given | {"0.bias": given["0.bias"].astype(np.int32)},
            rf"is i32\[8\], .* f32\[8\]\. {BELONGS}change",
        ),
        (
            lambda given: given | {"0.bias": given["0.bias"][:3].astype(np.float16)},
            rf"is f16\[3\], .* f32\[8\]\. {BELONGS}change",
        ),
    ],
)
def test_weights_must_be_there_and_fit(
    changed: Callable[[dict[str, np.ndarray]], dict[str, np.ndarray]],
    says: str,
    tmp_path: Path,
    arrays: dict[str, np.ndarray],
) -> None:
    file, out = tmp_path / "w.safetensors", tmp_path / "out"
    given = changed(arrays)
    save_file(given, file)
    for weights in (given, file):
        with pytest.raises((errors.UnknownWeight, errors.WeightMismatch), match=says):
            lg.compile(make_model(), output=out, weights=weights, build=False)
    assert not out.exists(), "what is refused leaves nothing behind"


def test_what_is_given_is_refused_before_the_work(
    tmp_path: Path, arrays: dict[str, np.ndarray], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of the directory and of the weights, before anything is lowered."""

    def lowered(*_: object, **__: object) -> None:
        raise AssertionError("the model is lowered")

    monkeypatch.setattr(make_project, "lower_model", lowered)
    file, taken = tmp_path / "w.safetensors", tmp_path / "taken"
    taken.mkdir()
    (taken / "notes.txt").write_text("somebody's\n")
    save_file({**arrays, "0.bias": arrays["0.bias"][:3]}, file)
    model = make_model()
    cast("nn.Sequential", model.net).load_state_dict({**arrays})  # values that are in no file
    for bad in ({}, {**arrays, "0.bias": arrays["0.bias"][:3]}, file):
        with pytest.raises((errors.UnknownWeight, errors.WeightMismatch)):
            lg.compile(make_model(), output=tmp_path / "out", weights=bad, build=False)
    with pytest.raises(errors.DirectoryNotOurs):
        lg.compile(make_model(), output=taken, build=False)
    with pytest.raises(errors.NotADirectory):
        lg.compile(make_model(), output=file, build=False)
    with pytest.raises(AssertionError, match="is lowered"):
        lg.compile(model, output=tmp_path / "out", build=False)


def test_what_the_errors_of_weights_advise_fits(tmp_path: Path) -> None:
    net = nn.Linear(3, 4).to(lg.f16)
    model = lg.Model("m", net, prefix="net.")

    @model.entry(x=lg.spec(3, dtype=lg.f16))
    def run(x: lg.Tensor) -> lg.Tensor:
        return net(x)

    given = {"net.weight": np.ones((4, 3), np.float16), "net.bias": np.ones(4, np.float16)}
    lg.compile(model, output=tmp_path / "out", weights=given, build=False)


@pytest.mark.slow
def test_weights_may_be_tensors_of_torch(tmp_path: Path, arrays: dict[str, np.ndarray]) -> None:
    """As `load_state_dict` takes them: of 16 bits, and those of a module that was trained."""
    given = {n: torch.from_numpy(a).bfloat16().requires_grad_() for n, a in arrays.items()}
    same = {n: t.detach().float().numpy() for n, t in given.items()}
    for name, weights in (("torch", given), ("numpy", same)):
        lg.compile(make_model(), output=tmp_path / name, weights=weights, build=False)
    found, wanted = (
        lg.open_weights(next((tmp_path / name / "weights").glob("*.safetensors")))
        for name in ("torch", "numpy")
    )
    for name in wanted:
        np.testing.assert_array_equal(found[name], wanted[name])


@pytest.mark.parametrize(
    ("weights", "says"),
    [
        (torch.nn.Linear(3, 4), "[compile] weights cannot be of type Linear. Pass arrays by name"),
        ([("weight", 1)], "[compile] weights cannot be of type list."),
        ({1: np.ones(2)}, "[compile] weights cannot be 1: a ndarray (float64"),
        ({"w": torch.empty(2, device="meta")}, "'w': a Tensor (torch.float32 torch.strided meta)."),
        ({"w": torch.ones(2).to(torch.float8_e5m2)}, "'w': a Tensor (torch.float8_e5m2 "),
    ],
)
def test_what_cannot_be_weights_is_refused(weights: Any, says: str, tmp_path: Path) -> None:
    with pytest.raises(lg.UserError) as caught:
        lg.compile(make_model(), output=tmp_path / "out", weights=weights, build=False)
    assert says in str(caught.value)
    assert not (tmp_path / "out").exists()


@pytest.mark.slow
def test_unused_tensors_are_listed(tmp_path: Path, arrays: dict[str, np.ndarray]) -> None:
    file = tmp_path / "w.safetensors"
    save_file({**arrays, "head.weight": np.zeros(3, np.float32)}, file)
    summary = compile_project(
        make_model().trace(),
        directory=tmp_path / "out",
        weights=lg.open_weights(file),
        build=False,
    )
    assert summary.unused == ("head.weight",)
    assert summary.has_weights


@pytest.mark.parametrize("target", ["cuda:sm_35", "metal:apple7", "tpu", ""])
def test_other_targets_are_refused(target: str, tmp_path: Path) -> None:
    with pytest.raises(errors.UnsupportedTarget, match="Choose one of: "):
        lg.compile(make_model(), target=target, output=tmp_path / "out", build=False)
    assert not (tmp_path / "out").exists()


def test_without_a_build_there_is_no_module(tmp_path: Path) -> None:
    assert lg.compile(make_model(), output=tmp_path / "out", build=False) is None
    with pytest.raises(errors.NotBuilt):
        lg.load(tmp_path / "out")


# --- the small way --------------------------------------------------------------------------------


def test_the_five_lines(capsys: pytest.CaptureFixture[str]) -> None:
    cx = lg.Graph()
    a = cx.tensor((3, 1)).set([[1.0], [2.0], [3.0]])
    b = cx.tensor((1, 4)).set([[1.0, 2.0, 3.0, 4.0]])
    c = a.matmul(b).retrieve()
    before = cx.display()
    cx.compile(lg.GenericCompiler(), lg.CPUCompiler())
    after = cx.display()
    cx.execute()
    assert np.array_equal(np.asarray(c), np.outer([1, 2, 3], [1, 2, 3, 4]))
    assert capsys.readouterr().out == before + after
    assert str(c).startswith("[[ 1.  2.  3.  4.]")
    a.set([[2.0], [2.0], [2.0]])
    cx.execute()
    assert np.array_equal(np.asarray(c), np.tile([2.0, 4, 6, 8], (3, 1)))


def test_the_native_way_agrees_with_the_interpreter(rng: np.random.Generator) -> None:
    values = rng.normal(size=(5, 7)).astype(np.float32)

    def computed(*compilers: object) -> np.ndarray:
        cx = lg.Graph()
        x = cx.tensor((5, 7)).set(values)
        out = (x.softmax(-1) + x.exp().sum(0)).retrieve()
        cx.compile(*compilers)
        cx.execute()
        return out.numpy()

    native = computed(lg.GenericCompiler(), lg.CPUCompiler())
    np.testing.assert_allclose(native, computed(), rtol=1e-5)  # a few roundings of f32


N, M = lg.Dim("n", 1, 4), lg.Dim("m", 1, 4)
EVEN = lg.Dim("even", 2, 8, multiple_of=2)


@pytest.mark.parametrize("compilers", [(), (lg.GenericCompiler(), lg.CPUCompiler())])
@pytest.mark.parametrize(
    ("shapes", "given", "phrase"),
    [
        ([(N, 9), (N,)], [(1, 9), (4,)], r"is f32\[4\], must be f32\[n\]. The dims are n = 1"),
        ([(N,)], [(9,)], r"is f32\[9\], must be f32\[n\]. n is 9; it goes from 1 to 4"),
        ([(EVEN,)], [(3,)], "even is 3; it goes from 2 to 8, a multiple of 2"),
        ([(2 * N,)], [(5,)], r"must be f32\[2\*n\]"),
        ([(N + 1, N)], [(4, 4)], r"must be f32\[n \+ 1, n\]. The dims are n = 3"),
        ([(N + M,)], [(4,)], "No shape decides m"),
    ],
)
def test_shapes_are_held_against_dims_before_a_run(shapes, given, phrase, compilers) -> None:
    cx = lg.Graph()
    for declared, actual in zip(shapes, given, strict=True):
        cx.tensor(declared).set(np.zeros(actual)).sum().retrieve()
    cx.compile(*compilers)
    with pytest.raises(errors.BadInput, match=phrase):
        cx.execute()


@pytest.mark.parametrize("compilers", [(), (lg.GenericCompiler(), lg.CPUCompiler())])
def test_dims_are_solved_from_expressions(compilers) -> None:
    cx = lg.Graph()
    a, b = cx.tensor((2 * N,)).set(np.ones(6)), cx.tensor((M + 1, EVEN // 2)).set(np.ones((2, 3)))
    sums = (a.sum() + N).retrieve(), (b.sum(0) + 2 * M).retrieve()
    cx.compile(*compilers)
    cx.execute()
    assert sums[0].numpy() == 9
    assert list(sums[1].numpy()) == [4, 4, 4]


def test_a_dim_that_no_input_has_is_a_mistake() -> None:
    cx = lg.Graph()
    out = cx.tensor((3,)).set([1, 2, 3]) * N
    out.retrieve()
    with pytest.raises(errors.UnknownDim, match="there is no dim n"):
        cx.compile(lg.GenericCompiler(), lg.CPUCompiler())


def test_users_add_passes_of_their_own() -> None:
    seen: list[int] = []

    def count(graph: Graph) -> Graph:
        seen.append(len(list(graph.nodes())))
        return graph

    cx = lg.Graph()
    out = (cx.tensor((2,)).set([1, 2]) * 1 + 0).retrieve()
    cx.compile(count, (lg.GenericCompiler(), count))
    cx.execute()
    assert list(out.numpy()) == [1, 2]
    assert seen[1] < seen[0]


def test_public_names_are_there() -> None:
    names: list[str] = lg.__all__
    assert len(set(names)) == len(names)
    assert all(getattr(lg, name) is not None for name in names)
    assert lg.__version__


@pytest.mark.slow
def test_models_of_one_name_are_modules_of_their_own(tmp_path: Path) -> None:
    """In places of their own, or where another one was."""
    modules = []
    for place, factor in (("a", 2), ("b", 3), ("b", 5)):
        model = lg.Model("twin")

        @model.entry(x=lg.spec(lg.Dim("batch", 1, 4), 3))
        def run(x: lg.Tensor, factor: int = factor) -> lg.Tensor:
            return x * factor

        modules.append(lg.compile(model, output=tmp_path / place, isa="native"))
    x = np.ones((2, 3), np.float32)
    found = [float(m.Model().context().run(x)[0, 0]) for m in modules]
    assert found == [2, 3, 5]
    assert [Path(m.__file__).parent for m in modules] == [
        tmp_path / place / "python" for place in "abb"
    ]


def test_a_change_of_one_kernel_leaves_the_files_of_others() -> None:
    """What one includes is its own header: others are not compiled again."""
    one, other = (
        render_project(lower_model(make_model(classes).trace(), {}).model) for classes in (3, 5)
    )
    changed = {p for p in one if p.startswith("kernels/") and one[p] != other[p]}
    assert changed
    assert not any(Path(p).stem.startswith(("k00", "kernels")) for p in changed), changed


def test_emitted_sources_say_what_a_reader_asks() -> None:
    files = render_project(lower_model(make_model().trace(), {}).model)
    assert re.search(r"^\* `simt`: loops", files["README.md"], re.MULTILINE)
    (header,) = (t for p, t in files.items() if re.fullmatch(r"kernels/k00_\w+\.h", p))
    assert re.search(r"^  const float\* x;  // f32\[batch, \d+\]$", header, re.MULTILINE)
    (entry,) = (t for p, t in files.items() if p.startswith("src/") and "args.row_tiles = " in t)
    assert entry.count("are n / d rounded up.") == 1


def test_what_computes_nothing_is_refused_before_it_is_lowered() -> None:
    x = source(Op.INPUT, "x", (ix(3),), lg.f32)
    for entries, said in (
        ((), r"^\[lower\] there is no way to lower nothing, which has no entry\."),
        ((("run", Graph((x,), ())),), r"^\[graph\] .* nothing is computed\."),
    ):
        with pytest.raises(errors.InternalError, match=said):
            lower_model(Traced("nothing", "1.0", entries, ()), {})


def test_every_way_to_lower_shows_sources_from_level_4(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """`lumigen show` as `lumigen compile`."""
    for level, is_shown in ((3, False), (4, True)):
        monkeypatch.setenv("LUMIGEN_DEBUG", str(level))
        text_after(make_model().trace(), "program")
        assert ("#include" in capsys.readouterr().err) == is_shown

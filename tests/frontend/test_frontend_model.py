"""Models: names of weights, entries, outputs, dims, source lines; model files; the small way."""

from __future__ import annotations

import textwrap
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
import pytest
import torch

import lumigen as lg
from lumigen import errors, nn
from lumigen.frontend import load_model_file
from lumigen.frontend.load import parse_option
from lumigen.frontend.model import weights_of
from lumigen.graph import tensor_of
from lumigen.interp.graph import evaluate
from lumigen.ops import Op
from lumigen.weights import open_weights

B = lg.Dim("batch", 1, 64)


class Block(nn.Module):
    def __init__(self, width: int) -> None:
        self.norm = nn.LayerNorm(width)
        self.projections = nn.ModuleDict({"up": nn.Linear(width, 8), "down": nn.Linear(8, width)})

    def forward(self, x: lg.Tensor) -> lg.Tensor:
        return x + self.projections["down"](nn.GELU()(self.projections["up"](self.norm(x))))


class Net(nn.Module):
    def __init__(self) -> None:
        self.embed = nn.Embedding(10, 4)
        self.blocks = [Block(4), Block(4)]
        self.extra = nn.ModuleList([nn.Linear(4, 4, bias=False)])
        self.scale = nn.Parameter(4)
        self.head = nn.Linear(4, 10, bias=False)
        self.head.weight = self.embed.weight  # shared

    def forward(self, ids: lg.Tensor) -> lg.Tensor:
        x = self.embed(ids)
        for block in self.blocks:
            x = block(x)
        for layer in self.extra:
            x = layer(x)
        return self.head(x * self.scale)


class TorchBlock(torch.nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm = torch.nn.LayerNorm(width)
        self.projections = torch.nn.ModuleDict(
            {"up": torch.nn.Linear(width, 8), "down": torch.nn.Linear(8, width)}
        )

    def forward(self, x: Any) -> Any:
        return x + self.projections["down"](
            torch.nn.functional.gelu(self.projections["up"](self.norm(x)))
        )


class TorchNet(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embed = torch.nn.Embedding(10, 4)
        self.blocks = torch.nn.ModuleList([TorchBlock(4), TorchBlock(4)])
        self.extra = torch.nn.ModuleList([torch.nn.Linear(4, 4, bias=False)])
        self.scale = torch.nn.Parameter(torch.rand(4))
        self.head = torch.nn.Linear(4, 10, bias=False)
        self.head.weight = self.embed.weight

    def forward(self, ids: Any) -> Any:
        x = self.embed(ids)
        for block in self.blocks:
            x = block(x)
        return self.head(self.extra[0](x) * self.scale)


def test_names_and_values_are_pytorchs() -> None:
    torch.manual_seed(0)
    theirs, ours = TorchNet(), Net()
    state = {k: v.numpy() for k, v in theirs.state_dict().items()}
    declared = {k: tuple(p.shape) for k, p in ours.state_dict().items()}
    assert declared == {k: v.shape for k, v in state.items()}

    model = lg.Model("net", ours)

    @model.entry(ids=lg.spec(B, 3, dtype=lg.i64, range=(0, 9)))
    def run(ids: lg.Tensor) -> lg.Tensor:
        return ours(ids)

    traced = model.trace()
    assert [w.name for w in traced.weights] == sorted(set(state) - {"head.weight"})
    ids = np.array([[1, 2, 3], [9, 0, 9]])
    got = evaluate(traced.entries[0][1], {"ids": ids}, state)["out"]
    np.testing.assert_allclose(got, theirs(torch.from_numpy(ids)).detach().numpy(), atol=1e-5)


LAYERS: list[tuple[nn.Module, torch.nn.Module, tuple[int, ...]]] = [
    (nn.Linear(4, 3), torch.nn.Linear(4, 3), (2, 4)),
    (nn.Linear(4, 3, bias=False), torch.nn.Linear(4, 3, bias=False), (2, 4)),
    (nn.Conv2d(2, 4, 3, 2, 1), torch.nn.Conv2d(2, 4, 3, 2, 1), (1, 2, 7, 7)),
    (nn.LayerNorm((3, 4)), torch.nn.LayerNorm((3, 4)), (2, 3, 4)),
    (nn.RMSNorm(4), torch.nn.RMSNorm(4), (2, 4)),
    (nn.BatchNorm2d(3), torch.nn.BatchNorm2d(3).eval(), (2, 3, 4, 4)),
    (nn.GroupNorm(2, 4), torch.nn.GroupNorm(2, 4), (2, 4, 3, 3)),
    (nn.ReLU(), torch.nn.ReLU(), (2, 3)),
    (nn.GELU("tanh"), torch.nn.GELU("tanh"), (2, 3)),
    (nn.SiLU(), torch.nn.SiLU(), (2, 3)),
    (nn.Tanh(), torch.nn.Tanh(), (2, 3)),
    (nn.Sigmoid(), torch.nn.Sigmoid(), (2, 3)),
    (nn.Softmax(-1), torch.nn.Softmax(-1), (2, 3)),
    (nn.MaxPool2d(2), torch.nn.MaxPool2d(2), (1, 1, 5, 5)),
    (nn.AvgPool2d(2, 1, 1), torch.nn.AvgPool2d(2, 1, 1), (1, 1, 5, 5)),
    (nn.Flatten(), torch.nn.Flatten(), (2, 3, 4)),
    (nn.Dropout(0.5), torch.nn.Dropout(0.5).eval(), (2, 3)),
    (nn.Identity(), torch.nn.Identity(), (2,)),
    (
        nn.Sequential(nn.Linear(4, 5), nn.Sequential(nn.ReLU(), nn.Linear(5, 2))),
        torch.nn.Sequential(
            torch.nn.Linear(4, 5), torch.nn.Sequential(torch.nn.ReLU(), torch.nn.Linear(5, 2))
        ),
        (3, 4),
    ),
]


@pytest.mark.parametrize(
    ("ours", "theirs", "shape"), LAYERS, ids=[type(o).__name__ for o, _, _ in LAYERS]
)
def test_layers(
    ours: nn.Module, theirs: torch.nn.Module, shape: tuple[int, ...], rng: np.random.Generator
) -> None:
    state = {
        k: np.abs(rng.standard_normal(v.shape)).astype("f4") + 0.1
        for k, v in theirs.state_dict().items()
        if "num_batches" not in k
    }
    theirs.load_state_dict({k: torch.from_numpy(v) for k, v in state.items()}, strict=False)
    assert list(ours.state_dict()) == list(state)
    x = rng.standard_normal(shape).astype("f4")
    model = lg.Model("layer", ours)

    @model.entry(x=lg.spec(*shape))
    def run(x: lg.Tensor) -> lg.Tensor:
        return ours(x)

    got = evaluate(model.trace().entries[0][1], {"x": x}, state)["out"]
    expected = theirs(torch.from_numpy(x)).detach().numpy()
    np.testing.assert_allclose(got, expected, rtol=2e-5, atol=1e-6)


def weight_names(model: lg.Model) -> list[str]:
    return [w.name for w in model.trace().weights]


def test_prefixes_and_renames() -> None:
    layer, head = nn.Linear(3, 3), nn.Linear(3, 2, bias=False)

    def entry(x: lg.Tensor) -> lg.Tensor:
        return head(layer(x))

    two = lg.Model("two", {"body": layer, "head": head})
    two.entry(x=lg.spec(3))(entry)
    assert weight_names(two) == ["body.bias", "body.weight", "head.weight"]
    other = lg.Model("other", {"body": layer, "head": head}, prefix="model.", rename=str.upper)
    other.entry(x=lg.spec(3))(entry)
    assert weight_names(other) == ["MODEL.BODY.BIAS", "MODEL.BODY.WEIGHT", "MODEL.HEAD.WEIGHT"]
    named = lg.Model("named", {"a": layer, "b": head}, rename={"b.weight": "lm_head.weight"})
    named.entry(x=lg.spec(3))(entry)
    assert weight_names(named) == ["a.bias", "a.weight", "lm_head.weight"]


def test_a_parameter_may_name_itself() -> None:
    scale = nn.Parameter(3, dtype=lg.f16, name="scale")
    model = lg.Model("m")

    @model.entry(x=lg.spec(3))
    def run(x: lg.Tensor) -> lg.Tensor:
        return x * scale.float()

    assert model.trace().weights[0].name == "scale"
    assert model.trace().weights[0].dtype is lg.f16


def test_one_name_has_one_declaration() -> None:
    a, b = nn.Parameter(3, name="w"), nn.Parameter(3, dtype=lg.f64, name="w")
    model = lg.Model("m")

    @model.entry(x=lg.spec(3))
    def run(x: lg.Tensor) -> lg.Tensor:
        return x * a + b

    with pytest.raises(errors.WeightMismatch, match=r"f64\[3\]"):
        model.trace()
    assert weights_of(()) == ()


def test_a_module_takes_a_dtype() -> None:
    net = nn.Sequential(nn.Linear(2, 2)).to(lg.bf16)
    assert {p.dtype for p in net.parameters()} == {lg.bf16}


class Pair(NamedTuple):
    total: lg.Tensor
    top: lg.Tensor


def test_outputs_are_named() -> None:
    model = lg.Model("m")

    @model.entry(x=lg.spec(B))
    def lone(x: lg.Tensor) -> lg.Tensor:
        return x

    @model.entry(x=lg.spec(B))
    def table(x: lg.Tensor) -> dict[str, lg.Tensor]:
        return {"b": x, "a": x + 1}

    @model.entry(x=lg.spec(B))
    def pair(x: lg.Tensor) -> Pair:
        return Pair(x.sum(), x.max())

    found = {name: [o for o, _ in g.outputs] for name, g in model.trace().entries}
    assert found == {"lone": ["out"], "table": ["b", "a"], "pair": ["total", "top"]}


def test_each_dim_follows_from_an_extent() -> None:
    """Of a quotient it does not; of twice the dim and one it does, and an expression may then stand beside it."""
    h = lg.Dim("h", 8, 64, multiple_of=2)
    model = lg.Model("m")

    def half(x: lg.Tensor) -> lg.Tensor:
        return x

    with pytest.raises(errors.BadArgument, match=r"h does not follow\. Pass x or another input"):
        model.entry(x=lg.spec(h // 2, 4))(half)

    @model.entry(x=lg.spec(2 * h + 1), y=lg.spec(h // 2))
    def both(x: lg.Tensor, y: lg.Tensor) -> lg.Tensor:
        return x.sum() + y

    assert [name for name, _ in model.trace().entries] == ["both"]


def test_a_dim_has_one_range_in_a_model() -> None:
    model = lg.Model("m")
    model.entry(x=lg.spec(lg.Dim("n", 1, 4)))(lambda_named("first"))
    with pytest.raises(errors.DimConflict, match=r"1\.\.4 and as 1\.\.5"):
        model.entry(x=lg.spec(lg.Dim("n", 1, 5)))(lambda_named("second"))
    model.entry(x=lg.spec(lg.Dim("n", 1, 4)))(lambda_named("third"))


def test_a_range_may_follow_from_the_dims_of_an_entry() -> None:
    tokens, other = lg.Dim("tokens", 1, 4), lg.Dim("other", 1, 4)
    ids, position = lg.spec(tokens), lg.spec(dtype=lg.i64, range=(0, 9 - tokens))
    model = lg.Model("m")

    @model.entry(x=ids, position=position)
    def at(x: lg.Tensor, position: lg.Tensor) -> lg.Tensor:
        return x + position

    ((_, graph),) = model.trace().entries
    x = np.ones(3, np.float32)
    assert evaluate(graph, {"x": x, "position": np.array(6)}, {})["out"].tolist() == [7, 7, 7]
    with pytest.raises(errors.BadInput, match="from 0 to 6"):
        evaluate(graph, {"x": x, "position": np.array(7)}, {})
    with pytest.raises(errors.BadArgument, match=r"range of position cannot be .* with other"):
        lg.Model("m").entry(x=ids, position=lg.spec(dtype=lg.i64, range=(0, 9 - other)))(at)


def lambda_named(name: str) -> Any:
    def f(x: lg.Tensor) -> lg.Tensor:
        return x

    f.__name__ = name
    return f


def test_entries_match_their_functions() -> None:
    model = lg.Model("m")
    with pytest.raises(errors.BadArgument, match="one spec for each parameter"):
        model.entry(y=lg.spec(3))(lambda_named("first"))
    with pytest.raises(errors.BadArgument, match=r"lg\.spec"):
        model.entry(x=3)(lambda_named("first"))
    model.entry(x=lg.spec(3))(lambda_named("first"))
    with pytest.raises(errors.BadArgument, match="'first' twice"):
        model.entry(x=lg.spec(3))(lambda_named("first"))


def test_every_node_knows_its_lines() -> None:
    model = lg.Model("m")

    @model.entry(x=lg.spec(3))
    def run(x: lg.Tensor) -> lg.Tensor:
        a = x * 2  # first
        b = x * 2  # second
        return a + b  # third

    graph = model.trace().entries[0][1]
    text = Path(__file__).read_text().splitlines()
    found = {
        n.op: [text[w.line - 1].split("# ")[-1] for w in graph.lines[n]]
        for n in graph.nodes()
        if n.op in (Op.MUL, Op.ADD)
    }
    assert found == {Op.MUL: ["first", "second"], Op.ADD: ["third"]}
    assert [tensor_of(n).name for n in graph.inputs] == ["x"]


# --- model files ----------------------------------------------------------------------------------

GOOD = """
    import lumigen as lg
    from part import double

    model = lg.Model("good")

    @model.entry(x=lg.spec(3))
    def run(x):
        return double(x)
"""


def write(folder: Path, text: str, name: str = "model.py") -> Path:
    file = folder / name
    file.write_text(textwrap.dedent(text))
    return file


def test_a_model_file_and_its_neighbours(tmp_path: Path) -> None:
    for factor, folder in ((2, tmp_path / "a"), (3, tmp_path / "b")):
        folder.mkdir()
        write(folder, f"def double(x):\n    return x * {factor}\n", "part.py")
        model = load_model_file(write(folder, GOOD))
        graph = model.trace().entries[0][1]
        got = evaluate(graph, {"x": np.ones(3, np.float32)}, {})["out"]
        np.testing.assert_array_equal(got, [factor] * 3)
        assert not list(folder.rglob("*.pyc"))
        assert any(
            Path(w.file).name == "part.py" for places in graph.lines.values() for w in places
        )


BAD_FILES: list[tuple[str, str, int | None]] = [
    ("x = 1\n", "neither model nor build()", None),
    ("import lumigen as lg\nx = 1 / 0\n", "ZeroDivisionError: division by zero", 2),
    ("import nowhere_to_be_found\n", "ModuleNotFoundError", 1),
    ("import nowhere_to_be_found\n", "Correct the name, or install it for", 1),
    ("from tensorflow import keras\n", "from lumigen import nn", 1),
    ("import torch\nmodel = torch.nn.ReLU()\n", "ReLU, a module of torch, and no lg.Model", None),
    ("from lumigen import nn\nmodel = nn.ReLU()\n", "model is of type ReLU, and no lg.Model", None),
    ("def f(:\n    pass\n", "not valid Python", 1),
    ("import sys\nsys.exit(3)\n", "SystemExit", 2),
    (
        (
            "import lumigen as lg\nmodel = lg.Model('m')\n@model.entry(x=lg.spec(3))\ndef f(x):\n"
            "    return x.nothing\n"
        ),
        "AttributeError",
        5,
    ),
    ("import json\nmodel = json.loads('{')\n", "JSONDecodeError", 2),
    ("import lumigen as lg\nother = lg.Model('m')\n", "model.py:other", None),
    ("def build(weights):\n    return 3\n", "weights file", None),
    ("def build():\n    return 3\n", "returned a int", None),
]


@pytest.mark.parametrize(("text", "wanted", "line"), BAD_FILES, ids=[w for _, w, _ in BAD_FILES])
def test_bad_files(text: str, wanted: str, line: int | None, tmp_path: Path) -> None:
    with pytest.raises(errors.ModelFileError) as caught:
        load_model_file(write(tmp_path, text))
    assert wanted in str(caught.value)
    if line is not None:
        assert caught.value.where is not None
        assert (Path(caught.value.where.file).name, caught.value.where.line) == ("model.py", line)


def test_our_errors_pass_through(tmp_path: Path) -> None:
    text = """
        import lumigen as lg
        model = lg.Model("m")

        @model.entry(x=lg.spec(3), y=lg.spec(4))
        def f(x, y):
            return x + y
    """
    with pytest.raises(errors.ShapeMismatch) as caught:
        load_model_file(write(tmp_path, text))
    assert caught.value.where is not None
    assert caught.value.where.line == 7


def test_a_missing_file(tmp_path: Path) -> None:
    with pytest.raises(errors.ModelFileError, match="no such file"):
        load_model_file(tmp_path / "none.py")
    with pytest.raises(errors.ModelFileError, match="no model or function other"):
        load_model_file(write(tmp_path, "x = 1\n"), "other")


OPTIONS = """
    import lumigen as lg

    def build(
        weights,
        layers: int = 2,
        scale: float = 1.0,
        dtype: lg.DType = lg.f32,
        flag: bool = False,
    ):
        model = lg.Model("m")

        @model.entry(x=lg.spec(layers, dtype=dtype))
        def run(x):
            return x * scale if flag else x

        return model

    def needs(size: int):
        return build(None, size)
"""


def test_options(tmp_path: Path) -> None:
    file = write(
        tmp_path,
        OPTIONS.replace("lg.DType", "DType").replace(
            "import lumigen as lg", "import lumigen as lg\n    from lumigen.dtype import DType"
        ),
    )
    np.savez(tmp_path / "w.npz", a=np.zeros(1))
    weights = open_weights(tmp_path / "w.npz")
    model = load_model_file(
        file, weights=weights, options={"layers": "5", "dtype": "bf16", "flag": "yes", "scale": "2"}
    )
    shape = model.trace().entries[0][1].inputs[0]
    assert (shape.shape[0], shape.dtype) == (5, lg.bf16)
    with pytest.raises(errors.UnknownOption, match="layers, scale"):
        load_model_file(file, weights=weights, options={"layer": "5"})
    with pytest.raises(errors.BadArgument, match=r"'five'.*an integer"):
        load_model_file(file, weights=weights, options={"layers": "five"})
    with pytest.raises(errors.ModelFileError, match="--weights"):
        load_model_file(file)
    with pytest.raises(errors.ModelFileError, match="--weights"):
        load_model_file(file, "needs")


@pytest.mark.parametrize(
    ("text", "wanted", "value"),
    [
        ("3", int, 3),
        ("3", float, 3.0),
        ("3", str, "3"),
        ("no", bool, False),
        ("None", int | None, None),
        ("4", int | None, 4),
        ("b", Literal["a", "b"], "b"),
        ("x/y", Path, Path("x/y")),
        (7, int, 7),
    ],
)
def test_parse_option(text: Any, wanted: Any, value: Any) -> None:
    assert parse_option("o", text, wanted) == value


@pytest.mark.parametrize(
    ("text", "wanted", "phrase"),
    [
        ("x", bool, "true or false"),
        ("c", Literal["a", "b"], "one of a, b"),
        ("x", int | None, "or none"),
    ],
)
def test_options_that_do_not_parse(text: str, wanted: Any, phrase: str) -> None:
    with pytest.raises(errors.BadArgument, match=phrase):
        parse_option("o", text, wanted)


# --- the small way --------------------------------------------------------------------------------


def test_five_lines(capsys: pytest.CaptureFixture[str]) -> None:
    cx = lg.Graph()
    a = cx.tensor((3, 1)).set([[1.0], [2.0], [3.0]])
    b = cx.tensor((1, 4)).set([[1.0, 2.0, 3.0, 4.0]])
    c = a.matmul(b).retrieve()
    cx.compile()
    assert "Tensor(f32[3, 4])" in repr(c)
    cx.execute()
    np.testing.assert_array_equal(c.numpy(), [[1, 2, 3, 4], [2, 4, 6, 8], [3, 6, 9, 12]])
    print(c)  # noqa: T201  # what the fifth line is for
    text = cx.display()
    assert "sum_reduce" in text
    assert capsys.readouterr().out == f"{c.data}\n{text}"


def test_contexts_do_not_mix() -> None:
    first, second = lg.Graph(), lg.Graph()
    a, b = first.tensor(2).set([1, 2]), second.tensor(2).set([3, 4])
    x, y = (a + 1).retrieve(), (b + 1).retrieve()
    first.execute()
    second.execute()
    np.testing.assert_array_equal(x.numpy(), [2, 3])
    np.testing.assert_array_equal(np.asarray(y), [4, 5])


def test_a_tensor_of_two_contexts_is_refused() -> None:
    first, second = lg.Graph(), lg.Graph()
    mixed = first.tensor(2, name="a").set([1, 2]) + second.tensor(2, name="b").set([3, 4])
    with pytest.raises(errors.BadArgument, match="of another graph or entry") as caught:
        mixed.retrieve()
    assert caught.value.where is not None
    assert caught.value.where.file == __file__


@pytest.mark.parametrize(
    ("spec", "keep", "phrase"),
    [
        (lg.spec(3), lambda x: x, "an operand cannot be 'x' of another entry"),
        (lg.spec(3), lambda x: x.exp(), "an operand cannot be 'x' of another entry"),
        (lg.spec(2), lambda x: x.exp(), "an operand cannot be a tensor of another entry"),
    ],
)
def test_tensors_of_another_entry_are_refused(spec: Any, keep: Any, phrase: str) -> None:
    """Also where both entries have an input of this name, dtype and shape."""
    model = lg.Model("two")
    kept: list[lg.Tensor] = []

    @model.entry(x=spec)
    def first(x: lg.Tensor) -> lg.Tensor:
        kept.append(keep(x))
        return kept[0] * 2

    @model.entry(x=lg.spec(2))
    def second(x: lg.Tensor) -> lg.Tensor:
        return kept[0].sum() + x

    with pytest.raises(errors.BadArgument, match=phrase) as caught:
        model.trace()
    assert caught.value.where is not None
    assert caught.value.where.line == second.__code__.co_firstlineno + 2


def test_a_tensor_of_a_context_is_no_operand_of_an_entry() -> None:
    model = lg.Model("one")
    other = lg.Graph().tensor(2, name="other")

    @model.entry(x=lg.spec(2))
    def go(x: lg.Tensor) -> lg.Tensor:
        return x + other

    with pytest.raises(errors.BadArgument, match="'other' of another entry or graph"):
        model.trace()


def test_compilers_compose() -> None:
    seen: list[str] = []

    def note(graph: Any) -> Any:
        seen.append("pass")
        return graph

    class Doubling:
        def executor(self, graph: Any) -> Any:
            seen.append("backend")
            return lambda values: {k: v * 2 for k, v in evaluate(graph, values, {}).items()}

    cx = lg.Graph()
    a = cx.tensor(2).set([1, 2])
    b = (a * 3).retrieve()
    cx.compile((note, (note,)), Doubling())
    cx.execute()
    assert seen == ["pass", "pass", "backend"]
    np.testing.assert_array_equal(b.numpy(), [6, 12])
    c = (a + 1).retrieve()  # asked for after compiling
    cx.execute()
    np.testing.assert_array_equal(c.numpy(), [4, 6])


def test_mistakes_with_values() -> None:
    cx = lg.Graph()
    a = cx.tensor((2, 2), name="a")
    with pytest.raises(errors.BadArgument, match="retrieve"):
        cx.execute()
    for refused in (["a", "b"], [[1.0], [1.0, 2.0]]):
        with pytest.raises(errors.BadInput, match="no array of numbers"):
            lg.Graph().tensor((2,)).set(refused)
    empty = lg.Graph()
    (empty.tensor((2, 3)).set(np.ones((2, 3)))[:, :0] + 1).retrieve()
    with pytest.raises(errors.BadArgument, match="output out0 cannot be of shape"):
        empty.compile(lg.CPUCompiler())
    with pytest.raises(errors.BadInput, match=r"\(3,\)"):
        a.set([1, 2, 3])
    with pytest.raises(errors.BadArgument, match="'a'"):
        cx.tensor((2, 2), name="a")
    b = a.sum().retrieve()
    with pytest.raises(errors.BadArgument, match="execute"):
        b.numpy()
    with pytest.raises(errors.BadInput, match="set"):
        cx.execute()


def test_an_output_that_is_always_empty_is_refused() -> None:
    model = lg.Model("empty")

    @model.entry(x=lg.spec(3, 4))
    def run(x: lg.Tensor) -> lg.Tensor:
        return x[2:2]

    with pytest.raises(errors.BadArgument, match=r"output out cannot be of shape \(0, 4\)"):
        model.trace()


def test_threads_trace_side_by_side() -> None:
    """Each has scopes, layers and loops of its own, however their steps alternate."""
    both = threading.Barrier(2, timeout=20)

    def traced(name: str) -> lg.Traced:
        layer = nn.Sequential(nn.Linear(4, 4), nn.ReLU())
        model = lg.Model(name, layer)

        @model.entry(x=lg.spec(B, 4))
        def run(x: lg.Tensor) -> lg.Tensor:
            for _ in range(20):
                both.wait()
                x = layer(x).cumsum(1) + len(name)
            return x

        return model.trace()

    with ThreadPoolExecutor(2) as pool:
        found = list(pool.map(traced, ("one", "other")))
    assert [t.name for t in found] == ["one", "other"]
    for t in found:
        ((_, graph),) = t.entries
        assert all(graph.lines.get(n) for n in graph.nodes() if n.op is Op.SUM_REDUCE)

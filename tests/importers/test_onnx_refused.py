"""ONNX files that cannot be compiled: each mistake has its message, the node's name, and nothing is written."""

from __future__ import annotations

import importlib.util
import json
import random
import re
import sys
import time
from pathlib import Path
from unittest import mock

import numpy as np
import onnx
import pytest
from click.testing import CliRunner
from onnx import TensorProto, helper, numpy_helper
from onnx_models import classifier, model, node

import lumigen as lg
from lumigen import errors
from lumigen.cli import lumigen as command_line
from lumigen.importers.onnx import reference, session

F = np.float32
ROOT = Path(__file__).parent.parent.parent


def refused(proto, error: type[errors.LumigenError], *texts: str, **given) -> None:
    with pytest.raises(error) as caught:
        lg.from_onnx(proto, **given)
    for text in texts:
        assert text in str(caught.value)


def saved(proto, folder: Path) -> Path:
    file = folder / "net.onnx"
    file.write_bytes(proto.SerializeToString())
    return file


# --- files ----------------------------------------------------------------------------------------


def test_a_file_must_be_a_whole_model(rng, tmp_path: Path) -> None:
    text = classifier(rng).SerializeToString()
    for content in (b"", b"hello", text[:100], text[: len(text) // 2]):
        file = tmp_path / "cut.onnx"
        file.write_bytes(content)
        refused(file, errors.BadOnnxFile, "cut.onnx")
    refused(tmp_path / "none.onnx", errors.BadOnnxFile, "there is no such file")
    refused(tmp_path, errors.BadOnnxFile, "it is a directory")


@pytest.mark.slow
def test_changed_bytes_are_refused_or_another_model(rng, tmp_path: Path) -> None:
    text = classifier(rng).SerializeToString()
    chance = random.Random(0)
    file = tmp_path / "net.onnx"
    refusals = 0
    for _ in range(150):
        changed = bytearray(text)
        for _ in range(chance.choice([1, 2, 4])):
            changed[chance.randrange(len(changed))] = chance.choice([0, 1, 127, 128, 255])
        file.write_bytes(changed)
        try:
            lg.from_onnx(file, dims={"batch": (1, 8)})
        except errors.UserError:
            refusals += 1
    assert refusals > 5


def test_a_tensor_must_have_what_it_says(rng) -> None:
    proto = classifier(rng)
    proto.graph.initializer[0].dims[0] = 10**12
    refused(proto, errors.BadOnnxFile, "conv.weight", "1000000000000", dims={"batch": 1})


@pytest.mark.parametrize(
    ("location", "length", "why"),
    [
        ("../secret.bin", "4", "no file beside the model"),
        ("/etc/passwd", "4", "no file beside the model"),
        ("short.bin", "4", "short.bin ends at 2, and it needs 4"),
        ("short.bin", "8", "8 bytes at 0 are not 1 elements"),
        ("none.bin", "4", "no file beside the model"),
    ],
)
def test_external_data_stays_in_the_directory(
    location: str, length: str, why: str, tmp_path: Path
) -> None:
    (tmp_path / "secret.bin").write_bytes(b"1234")
    folder = tmp_path / "model"
    folder.mkdir()
    (folder / "short.bin").write_bytes(b"12")
    proto = model([node("Add", "x w", "y")], {"x": (F, [1])}, "y", {"w": np.zeros(1, F)})
    w = proto.graph.initializer[0]
    w.ClearField("raw_data")
    w.data_location = TensorProto.EXTERNAL
    for key, value in (("location", location), ("length", length)):
        entry = w.external_data.add()
        entry.key, entry.value = key, value
    refused(saved(proto, folder), errors.BadOnnxFile, why)


def test_a_link_out_of_the_directory_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "secret.bin").write_bytes(b"1234")
    folder = tmp_path / "model"
    folder.mkdir()
    (folder / "w.bin").symlink_to(tmp_path / "secret.bin")
    proto = model([node("Add", "x w", "y")], {"x": (F, [1])}, "y", {"w": np.zeros(1, F)})
    w = proto.graph.initializer[0]
    w.ClearField("raw_data")
    w.data_location = TensorProto.EXTERNAL
    entry = w.external_data.add()
    entry.key, entry.value = "location", "w.bin"
    refused(saved(proto, folder), errors.BadOnnxFile, "no file beside the model")


# --- graphs ---------------------------------------------------------------------------------------


def test_a_cycle_is_a_name_that_nobody_has_made() -> None:
    nodes = [node("Add", "x b", "a", name="first"), node("Neg", "a", "b")]
    proto = model(nodes, {"x": (F, [2])}, "b")
    refused(proto, errors.UnsupportedNode, "node 1, first (Add)", "it reads 'b'")


def test_a_name_is_made_once() -> None:
    nodes = [node("Neg", "x", "y"), node("Exp", "x", "y")]
    refused(model(nodes, {"x": (F, [2])}), errors.UnsupportedNode, "it makes 'y'")


def test_an_unknown_operator_is_named() -> None:
    proto = model([node("Frobnicate", "x", "y", name="/mlp/Frob")], {"x": (F, [2])})
    refused(
        proto, errors.UnsupportedNode, "node 1, /mlp/Frob (Frobnicate)", "no operator Frobnicate"
    )


def test_functions_that_call_themselves_end() -> None:
    inner = helper.make_node("Again", ["a"], ["b"], domain="own")
    opsets = [helper.make_opsetid("own", 1)]
    function = helper.make_function("own", "Again", ["a"], ["b"], [inner], opsets)
    proto = model([node("Again", "x", "y", domain="own")], {"x": (F, [2])}, functions=[function])
    refused(proto, errors.UnsupportedNode, "inside each other")


def test_what_depends_on_data_says_on_which() -> None:
    nodes = [node("NonZero", "x", "places", name="/mask/NonZero")]
    proto = model(nodes, {"x": (F, [4])}, "places")
    refused(proto, errors.NotConstant, "/mask/NonZero (NonZero)", "depends on: x", "--set x=VALUE")


def test_huge_shapes_take_no_memory() -> None:
    """Where numbers must be known they are refused; elsewhere they are only a shape."""
    billions = {"s": np.array([10**9, 10**3])}
    fill = node("ConstantOfShape", "s", "c")
    refused(
        model([fill, node("NonZero", "c", "y")], {"x": (F, [1])}, "y", billions),
        errors.UnsupportedNode,
        "1000000000000 elements",
    )
    proto = model([fill, node("ReduceSum", "c", "y", keepdims=0)], {"x": (F, [1])}, "y", billions)
    lg.from_onnx(proto)


def test_attributes_that_do_not_fit_name_the_node() -> None:
    proto = model([node("Transpose", "x", "y", perm=[0, 5], name="/t")], {"x": (F, [2, 3])})
    refused(proto, errors.UserError, "node 1, /t (Transpose)")
    proto = model([node("Concat", "x", "y", name="/c")], {"x": (F, [2, 3])})
    refused(proto, errors.UnsupportedNode, "/c (Concat)", "attribute axis is missing")


def test_an_old_operator_set_is_refused() -> None:
    proto = model([node("Neg", "x", "y")], {"x": (F, [2])}, version=5)
    refused(proto, errors.BadOnnxFile, "operator set 5", "convert_version")


def test_sizes_without_a_range_are_all_listed() -> None:
    proto = model([node("Neg", "x", "y")], {"x": (F, ["batch", "time", 3])})
    refused(proto, errors.DimsWithoutRange, "batch, time", "--dim batch=1..64 --dim time=1..64")
    refused(proto, errors.UnknownOption, "dim bacth", "batch, time", dims={"bacth": 3})


# --- the command ----------------------------------------------------------------------------------


def call(*arguments: str) -> tuple[int, str, str]:
    found = CliRunner().invoke(command_line, list(arguments), standalone_mode=False)
    if isinstance(found.exception, errors.LumigenError):
        return found.exception.exit_code, found.stdout, str(found.exception)
    assert found.exception is None, found.exception
    return found.exit_code, found.stdout, found.stderr


def test_explain_lists_operators_and_all_problems(tmp_path: Path, monkeypatch) -> None:
    nodes = [
        node("NonZero", "x", "a", name="first"),
        node("Exp", "x", "b"),
        node("Frobnicate", "b", "c", name="second"),
        node("Add", "b c", "y"),  # depends on a problem, and is none itself
    ]
    monkeypatch.chdir(tmp_path)
    file = saved(model(nodes, {"x": (F, ["n"])}, "y b"), tmp_path)
    code, out, text = call("compile", str(file), "--explain")
    assert code == 1
    assert "(3 in all)" in text
    for shown in ("first (NonZero)", "second (Frobnicate)", "sizes without a range: n", "b f32[n]"):
        assert shown in out
    assert "y (Add)" not in out
    assert [p.name for p in tmp_path.iterdir()] == ["net.onnx"]
    code, out, _ = call("compile", str(file), "--explain", "--dim", "n=4", "--json")
    assert json.loads(out)["operators"] == {"NonZero": 1, "Exp": 1, "Frobnicate": 1, "Add": 1}


def test_explain_offers_no_range_that_it_has_found_to_be_none(tmp_path: Path) -> None:
    """1..64 is tried of each size without one: what a problem names is another's to choose."""
    weights = {"w": np.ones((7, 3), np.float32)}
    proto = model(
        [node("MatMul", "x w", "y")], {"x": (F, ["batch-size", 4, "width"])}, "y", weights
    )
    _, out, _ = call("compile", str(saved(proto, tmp_path)), "--explain")
    assert "--dim width=LEAST..GREATEST" in out
    assert "--dim width=1..64" not in out
    proto = model([node("Neg", "x", "y")], {"x": (F, ["batch-size", "width"])})
    _, _, text = call("compile", str(saved(proto, tmp_path)), "--explain")
    assert "--dim batch-size=1..64 --dim width=1..64" in text


def test_explain_lists_operators_that_are_not_known_whatever_their_operands_are(
    tmp_path: Path,
) -> None:
    """Also in a graph and in a function; what only reads a problem is none."""
    inner = helper.make_function(
        "own", "Called", ["a"], ["b"], [node("Third", "a", "b", domain="my")],
        [helper.make_opsetid("my", 1)],
    )  # fmt: skip
    side = helper.make_graph(
        [node("Second", "a", "r", domain="my")],
        "side",
        [],
        [helper.make_empty_tensor_value_info("r")],
    )
    other = helper.make_graph(
        [node("Exp", "a", "q")], "other", [], [helper.make_empty_tensor_value_info("q")]
    )
    nodes = [
        node("NonZero", "x", "a"),
        node("First", "a", "b", domain="my"),
        node("If", "a", "c", then_branch=side, else_branch=other),
        node("Called", "b", "d", domain="own"),
        node("RandomNormalLike", "b", "e"),
        node("First", "b nobody", "f", domain="my"),
        node("Add", "c d", "y"),
    ]
    file = saved(model(nodes, {"x": (F, [4])}, functions=[inner]), tmp_path)
    _, out, text = call("compile", str(file), "--explain")
    assert "(7 in all)" in text
    for number, name in ((2, "my.First"), (3, "my.Second"), (4, "my.Third"), (6, "my.First")):
        assert re.search(rf"node {number}, .* there is no operator {name} ", out), name
    assert "node 5, /e/RandomNormalLike" in out
    assert "node 7" not in out


def _halved() -> onnx.ModelProto:
    """Sums that are there for even heights alone."""
    nodes = [
        node("MaxPool", "x", "half", kernel_shape=[1, 1], strides=[1, 2]),
        node(
            "Resize",
            "half _ scales",
            "twice",
            coordinate_transformation_mode="asymmetric",
            nearest_mode="floor",
        ),
        node("Add", "x twice", "y"),
    ]
    scales = {"scales": np.array([1, 1, 1, 2], F)}
    return model(nodes, {"x": (F, [1, 1, 1, "image h"])}, "y", scales)


def test_sizes_that_a_model_has_not_are_told_with_the_option_that_helps(tmp_path: Path) -> None:
    file = saved(_halved(), tmp_path)
    words = ("compile", str(file), "--explain", "--dim")
    for given in ((), ("--dim", "image h=2..64")):
        code, out, _ = call("compile", str(file), "--explain", *given)
        assert code == 1
        assert 'lg.Dim("image_h", 2, 64, multiple_of=2)' in out
        assert "--dim 'image h'=LEAST..GREATEST:STEP" in out.replace("LEAST..GREATEST, or ", "")
        assert "declared" not in out, "nobody has declared it"
    for size in ("image h=2..64:2", "image h=6"):
        code, out, _ = call(*words, size)
        assert code == 0
    ((_, graph),) = lg.from_onnx(_halved(), {"image h": (2, 64, 4)}).trace().entries
    assert [(d.lo, d.hi, d.multiple_of) for d in graph.dims()] == [(2, 64, 4)]


@pytest.mark.parametrize("size", ["n=1..", "n=1..8:", "n=4:2", "n=1..8:2:2", "n=1..x", "n=:2"])
def test_sizes_that_do_not_parse(size: str, tmp_path: Path) -> None:
    file = saved(model([node("Neg", "x", "y")], {"x": (F, ["n"])}), tmp_path)
    found = CliRunner().invoke(command_line, ["compile", str(file), "--dim", size])
    assert found.exit_code == 2
    assert "dim=32..640:32 for multiples of 32" in " ".join(found.stderr.split())


def test_check_asks_onnxruntime_first_and_the_evaluator_where_that_does_not_run(
    rng, monkeypatch
) -> None:
    proto = classifier(rng)
    made = lg.from_onnx(proto, {"batch": 2})
    asked: list[bytes] = []

    class InferenceSession:
        def __init__(self, given, options, providers) -> None:
            assert providers == ["CPUExecutionProvider"]
            assert options.add_session_config_entry.call_args.args[0] == "session.x64quantprecision"
            asked.append(given)
            self.run = (lambda *_: [np.zeros((2, 3), F)]) if len(asked) == 1 else None

    runtime = mock.MagicMock(
        InferenceSession=InferenceSession, __spec__=mock.MagicMock(), __version__="1.2"
    )
    monkeypatch.setitem(sys.modules, "onnxruntime", runtime)
    found = lg.check(made)
    (row,) = found.rows
    assert found.by == "onnxruntime 1.2"
    assert str(found).startswith("compared with onnxruntime 1.2\n")
    assert asked == [proto.SerializeToString()]
    assert (row.greatest, row.difference > 0) == (0, True), "it is compared with what that gives"
    found = lg.check(lg.from_onnx(proto, {"batch": 2}))
    (row,) = found.rows
    assert found.by == f"the reference evaluator of onnx {onnx.__version__}"
    assert len(asked) == 2
    assert row.difference < 1e-5 < row.greatest


def test_check_says_what_else_can_run_the_original(monkeypatch) -> None:
    """The evaluator gathers from a table of two rows, and is asked for the third."""
    monkeypatch.setattr(reference, "find_spec", lambda _: None)
    table = {"t": np.ones((2, 2), F), "two": np.array(2)}
    nodes = [node("Mul", "x two", "z"), node("Gather", "t z", "y")]
    made = lg.from_onnx(model(nodes, {"x": (np.int64, [9])}, "y", table))
    with pytest.raises(
        errors.OriginalFailed, match=r"\(onnxruntime, .*, is not installed\)\. That"
    ):
        lg.check(made)


def test_a_project_of_another_source_is_replaced_with_force_alone(tmp_path: Path) -> None:
    """`model.onnx` and `model.pt2` of one folder have one name, and one directory by default."""
    file, out = saved(model([node("Neg", "x", "y")], {"x": (F, [2])}), tmp_path), tmp_path / "net"
    written = lg.Model("net")

    @written.entry(x=lg.spec(2, dtype=lg.f32))
    def forward(x: lg.Tensor) -> lg.Tensor:
        return -x

    lg.compile(lg.from_onnx(file), output=out, build=False)
    lg.compile(lg.from_onnx(file), output=out, build=False)
    with pytest.raises(
        errors.AnotherSource, match=r"of net\.onnx, and .* written .*-o, or pass --force"
    ):
        lg.compile(written, output=out, build=False)
    lg.compile(written, output=out, build=False, force=True)
    code, _, text = call("compile", str(file), "-o", str(out), "--no-build", "--quiet")
    assert code == 1
    assert "written for lumigen, and this one is of net.onnx" in text


@pytest.mark.parametrize("beside", [False, True])
def test_check_prints_the_greatest_differences(rng, tmp_path: Path, beside: bool) -> None:
    file = saved(classifier(rng), tmp_path)
    if beside:  # as torch.onnx.export writes models
        where = {"location": "net.onnx.data", "size_threshold": 0}
        onnx.save(onnx.load(file), file, save_as_external_data=True, **where)
    words = ("--check", "--no-build", "-o", str(tmp_path / "out"), "--dim", "batch=1..8", "--json")
    code, out, _ = call("compile", str(file), *words)
    rows = json.loads(out)["checked"]
    assert code == 0
    stored = tmp_path / "out" / "tests" / "vectors" / "original" / "forward.h"
    assert "// batch=3" in stored.read_text(encoding="utf-8")
    assert [r["sizes"] for r in rows] == ["batch=1", "batch=3", "batch=8"]
    assert all(r["output"] == "probs" and r["difference"] < 1e-5 < r["greatest"] for r in rows)


def test_show_takes_an_onnx_file(rng, tmp_path: Path) -> None:
    file = saved(classifier(rng), tmp_path)
    code, out, _ = call("show", str(file), "--dim", "batch=1..8", "--after", "graph", "-q")
    assert code == 0
    assert "input image_1  f32[batch, 1, 8, 8]" in out
    assert "net.onnx: node 1, /c/Conv (Conv)" in out


def test_a_refused_model_writes_nothing(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    file = saved(model([node("NonZero", "x", "y")], {"x": (F, [4])}), tmp_path)
    code, _, text = call("compile", str(file), "-q")
    assert code == 1
    assert "[NonZero]" in text
    assert [p.name for p in tmp_path.iterdir()] == ["net.onnx"]


@pytest.mark.parametrize(
    ("options", "text"),
    [
        (("--dim", "batch=1..8", "--weights", "w.npz"), "it has its weights"),
        (("--dim", "batch=1..8", "--set", "image.1=[1,"), "a number, a list"),
        (("--dim", "batch=1..8", "--set", "image.2=1"), "there is no input image.2"),
        (("--dim", "batch=1..8", "--check", "--explain"), "one of the two"),
        (("--dim", "batch=1..8", "--check", "--dtype", "bf16"), "--dtype cannot be bf16"),
        (("--dim", "batch=1..8", "--check", "--activations-dtype", "i8"), "Pass no --check"),
        (("--dim", "batch=1..8", "--trust"), "Pass it with a .pt2"),
    ],
)
def test_options_that_do_not_fit(options: tuple[str, ...], text: str, rng, tmp_path: Path) -> None:
    file = saved(classifier(rng), tmp_path)
    code, _, found = call("compile", str(file), *options, "-q")
    assert code == 1
    assert text in found


@pytest.mark.parametrize(
    ("options", "says"), [(("--dim", "n=3"), "with an imported model"), (("--explain",), "ONNX")]
)
def test_options_of_imported_models_are_for_them(
    tmp_path: Path, options: tuple[str, ...], says: str
) -> None:
    file = tmp_path / "model.py"
    file.write_text("", encoding="utf-8")
    code, _, text = call("compile", str(file), *options, "-q")
    assert code == 1
    assert says in text


def test_the_package_is_asked_for(monkeypatch, rng) -> None:
    proto = classifier(rng)

    def absent(name: str) -> None:
        raise ModuleNotFoundError(name=name)

    monkeypatch.setattr("lumigen.importers.onnx.reading.import_module", absent)
    refused(proto, errors.PackageMissing, "pip install 'lumigen[onnx]'")
    assert onnx.__version__


def test_what_is_squeezed_is_known() -> None:
    proto = model([node("Squeeze", "x", "y")], {"x": (F, ["n", 1, 3])})
    texts = ("whether axis 0 of size n goes depends on a run", "a range from 2 on")
    refused(proto, errors.UnsupportedNode, *texts, dims={"n": (1, 4)})
    made = lg.from_onnx(proto, dims={"n": (2, 4)})
    ((_, graph),) = made.trace().entries
    assert [str(e) for e in graph.outputs[0][1].shape] == ["n", "3"]


def test_inspect_says_what_a_file_holds(rng, tmp_path: Path) -> None:
    proto = classifier(rng)
    branch = helper.make_graph(
        [node("NonZero", "probs", "b")], "inner", [], [helper.make_empty_tensor_value_info("b")]
    )
    proto.graph.node.append(
        helper.make_node("If", ["yes"], ["z"], then_branch=branch, else_branch=branch)
    )
    helper.set_model_props(proto, {"author": "somebody"})
    folder = tmp_path / "net.onnx"
    onnx.save(proto, folder, save_as_external_data=True, location="net.bin", size_threshold=500)
    code, out, _ = call("inspect", str(folder))
    assert code == 0
    for text in (
        "input    image.1 float32[batch, 1, 8, 8]",
        "dims     batch",
        "ai.onnx 17",
        "about    author: somebody",
    ):
        assert text in out
    found = json.loads(call("inspect", str(folder), "--json")[1])
    operators = {op: (count, how) for op, count, how in found["operators"]}
    assert operators["NonZero"] == (2, "yes")
    weights = {w["name"]: (w["bytes"], w["location"]) for w in found["weights"]}
    assert weights["fc.weight"] == (5 * 64 * 4, "net.bin")
    assert weights["fc.bias"] == (20, "")


def test_inspect_says_what_is_not_compiled(tmp_path: Path) -> None:
    nodes = [
        node("Frobnicate", "x", "a"),
        node("RandomNormalLike", "a", "b"),
        node("MeanVarianceNormalization", "b", "y"),
    ]
    code, out, _ = call("inspect", str(saved(model(nodes, {"x": (F, ["n"])}), tmp_path)), "--json")
    operators = {op: how for op, _, how in json.loads(out)["operators"]}
    assert code == 0
    assert operators["Frobnicate"] == "no: it is not known"
    assert operators["RandomNormalLike"].startswith("no: it draws random numbers")
    (tmp_path / "cut.onnx").write_bytes(b"hello")
    code, _, text = call("inspect", str(tmp_path / "cut.onnx"))
    assert code == 1
    assert "cut.onnx" in text


# --- hostile files --------------------------------------------------------------------------------


def fuzz():
    spec = importlib.util.spec_from_file_location("onnx_fuzz", ROOT / "tests/sweeps/onnx_fuzz.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.slow
def test_mistakes_are_models_or_one_clear_message(tmp_path: Path) -> None:
    """Nothing else is raised, and nothing is written; `tests/sweeps/onnx_fuzz.py` tries more of them."""
    trials = fuzz()
    made = trials.bases()
    for base in made:
        assert trials.trial(base, tmp_path, looks=True) == "made"
    ways = {
        seed: trials.trial(trials.content_of(seed, made), tmp_path, looks=seed % 8 == 0)
        for seed in range(100)
    }
    assert {seed: way for seed, way in ways.items() if way not in ("made", "refused")} == {}
    assert {"made", "refused"} == set(ways.values())


def _field(number: int, content: bytes) -> bytes:
    """A field of a message that is text or a message, in protobuf's wire format."""
    size, rest = bytearray(), len(content)
    while rest > 127:
        size.append(rest & 127 | 128)
        rest >>= 7
    return bytes([number << 3 | 2]) + bytes([*size, rest]) + content


def _deep(levels: int = 400) -> bytes:
    """Branches inside each other, deeper than protobuf's own library writes them."""
    graph = model([node("Exp", "x", "y")], {}, "y").graph.SerializeToString()
    for _ in range(levels):
        branch = _field(1, b"then_branch") + _field(6, graph)
        graph = _field(
            1, _field(1, b"yes") + _field(2, b"y") + _field(4, b"If") + _field(5, branch)
        )
        graph += _field(12, _field(1, b"y"))
    return _field(7, graph)


def _doubling():
    """Functions that each call the one before twice."""
    opsets = [helper.make_opsetid("own", 1), helper.make_opsetid("", 17)]
    functions = [
        helper.make_function(
            "own", "F0", ["a"], ["b"], [helper.make_node("Exp", ["a"], ["b"])], opsets
        )
    ]
    for i in range(1, 38):
        calls = [
            helper.make_node(f"F{i - 1}", ["a"], ["c"], domain="own"),
            helper.make_node(f"F{i - 1}", ["c"], ["b"], domain="own"),
        ]
        functions.append(helper.make_function("own", f"F{i}", ["a"], ["b"], calls, opsets))
    return model([node("F37", "x", "y", domain="own")], {"x": (F, [2])}, functions=functions)


def _lying():
    proto = model([node("Add", "x w", "y")], {"x": (F, [2])}, initial={"w": np.zeros(2, F)})
    del proto.graph.initializer[0].dims[:]
    proto.graph.initializer[0].dims.extend([2**62, 2**62])
    return proto


def _growing():
    """Each sum has the shape of the one before, twice over."""
    nodes = [node("Concat", f"c{i} c{i}", f"c{i + 1}", axis=0) for i in range(70)]
    nodes += [node("Identity", "x", "c0"), node("NonZero", "c70", "y")]
    nodes.insert(0, nodes.pop(-2))
    return model(nodes, {"x": (F, [1])})


HOSTILE = {
    "deep": _deep,
    "doubling": _doubling,
    "lying": _lying,
    "growing": _growing,
    "many_attributes": lambda: model([node("Transpose", "x", "y", perm=[0] * 100_000)], {"x": (F, [2])}),
    "endless": lambda: model(
        [node("Loop", "n _ x", "y", body=helper.make_graph(
            [node("Exp", "b", "d"), node("Identity", "c", "e")], "g",
            [helper.make_empty_tensor_value_info(i) for i in "acb"],
            [helper.make_empty_tensor_value_info(i) for i in "ed"]))],
        {"x": (F, [2])}, "y", {"n": np.array(2**60)}),
    "huge": lambda: model([node("Tile", "x n", "a"), node("NonZero", "a", "y")], {"x": (F, [1])}, "y",
                          {"n": np.array([2**40])}),
    "trillions": lambda: model([node("Expand", "one n", "a"), node("Reshape", "x a", "y")], {"x": (F, [2])}, "y",
                               {"n": np.array([2**40]), "one": np.array(1)}),
}  # fmt: skip


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_structures_are_refused_soon(name: str, tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr("lumigen.importers.onnx.session.MOST_STEPS", 1000)
    proto, file = HOSTILE[name](), tmp_path / "net.onnx"
    file.write_bytes(proto if isinstance(proto, bytes) else proto.SerializeToString())
    begin = time.monotonic()
    with pytest.raises(errors.UserError) as caught:
        lg.from_onnx(file)
    assert time.monotonic() - begin < 20
    assert len(str(caught.value)) < 1500
    assert [p.name for p in tmp_path.iterdir()] == ["net.onnx"]


# --- files that onnxruntime refuses, or that say two things ---------------------------------------


def plain() -> onnx.ModelProto:
    return model([node("Add", "x w", "y")], {"x": (F, [2, 3])}, initial={"w": np.ones(3, F)})


def _changed(change) -> onnx.ModelProto:
    proto = plain()
    change(proto)
    return proto


def _of(kind: str, inputs: str, initial: dict, shape=(2, 3), **attributes) -> onnx.ModelProto:
    return model([node(kind, inputs, "y", **attributes)], {"x": (F, list(shape))}, "y", initial)


def _quantised(kind: str, inputs: str, zero: type) -> onnx.ModelProto:
    initial = {"s": np.array(0.5, F), "z": np.array(1, zero)}
    return model([node(kind, inputs, "y")], {"x": (np.uint8, [2, 2])}, "y", initial)


FALSE = {
    "initialisers": (
        lambda: _changed(
            lambda m: m.graph.initializer.append(numpy_helper.from_array(np.zeros(3, F), "w"))
        ),
        "2 initialisers of the name 'w'",
    ),
    "inputs": (
        lambda: _changed(lambda m: m.graph.input.append(m.graph.input[0])),
        "2 inputs of the name 'x'",
    ),
    "size": (
        lambda: _changed(lambda m: m.graph.initializer[0].dims.__setitem__(0, -3)),
        "a size is below 0",
    ),
    "element": (
        lambda: _changed(lambda m: setattr(m.graph.initializer[0], "data_type", 99)),
        "there is no element type 99",
    ),
    "newer": (
        lambda: _changed(lambda m: setattr(m.opset_import[0], "version", 999)),
        "operator set 999, and onnx",
    ),
    "no set": (
        lambda: _changed(lambda m: m.ClearField("opset_import")),
        "it names no operator set",
    ),
    "operands": (
        lambda: _changed(lambda m: m.graph.node[0].input.extend(["x"] * 5)),
        "it has 7 inputs, and its operator at most 2",
    ),
    "type": (
        lambda: _of("Softmax", "x", {}, axis=1.5),
        "attribute axis is of type FLOAT, and its operator takes INT",
    ),
    "attribute": (lambda: _of("Softmax", "x", {}, axes=1), "no attribute 'axes' in version 17"),
    "kernel": (
        lambda: _of("Conv", "x w", {"w": np.ones((1, 1, 2, 2), F)}, (1, 1, 4, 4), kernel_shape=[3, 3]),
        "its kernel_shape is [3, 3], and its weights are of [2, 2]",
    ),
    "pads": (
        lambda: _of("MaxPool", "x", {}, (1, 1, 4, 4), kernel_shape=[2, 2], pads=[0, 0, 0, 0, 1]),
        "its pads are [0, 0, 0, 0, 1], where it takes 4 numbers",
    ),
    "negative pads": (
        lambda: _of("Conv", "x w", {"w": np.ones((1, 1, 2, 2), F)}, (1, 1, 4, 4), pads=[-1, 0, 0, 0]),
        "its pads are [-1, 0, 0, 0], and none may be below 0",
    ),
    "pads of a transposed one": (
        lambda: _of("ConvTranspose", "x w", {"w": np.ones((1, 1, 2, 2), F)}, (1, 1, 4, 4), pads=[0, 0, 0, -1]),
        "its pads are [0, 0, 0, -1], and none may be below 0",
    ),
    "zero point": (
        lambda: _quantised("DequantizeLinear", "x s z", np.int8),
        "input 1 is of uint8, and its zero point, input 3, of int8",
    ),
    "zero point of a wider type": (
        lambda: _quantised("DequantizeLinear", "x s z", np.uint16),
        "input 1 is of uint8, and its zero point, input 3, of uint16",
    ),
    "zero point of a matrix": (
        lambda: _quantised("MatMulInteger", "x x _ z", np.int8),
        "input 2 is of uint8, and its zero point, input 4, of int8",
    ),
    "output type": (
        lambda: model(
            [node("QuantizeLinear", "x s z", "y", output_dtype=TensorProto.INT8)],
            {"x": (F, [2, 2])},
            "y",
            {"s": np.array(0.5, F), "z": np.array(1, np.uint8)},
            version=21,
        ),
        "its output_dtype is int8, and its zero point uint8",
    ),
    "strides": (
        lambda: _of("Conv", "x w", {"w": np.ones((1, 1, 2, 2), F)}, (1, 1, 4, 4), strides=[2]),
        "its strides are [2], where it takes 2 numbers",
    ),
    "place": (
        lambda: _of("Gather", "x i", {"i": np.array([0, 5])}),
        "its input 2 has the place 5, and the axis has size 2",
    ),
    "last place": (
        lambda: _of("GatherND", "x i", {"i": np.array([[1, 3]])}),
        "its input 2 has the place 3, and the axis has size 3",
    ),
    "row": (
        lambda: _of("ScatterElements", "x i x", {"i": np.full((2, 3), -3)}),
        "its input 2 has the place -3, and the axis has size 2",
    ),
    "quotient": (
        lambda: model(
            [node("Shape", "x", "s"), node("Div", "s z", "d"), node("Reshape", "x d", "y")],
            {"x": (F, [2, 3])},
            "y",
            {"z": np.array([0, 0])},
        ),
        "an integer is divided by 0",
    ),
    "extent": (lambda: model([node("Neg", "x", "y")], {"x": (F, [2**62])}), "sizes below 2**62"),
    "name": (
        lambda: model([node("Neg", "x", "y")], {"x": (F, ["+".join("b" * 5000)])}),
        "a size whose name has 9999 characters",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", FALSE)
def test_what_onnxruntime_refuses_is_refused(name: str) -> None:
    make, text = FALSE[name]
    refused(make(), errors.UserError, text)


@pytest.mark.parametrize(
    ("entries", "why"),
    [
        ({"location": "circle.bin"}, "no file beside the model"),
        ({"location": "w" * 300}, "no file beside the model"),
        ({"location": "a\0b"}, "no file beside the model"),
        ({}, "does not say in which file"),
        ({"location": "w.bin", "offset": "1_0"}, "its offset is '1_0'"),
        ({"location": "w.bin", "offset": "9" * 5000}, "no number of bytes"),
        ({"location": "w.bin", "offset": "-4"}, "no number of bytes"),
    ],
)
def test_places_in_other_files_are_sound(entries: dict[str, str], why: str, tmp_path: Path) -> None:
    (tmp_path / "circle.bin").symlink_to("back.bin")
    (tmp_path / "back.bin").symlink_to("circle.bin")
    (tmp_path / "w.bin").write_bytes(bytes(64))
    proto = plain()
    w = proto.graph.initializer[0]
    w.ClearField("raw_data")
    w.data_location = TensorProto.EXTERNAL
    for key, value in entries.items():
        entry = w.external_data.add()
        entry.key, entry.value = key, value
    refused(saved(proto, tmp_path), errors.BadOnnxFile, why)


def test_loops_that_are_too_long_are_refused_at_once(monkeypatch) -> None:
    """After one step, where each step says of the next what the one before has said."""
    trials = 0
    run = session.Session.run_graph

    def counted(*given):
        nonlocal trials
        trials += 1
        return run(*given)

    monkeypatch.setattr(session.Session, "run_graph", counted)
    refused(HOSTILE["endless"](), errors.UnsupportedNode, "more than 4096 times")
    assert trials == 1


def test_functions_that_grow_are_refused_before_they_are_walked(monkeypatch) -> None:
    monkeypatch.setattr(session.Session, "run", lambda *_: pytest.fail("it is walked"))
    refused(_doubling(), errors.BadOnnxFile, "its functions come to more than 50000 nodes")


def test_what_a_shell_reads_is_quoted() -> None:
    proto = model([node("Neg", "x", "y")], {"x": (F, ["it's", "a b"])})
    refused(proto, errors.DimsWithoutRange, """--dim 'it'"'"'s'=1..64 --dim 'a b'=1..64""")

"""Every error: its text by its class, and a program that makes a user meet it.

A new class in errors.py fails here until it has a row in FACTS and one in PROGRAMS or AWAITED.
"""

from __future__ import annotations

import importlib.util
import json
import pickle
import re
import sys
import types
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import pytest
import torch
from onnx.helper import make_graph, make_model, make_node, make_opsetid, make_tensor_value_info
from safetensors.numpy import save_file

import lumigen as lg
from lumigen import errors, nn
from lumigen.build import build_project
from lumigen.cli import lumigen as command_line
from lumigen.cli.opened import Project, manifest_of
from lumigen.errors import InternalError, LumigenError, SourceLocation, UserError, user_location
from lumigen.importers.hugging_face import open_checkpoint
from lumigen.pipeline import lower_model
from lumigen.target import TARGETS
from lumigen.targets.cuda.limits import probe_gpu
from lumigen.toolchain import compiled_library, cxx

# Facts as a raise site would give them, and the whole text that comes out.
FACTS: dict[type[LumigenError], tuple[Mapping[str, object], str]] = {
    errors.ShapeMismatch: (
        {
            "op": "matmul",
            "lhs": ("batch", 3),
            "rhs": (4, 5),
            "rule": "the last axis of the left must equal the first of the right",
            "remedy": "Transpose one of them, or change its size.",
        },
        (
            "[matmul] shapes (batch, 3) and (4, 5) do not fit together: the last axis of the left "
            "must equal the first of the right. Transpose one of them, or change its size."
        ),
    ),
    errors.RankMismatch: (
        {
            "op": "conv2d",
            "name": "the input",
            "shape": (3,),
            "expected": "4 axes (batch, channel, height, width)",
            "remedy": "Add the missing ones with .reshape().",
        },
        (
            "[conv2d] the input has shape (3,), must have 4 axes (batch, channel, height, width). "
            "Add the missing ones with .reshape()."
        ),
    ),
    errors.DtypeMismatch: (
        {
            "op": "add",
            "name": "the right operand",
            "got": "f16",
            "expected": "f32",
            "remedy": "Cast one with .to().",
        },
        "[add] the right operand is f16, must be f32. Cast one with .to().",
    ),
    errors.BadAxis: (
        {"op": "sum", "axis": 3, "shape": (2, 3)},
        (
            "[sum] axis 3 does not name one axis of shape (2, 3). "
            "Count axes from 0, or back from -1, and name each at most once."
        ),
    ),
    errors.BadReshape: (
        {"op": "reshape", "shape": (2, 3), "target": (4, 2), "why": "6 elements cannot fill 8"},
        (
            "[reshape] shape (2, 3) cannot become (4, 2): 6 elements cannot fill 8. Keep the "
            "number of elements, and split an axis only by a factor that always divides it."
        ),
    ),
    errors.BadSize: (
        {"size": "2.5", "why": "is no integer", "remedy": "Pass an integer or a dim."},
        "[size] 2.5 is no integer. Pass an integer or a dim.",
    ),
    errors.BadArgument: (
        {"op": "dropout", "name": "p", "value": 1.5, "expected": "a number from 0 to 1"},
        "[dropout] p cannot be 1.5. Pass a number from 0 to 1.",
    ),
    errors.NoGreatestSize: (
        {
            "op": "from_torch",
            "name": "the dim rows",
            "value": "without a greatest size",
            "expected": "a greatest size of it",
        },
        "[from_torch] the dim rows cannot be without a greatest size. Pass a greatest size of it.",
    ),
    errors.UnknownDim: (
        {"entry": "classify", "name": "sequence", "known": ["batch"]},
        (
            "[classify] there is no dim sequence; there are: batch. "
            "Correct the name, or declare it with Dim(name, min, max) in a spec."
        ),
    ),
    errors.DimSpecialised: (
        {"op": "concat", "dim": "batch", "declared": "1 to 64", "needed": "exactly 8"},
        (
            "[concat] dim batch is declared as 1 to 64, but here it would have to be exactly 8. "
            "Write this step so that it works for every value, write a separate entry for the sizes "
            "that differ, or use a fixed size instead of the Dim."
        ),
    ),
    errors.SizeSpecialised: (
        {"op": "add", "dim": "image_h", "needed": "a multiple of 2", "option": "'image h'"},
        (
            "[add] dim image_h would have to be a multiple of 2 here. Give it one number, or a range "
            "of which that is true: --dim 'image h'=LEAST..GREATEST, or LEAST..GREATEST:STEP for the "
            "multiples of STEP."
        ),
    ),
    errors.DimConflict: (
        {"dim": "batch", "first": "1 to 64", "second": "1 to 32"},
        (
            "[Dim] batch is declared as 1 to 64 and as 1 to 32. A name stands for one dim with "
            "one range: share one Dim object, or rename one of the two."
        ),
    ),
    errors.UnknownWeight: (
        {
            "name": "0.weigth",
            "file": Path("a.safetensors"),
            "close": ["0.weight", "2.weight"],
            "remedy": "Rename the parameter.",
        },
        (
            "[weights] a.safetensors has no tensor 0.weigth; the closest names are: 0.weight, "
            "2.weight. Rename the parameter."
        ),
    ),
    errors.WeightOverflow: (
        {
            "name": "0.bias",
            "file": "a.safetensors",
            "value": "1e+30",
            "dtype": "f16",
            "greatest": "65504",
        },
        (
            "[weights] 0.bias in a.safetensors has 1e+30, but the greatest number of f16 is 65504. "
            "Compile with --dtype bf16 or --dtype f32, or scale the weight."
        ),
    ),
    errors.WeightMismatch: (
        {
            "name": "0.bias",
            "file": "a.safetensors",
            "got": "f16[8]",
            "expected": "f32[8]",
            "remedy": "Change the declaration.",
        },
        (
            "[weights] 0.bias in a.safetensors is f16[8], but the model declares f32[8]. "
            "Change the declaration."
        ),
    ),
    errors.StateMismatch: (
        {
            "module": "Linear",
            "missing": ["bias"],
            "unexpected": [],
            "unlike": ["weight is f32[2, 3], must be f32[3, 2]"],
            "remedy": "Pass the state_dict of this module.",
        },
        (
            "[load_state_dict] the given state does not fit Linear; missing: bias; unexpected: none; "
            "of another shape or type: weight is f32[2, 3], must be f32[3, 2]. "
            "Pass the state_dict of this module."
        ),
    ),
    errors.BadWeightsFile: (
        {
            "file": "a.safetensors",
            "why": "the header says 900 bytes, the file has 12",
            "remedy": "Fetch it again.",
        },
        (
            "[weights] a.safetensors cannot be used: the header says 900 bytes, the file has 12. "
            "Fetch it again."
        ),
    ),
    errors.NotComputed: (
        {
            "file": "config.json",
            "why": "its hidden_act is gelu, which this model does not compute",
            "remedy": "Pass a checkpoint where it is silu, or extend the model.",
        },
        (
            "[weights] config.json cannot be used: its hidden_act is gelu, which this model does not "
            "compute. Pass a checkpoint where it is silu, or extend the model."
        ),
    ),
    errors.ModelFileError: (
        {
            "file": "model.py",
            "why": "it defines neither model nor build",
            "remedy": "Add `model = lg.Model(...)`.",
        },
        "[model] model.py: it defines neither model nor build. Add `model = lg.Model(...)`.",
    ),
    errors.BadCall: (
        {
            "op": "softmax",
            "why": "got an unexpected keyword argument 'axis'",
            "call": "softmax(dim, dtype=None)",
        },
        (
            "[softmax] it got an unexpected keyword argument 'axis'. "
            "Call it as softmax(dim, dtype=None)."
        ),
    ),
    errors.OriginalFailed: (
        {"model": "net", "why": "IndexError: index out of range"},
        (
            "[check] the original of net ends with IndexError: index out of range. "
            "That says nothing of what is compiled: leave --check out, and compare on inputs of your own."
        ),
    ),
    errors.NotExported: (
        {"model": "Net", "why": "a is not b", "remedy": "Rewrite it."},
        "[from_torch] PyTorch cannot export Net: a is not b. Rewrite it.",
    ),
    errors.NotImported: (
        {
            "op": "from_torch",
            "count": "2 operations",
            "model": "net",
            "text": "net.py:3: aten.nonzero.default: why\nnet.py:9: aten.rand.default: why",
            "remedy": "Rewrite these lines.",
        },
        (
            "[from_torch] 2 operations of net cannot be compiled:\n"
            "net.py:3: aten.nonzero.default: why\nnet.py:9: aten.rand.default: why\n"
            "Rewrite these lines."
        ),
    ),
    errors.UnknownOption: (
        {"command": "compile", "name": "layer", "known": []},
        "[compile] there is no layer; there are: none. Correct the name, or leave it out.",
    ),
    errors.NotADirectory: (
        {"directory": "net.py"},
        (
            "[compile] net.py is a file, and a project is a directory. "
            "Name another place with -o, or move the file away."
        ),
    ),
    errors.DirectoryNotOurs: (
        {"directory": Path("digits-cpu")},
        (
            "[compile] digits-cpu is not empty and has no complete manifest.json of lumigen, so "
            "lumigen does not overwrite it. Choose another directory with -o, or empty this one yourself."
        ),
    ),
    errors.AnotherSource: (
        {"directory": "model-cpu", "before": "model.pt2", "source": "model.onnx"},
        (
            "[compile] model-cpu holds the project of model.pt2, and this one is of model.onnx. "
            "Name another directory with -o, or pass --force (force=True) to replace it."
        ),
    ),
    errors.EditedFiles: (
        {"directory": "digits-cpu", "files": ["README.md", "src/digits.cpp"]},
        (
            "[compile] these files in digits-cpu were edited after they were emitted: README.md, "
            "src/digits.cpp. "
            "Move your changes elsewhere, or pass --force (force=True) to overwrite them."
        ),
    ),
    errors.NotAsEmitted: (
        {"directory": Path("digits-cpu"), "what": "edited: README.md; missing: src/digits.cpp"},
        (
            "[inspect] digits-cpu differs from what was emitted: edited: README.md; missing: "
            "src/digits.cpp. Restore the files, or compile the model again: with --force if "
            "they were edited, with --weights FILE if its weights do not fit."
        ),
    ),
    errors.CompilerMissing: (
        {
            "tool": "nvcc",
            "purpose": "target cuda",
            "remedy": "Install the CUDA toolkit, 12.3 or later.",
        },
        (
            "[build] nvcc was not found, and target cuda needs it. Install the CUDA toolkit, "
            "12.3 or later. `lumigen doctor` lists every tool."
        ),
    ),
    errors.LimitsUnknown: (
        {"why": "the NVIDIA driver shows no GPU", "remedy": "Run nvidia-smi to see why."},
        (
            "[bench] the limits of the GPU cannot be measured: the NVIDIA driver shows no GPU. "
            "Run nvidia-smi to see why."
        ),
    ),
    errors.BuildFailed: (
        {"step": "compile one.cpp", "code": 1, "output": "1\n2\n3\n4\n5\n6\n7\n"},
        (
            "[build] the compile one.cpp step stopped with exit code 1:\n3\n4\n5\n6\n7\n"
            "Run `lumigen doctor` to check the tools."
        ),
    ),
    errors.ProjectBuildFailed: (
        {"step": "compile", "code": 2, "output": "1\n2\n3\n4\n5\n6\n7\n", "log": "build/log.txt"},
        (
            "[build] the compile step stopped with exit code 2:\n3\n4\n5\n6\n7\n"
            "The whole output is in build/log.txt; `lumigen doctor` checks the tools."
        ),
    ),
    errors.NotBuilt: (
        {"command": "run", "directory": "digits-cpu"},
        (
            "[run] digits-cpu has no built Python module. Run the same `lumigen compile` without "
            "--no-build; `lumigen test` builds what it needs."
        ),
    ),
    errors.FileRefused: (
        {
            "command": "run",
            "file": Path("x.npy"),
            "why": "there is no such file",
            "remedy": "Pass a file that numpy.save wrote.",
        },
        ("[run] x.npy cannot be used: there is no such file. Pass a file that numpy.save wrote."),
    ),
    errors.PackageMissing: (
        {"op": "onnx", "package": "onnx"},
        ("[onnx] it needs the package onnx, which is not there. Run pip install 'lumigen[onnx]'."),
    ),
    errors.BadCheckpoint: (
        {
            "directory": "bert",
            "why": "it has no config.json",
            "remedy": "Name a directory that save_pretrained of transformers wrote.",
        },
        (
            "[checkpoint] bert cannot be used: it has no config.json. "
            "Name a directory that save_pretrained of transformers wrote."
        ),
    ),
    errors.BadOnnxFile: (
        {
            "file": "net.onnx",
            "why": "it is no complete ONNX model",
            "remedy": "Export the model again.",
        },
        ("[onnx] net.onnx cannot be used: it is no complete ONNX model. Export the model again."),
    ),
    errors.UnsupportedNode: (
        {
            "op": "NonMaxSuppression",
            "why": "only a run knows how many boxes it selects",
            "remedy": "Export the model without it.",
        },
        (
            "[NonMaxSuppression] this node cannot be compiled: only a run knows how many boxes it "
            "selects. Export the model without it."
        ),
    ),
    errors.NotConstant: (
        {
            "op": "Reshape",
            "name": "input 2, shape,",
            "inputs": ["shape"],
            "example": "--set shape=VALUE",
        },
        (
            "[Reshape] input 2, shape, must be known when the model is compiled, but it depends on: "
            "shape. Give it its value, as --set shape=VALUE does, or export the model with constants "
            "there."
        ),
    ),
    errors.DimsWithoutRange: (
        {"file": "net.onnx", "dims": ["batch", "time"], "example": "--dim batch=1..64"},
        (
            "[onnx] net.onnx has sizes without a range: batch, time. Give each a range or a number: "
            "--dim batch=1..64."
        ),
    ),
    errors.ProblemsInModel: (
        {"file": "net.onnx", "count": 3},
        (
            "[explain] net.onnx cannot be compiled as it is. Remove each reason of the list above "
            "(3 in all)."
        ),
    ),
    errors.RangesMissing: (
        {"file": "net.onnx", "example": "--dim batch=1..64"},
        (
            "[explain] net.onnx can be compiled once its sizes have ranges, and has no other problem. "
            "Give each a range or a number: --dim batch=1..64."
        ),
    ),
    errors.BadPass: (
        {"name": "forget", "what": "it gives None, no lg.ir.Graph"},
        (
            "[forget] the pass does not give what the next one can take: it gives None, no "
            "lg.ir.Graph. Correct the pass; lg.ir.verify tells the rules of a graph, lg.ir.show its text."
        ),
    ),
    errors.CallRefused: (
        {"text": "[classify] x is float64, must be float32. Pass x.astype(np.float32)."},
        "[classify] x is float64, must be float32. Pass x.astype(np.float32).",
    ),
    errors.BadInput: (
        {
            "entry": "classify",
            "name": "x",
            "got": "float64",
            "expected": "float32",
            "remedy": "Pass x.astype(np.float32).",
        },
        "[classify] x is float64, must be float32. Pass x.astype(np.float32).",
    ),
    errors.UnknownEntry: (
        {"model": "digits", "name": "train", "known": ["classify"]},
        "[digits] there is no entry train; there are: classify. Name one of these.",
    ),
    errors.UnsupportedTarget: (
        {
            "target": "cuda:sm_35",
            "why": "sm_70 is the oldest that is supported",
            "known": {"b", "a"},
        },
        (
            "[target] cuda:sm_35 cannot be used: sm_70 is the oldest that is supported. "
            "Choose one of: a, b."
        ),
    ),
    errors.TooManyArguments: (
        {"kernel": "k00_total", "bytes": 4808, "target": "metal", "most": 4096},
        (
            "[compile] kernel k00_total takes 4808 bytes of arguments for its tensors and sizes, metal takes at most "
            "4096. Split the entry in two, or let fewer inputs meet in one expression."
        ),
    ),
    errors.VerifyFailed: (
        {"after": "fold", "what": "%3 = add has one argument"},
        f"[fold] the result does not verify: %3 = add has one argument. {InternalError.advice}",
    ),
    errors.BadLaunch: (
        {"kernel": "k01", "what": "it has 2 arguments, not 3"},
        "[interp] a launch does not fit its kernel k01: it has 2 arguments, not 3. "
        + InternalError.advice,
    ),
    errors.LoweringFailed: (
        {"step": "tile", "what": "a scan over two axes"},
        f"[tile] there is no way to lower a scan over two axes. {InternalError.advice}",
    ),
    errors.Unexpected: (
        {"command": "compile", "what": "KeyError: 'x'", "place": "assemble.py:7"},
        f"[compile] KeyError: 'x', raised at assemble.py:7. {InternalError.advice}",
    ),
}

# A program for each mistake, as a user would make it: called with a fresh directory, it must raise.


def model() -> lg.Model:
    net = nn.Linear(4, 3)
    found = lg.Model("small", net)

    @found.entry(x=lg.spec(4))
    def project(x):
        return net(x)

    return found


def traced(function: Callable[..., object], **inputs: object) -> None:
    """A model whose one entry is the function."""
    found = lg.Model("wrong")
    found.entry(**inputs)(function)
    found.trace()


def tensor(*shape: int, dtype: lg.DType = lg.f32) -> lg.Tensor:
    return lg.Graph().tensor(shape, dtype)


def dim_that_no_spec_declares(_: Path) -> None:
    def repeat(x):
        return x.expand(lg.Dim("sequence", 1, 8), 3)

    traced(repeat, x=lg.spec(3))


def dim_declared_twice(_: Path) -> None:
    def add(x, y):
        return x + y

    traced(add, x=lg.spec(lg.Dim("batch", 1, 64)), y=lg.spec(lg.Dim("batch", 1, 32)))


def dim_that_must_be_a_size(_: Path) -> None:
    def add(x, y):
        return x + y

    traced(add, x=lg.spec(lg.Dim("batch", 1, 64)), y=lg.spec(8))


def somebody_else_s_directory(directory: Path) -> None:
    (directory / "notes.txt").write_text("mine", encoding="utf-8")
    lg.compile(model(), output=directory, build=False)


def a_file_in_place_of_a_directory(directory: Path) -> None:
    (directory / "net.py").write_text("", encoding="utf-8")
    lg.compile(model(), output=directory / "net.py", build=False)


def another_source(directory: Path) -> None:
    m = model()
    lg.compile(m, output=directory, build=False)
    m.source = "model.onnx"
    lg.compile(m, output=directory, build=False)


def edited_files(directory: Path) -> None:
    lg.compile(model(), output=directory, build=False)
    (directory / "README.md").write_text("mine", encoding="utf-8")
    lg.compile(model(), output=directory, build=False)


def not_as_emitted(directory: Path) -> None:
    lg.compile(model(), output=directory, build=False)
    (directory / "README.md").write_text("mine", encoding="utf-8")
    command_line.main(["inspect", str(directory)], standalone_mode=False)


def no_compiler(directory: Path) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("LUMIGEN_CXX", "no-such-compiler")
        lg.compile(model(), output=directory)


def broken_source(directory: Path) -> None:
    lg.compile(model(), output=directory, build=False)
    (directory / "CMakeLists.txt").write_text("message(FATAL_ERROR broken)", encoding="utf-8")
    build_project(directory)


def unit_that_does_not_compile(directory: Path) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("LUMIGEN_CACHE", str(directory))
        compiled_library("kind", cxx() or "c++", ("-shared",), "one.cpp", "int main(")


def limits_without_a_gpu(_: Path) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("lumigen.targets.cuda.limits.nvcc", lambda: "nvcc")
        patch.setattr("lumigen.targets.cuda.limits.gpu_architecture", lambda _: None)
        probe_gpu({"f32"})


def of_one_node(op: str, size: int | str = 4) -> onnx.ModelProto:
    x, y = (make_tensor_value_info(n, onnx.TensorProto.FLOAT, [size]) for n in "xy")
    graph = make_graph([make_node(op, ["x"], ["y"])], "small", [x], [y])
    return make_model(graph, opset_imports=[make_opsetid("", 20)])


def sum_of_two_sizes() -> onnx.ModelProto:
    x, z, y = (
        make_tensor_value_info(n, onnx.TensorProto.FLOAT, [s]) for n, s in ("xn", "zm", "yn")
    )
    graph = make_graph([make_node("Add", ["x", "z"], ["y"])], "small", [x, z], [y])
    return make_model(graph, opset_imports=[make_opsetid("", 20)])


def onnx_without_its_package() -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(sys.modules, "onnx", None)
        lg.from_onnx("net.onnx")


def model_that_is_explained(directory: Path, op: str = "NonZero", size: int | str = 4) -> None:
    file = directory / "net.onnx"
    file.write_bytes(of_one_node(op, size=size).SerializeToString())
    command_line.main(["compile", str(file), "--explain"], standalone_mode=False)


def without_torch(directory: Path) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(importlib.util, "find_spec", lambda _: None)
        lg.from_torch(directory)


def drawing_module(directory: Path) -> None:
    class Drawing(torch.nn.Module):
        def forward(self, x):
            return x + torch.rand_like(x)

    lg.from_torch(Drawing(), (torch.zeros(2),))


def original_that_raises(directory: Path) -> None:
    class Far(torch.nn.Module):
        """Of a table that has no row 5, which the comparison asks for."""

        def __init__(self) -> None:
            super().__init__()
            self.table = torch.nn.Embedding(2, 2)

        def forward(self, ids: torch.Tensor) -> torch.Tensor:
            return self.table(ids * 5)

    lg.check(lg.from_torch(Far(), (torch.tensor([0, 0, 0]),)))


def unknown_option(directory: Path) -> None:
    file = directory / "model.py"
    file.write_text("def build(weights=None, layers: int = 2): ...\n", encoding="utf-8")
    lg.load_model_file(file, options={"layer": "3"})


def values_of_another_shape(_: Path) -> None:
    lg.Graph().tensor((3, 1)).set([1.0, 2.0])


def unknown_entry(directory: Path) -> None:
    emitted(directory).entry("train")


def refused_call(directory: Path) -> None:
    with emitted(directory).refusals():
        raise BrokenContract("[project] x is float64, must be float32. Pass x.astype(np.float32).")


def emitted(directory: Path) -> Project:
    """A project whose module is one of ours, for what its module does not decide."""
    lg.compile(model(), output=directory, build=False)
    module = types.ModuleType("small")
    module.Error = BrokenContract
    return Project("run", directory, manifest_of("run", directory), module)


class BrokenContract(ValueError):
    status = 2


WEIGHTS = {"weight": np.zeros((3, 4), np.float32), "bias": np.zeros(3, np.float32)}


def pass_that_gives_nothing() -> None:
    cx = lg.Graph()
    cx.tensor(3).retrieve()
    cx.compile(lambda graph: None)  # pyright: ignore[reportArgumentType]


def another_configuration(folder: Path) -> None:
    save_file(WEIGHTS, folder / "model.safetensors")
    (folder / "config.json").write_text('{"model_type": "gpt2"}')
    lg.open_weights(folder).config_for("bert")


PROGRAMS: dict[type[UserError], Callable[[Path], object]] = {
    errors.ShapeMismatch: lambda _: tensor(2, 3) @ tensor(4, 5),
    errors.RankMismatch: lambda _: tensor() @ tensor(3),
    errors.DtypeMismatch: lambda _: tensor(3) @ tensor(3, dtype=lg.i64),
    errors.BadAxis: lambda _: tensor(2, 3).sum(2),
    errors.BadReshape: lambda _: tensor(2, 3).reshape(4, 2),
    errors.BadSize: lambda _: lg.Dim("n", 1, 8) / 2,
    errors.BadArgument: lambda _: lg.Model("not a name"),
    errors.NoGreatestSize: lambda _: lg.from_torch(
        torch.nn.ReLU(), (torch.ones(3, 2),), dynamic_shapes=({0: torch.export.Dim("rows")},)
    ),
    errors.PackageMissing: lambda _: onnx_without_its_package(),
    errors.BadCheckpoint: lambda d: open_checkpoint(d, {}, {}),
    errors.BadOnnxFile: lambda d: lg.from_onnx(d / "net.onnx"),
    errors.UnsupportedNode: lambda _: lg.from_onnx(of_one_node("StringSplit")),
    errors.NotConstant: lambda _: lg.from_onnx(of_one_node("NonZero")),
    errors.DimsWithoutRange: lambda _: lg.from_onnx(of_one_node("Neg", size="n")),
    errors.ProblemsInModel: model_that_is_explained,
    errors.RangesMissing: lambda d: model_that_is_explained(d, "Neg", "n"),
    errors.BadPass: lambda _: pass_that_gives_nothing(),
    errors.BadCall: lambda _: lg.nn.Linear(4, bais=True),  # pyright: ignore[reportCallIssue]
    errors.UnknownDim: dim_that_no_spec_declares,
    errors.DimSpecialised: dim_that_must_be_a_size,
    errors.SizeSpecialised: lambda _: lg.from_onnx(sum_of_two_sizes(), {"n": (1, 4), "m": (1, 4)}),
    errors.DimConflict: dim_declared_twice,
    errors.UnknownWeight: lambda d: lg.compile(
        model(), output=d, weights={"wieght": WEIGHTS["weight"]}, build=False
    ),
    errors.WeightMismatch: lambda d: lg.compile(
        model(), output=d, weights={**WEIGHTS, "bias": np.zeros(4, np.float32)}, build=False
    ),
    errors.WeightOverflow: lambda d: lg.compile(
        model(),
        output=d,
        weights={**WEIGHTS, "weight": WEIGHTS["weight"] + np.float32(1e30)},
        dtype=lg.f16,
        build=False,
    ),
    errors.StateMismatch: lambda d: lg.nn.Linear(2, 2).load_state_dict({}),
    errors.BadWeightsFile: lambda d: lg.open_weights(d / "none.safetensors"),
    errors.NotComputed: another_configuration,
    errors.ModelFileError: lambda d: lg.load_model_file(d / "model.py"),
    errors.PackageMissing: without_torch,
    errors.OriginalFailed: original_that_raises,
    errors.NotExported: lambda _: lg.from_torch(torch.nn.Linear(2, 2), (torch.zeros(3),)),
    errors.NotImported: drawing_module,
    errors.UnknownOption: unknown_option,
    errors.NotADirectory: a_file_in_place_of_a_directory,
    errors.DirectoryNotOurs: somebody_else_s_directory,
    errors.AnotherSource: another_source,
    errors.EditedFiles: edited_files,
    errors.NotAsEmitted: not_as_emitted,
    errors.CompilerMissing: no_compiler,
    errors.LimitsUnknown: limits_without_a_gpu,
    errors.BuildFailed: unit_that_does_not_compile,
    errors.ProjectBuildFailed: broken_source,
    errors.NotBuilt: lg.load,
    errors.FileRefused: lambda d: manifest_of("run", d / "nowhere"),
    errors.CallRefused: refused_call,
    errors.BadInput: values_of_another_shape,
    errors.UnknownEntry: unknown_entry,
    errors.UnsupportedTarget: lambda d: lg.compile(model(), target="tpu", output=d),
    errors.TooManyArguments: lambda _: lower_model(
        model().trace(), {}, target=replace(TARGETS["metal"].target, argument_bytes=16)
    ),
}

# Mistakes that no user can make yet, because the part of lumigen that would refuse them is to come.
AWAITED: set[type[UserError]] = set()


def subclasses(error: type[LumigenError]) -> Iterator[type[LumigenError]]:
    for each in error.__subclasses__():
        yield each
        yield from subclasses(each)


CLASSES = sorted(
    set(subclasses(LumigenError)) - {UserError, InternalError}, key=lambda c: c.__name__
)
every_class = pytest.mark.parametrize("error", CLASSES, ids=lambda c: c.__name__)


@every_class
def test_class_has_its_cases(error: type[LumigenError]) -> None:
    assert error in FACTS, f"{error.__name__} needs a row in FACTS"
    if issubclass(error, UserError):
        assert (error in PROGRAMS) != (error in AWAITED), (
            f"{error.__name__} needs a program in PROGRAMS that makes the mistake; "
            "a row in AWAITED only while no user can make it"
        )


@every_class
def test_text(error: type[LumigenError]) -> None:
    facts, expected = FACTS[error]
    assert str(error(**facts)) == expected


@every_class
def test_text_names_the_place_the_fact_and_the_remedy(error: type[LumigenError]) -> None:
    text = str(error(**FACTS[error][0]))
    assert re.match(r"\[[^]]+\] ", text), "it starts with [where]"
    assert len(text.splitlines()) <= 8
    assert "{" not in text
    assert re.search(r"[.:\n][ \n]?[A-Z].*\.$", text, re.DOTALL), (
        "a fact, then a sentence of advice"
    )
    assert not re.search(r"invalid|failed", text, re.IGNORECASE), "say what is wrong instead"


@every_class
def test_facts_are_checked_when_raised(error: type[LumigenError]) -> None:
    facts = dict(FACTS[error][0])
    name, value = facts.popitem()
    with pytest.raises(TypeError, match=rf"missing: {name}, unknown: none\.$"):
        error(**facts)
    with pytest.raises(TypeError, match=r"missing: none, unknown: extra\.$"):
        error(**facts, **{name: value}, extra=1)


@every_class
def test_errors_survive_pickling(error: type[LumigenError]) -> None:
    """With what is said of them later: the fields that a class declares, and notes."""
    before = error(where=SourceLocation("model.py", 7, "f"), layer="net.0", **FACTS[error][0])
    for name in vars(error).get("__annotations__", {}):
        setattr(before, name, {"rows": 3})
    before.add_note("as a user adds it")
    after = pickle.loads(pickle.dumps(before))
    assert type(after) is error
    assert str(after) == str(before)
    assert vars(after) == vars(before)


@every_class
def test_exit_code(error: type[LumigenError]) -> None:
    assert error.exit_code == (1 if issubclass(error, UserError) else 70)


@pytest.mark.parametrize("error", PROGRAMS, ids=lambda c: c.__name__)
def test_programs_are_refused(error: type[UserError], tmp_path: Path) -> None:
    with pytest.raises(error) as caught:
        PROGRAMS[error](tmp_path)
    assert type(caught.value) is error
    assert len(str(caught.value).splitlines()) <= 8


@pytest.mark.parametrize("family", [LumigenError, UserError, InternalError])
def test_a_family_is_not_raised(family: type[LumigenError]) -> None:
    with pytest.raises(TypeError, match="is a family of errors"):
        family()


def test_where_comes_first() -> None:
    facts = FACTS[errors.BadAxis][0]
    text = str(errors.BadAxis(where=SourceLocation("model.py", 12), **facts))
    assert text.startswith("model.py:12: [sum] axis 3 ")


def test_files_below_the_working_directory_are_shown_relative(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert str(SourceLocation(str(tmp_path / "a" / "model.py"), 3)) == "a/model.py:3"
    assert str(SourceLocation(f"{tmp_path}-other/model.py", 3)) == f"{tmp_path}-other/model.py:3"


def test_long_lists_are_cut() -> None:
    known = [f"w{i}" for i in range(20)]
    text = str(errors.UnknownEntry(model="m", name="x", known=known))
    assert "w0, w1, w2, w3, w4, w5, w6, w7 and 12 more. " in text


def test_braces_in_facts_stay() -> None:
    text = str(errors.BadArgument(op="f", name="x", value="{y}", expected="{0}"))
    assert text == "[f] x cannot be {y}. Pass {0}."


def test_user_location_is_this_line() -> None:
    found = user_location()
    assert found is not None
    assert found.file == __file__
    assert found.function == "test_user_location_is_this_line"
    lines = Path(__file__).read_text(encoding="utf-8").splitlines()
    assert lines[found.line - 1].strip() == "found = user_location()"


def test_user_location_skips_so_many() -> None:
    def inner() -> SourceLocation | None:
        return user_location(skip=1)

    found = inner()
    assert found is not None
    assert found.function == "test_user_location_skips_so_many"


def test_user_location_sees_neither_lumigen_nor_libraries() -> None:
    """Called through code that pretends to lie in lumigen, numpy and the standard library."""
    places = [Path(errors.__file__).parent / "graph.py", Path(np.__file__), Path(json.__file__)]
    call: Callable[[], SourceLocation | None] = user_location
    for place in places:
        scope = {"call": call, "__name__": "x"}
        exec(compile("def step(): return call()", str(place), "exec"), scope)
        call = scope["step"]
    found = call()
    assert found is not None
    assert found.file == __file__


def test_user_location_sees_no_generated_methods() -> None:
    scope = {"call": user_location, "__name__": "lumigen.graph"}
    exec(compile("def step(): return call()", "<string>", "exec"), scope)
    found = scope["step"]()
    assert found is not None
    assert found.file == __file__


def test_user_location_may_find_nobody() -> None:
    assert user_location(skip=10_000) is None


def test_names_cannot_steer_a_terminal_or_leave_their_line():
    error = errors.UnknownWeight(
        file="a\x1b[2J", name="b\nerror: c", close=["d\x9be", "é"], remedy=""
    )
    assert "\\x1b[2J has no tensor b\\nerror: c; the closest names are: d\\x9be, é." in str(error)
    assert error.facts["name"] == "b\nerror: c"

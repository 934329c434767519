"""Archives of torch.export.save: read without running what is in them, and compiled as the module itself is."""

from __future__ import annotations

import copy
import json
import re
import subprocess
import warnings
from pathlib import Path

import imported
import numpy as np
import pytest
import torch
from click.testing import CliRunner
from programs import of_a_program
from torch import nn
from torch.export import Dim

import lumigen as lg
from lumigen.cli import lumigen as command_line
from lumigen.errors import BadArgument, ModelFileError, ProblemsInModel, SourceLocation
from lumigen.importers.torch import from_pt2
from lumigen.importers.torch.lines import line_of
from lumigen.passes import show_entries
from lumigen.toolchain import packaged


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(4, 4), nn.Linear(4, 4)
        self.second.weight = self.first.weight
        self.register_buffer("runs", torch.ones(2))

    def forward(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        self.runs += 1
        return {"probs": self.second(self.first(x)).softmax(-1) * self.runs.sum()}


@pytest.fixture
def archive(tmp_path: Path) -> Path:
    torch.manual_seed(0)
    file = tmp_path / "net.pt2"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        shapes = [{0: Dim("batch", min=1)}]
        program = torch.export.export(Net(), (torch.randn(3, 4),), dynamic_shapes=shapes)
        torch.export.save(program, file)
    return file


@pytest.mark.slow
def test_an_archive_is_the_module(archive: Path) -> None:
    model = from_pt2(archive, {"x_dim0": (1, 8)}, trust=True)
    assert (model.name, model.entries[0].name) == ("net", "forward")
    assert [w.name for w in model.trace().weights] == [
        *("first.bias", "first.weight", "runs", "second.bias"),
    ]
    x = torch.randn(5, 4)
    torch.manual_seed(0)
    module = Net()
    states: dict[str, np.ndarray] = {}
    for _ in range(2):
        got, states = imported.run(model, (x,), {}, states)
        with torch.no_grad():
            imported.check(got, [module(x)["probs"].numpy()])


@pytest.mark.slow
def test_names_and_numbers_need_no_trust(archive: Path) -> None:
    dims = {"x_dim0": (1, 8)}
    read, trusted = (from_pt2(archive, dims, trust=trust) for trust in (False, True))
    assert show_entries(read.trace().entries) == show_entries(trusted.trace().entries)
    assert read.values().keys() == trusted.values().keys()


class Sized(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.einsum("ij->ij", x.repeat(2, 1)) * x.shape[0]


def test_arithmetic_on_sizes_needs_no_trust(tmp_path: Path) -> None:
    file, shapes = tmp_path / "sized.pt2", [{0: Dim("rows", min=2, max=16)}]
    torch.export.save(
        torch.export.export(Sized(), (torch.randn(5, 4),), dynamic_shapes=shapes), file
    )
    x = torch.randn(7, 4)
    got, _ = imported.run(from_pt2(file, {}, trust=False), (x,), {}, {})
    imported.check(got, [Sized()(x).numpy()])


@pytest.mark.slow
def test_the_command_compiles_an_archive(archive: Path, tmp_path: Path) -> None:
    out = str(tmp_path / "out")
    words = ["compile", str(archive), "--no-build", "-o", out]
    called = CliRunner().invoke(command_line, words)
    assert isinstance(called.exception, BadArgument)
    assert "--dim x_dim0=1..512" in str(called.exception)
    called = CliRunner().invoke(command_line, [*words, "--check", "--dim", "x_dim0=1..8"])
    assert called.exit_code == 0, called.output
    assert re.search(r"^x_dim0=3 +probs +\S+e-0[78] ", called.output, re.MULTILINE)
    assert (tmp_path / "out" / "weights" / "net.safetensors").is_file()


@pytest.mark.slow
def test_weights_in_place_of_an_archive_s_are_all_of_them(archive: Path, tmp_path: Path) -> None:
    words = ["compile", str(archive), "--trust", "--no-build", "--dim", "x_dim0=1..8"]
    weights = {k: v.numpy() for k, v in Net().state_dict().items()}
    for kept, lacks in (("second.bias", "first.bias, first.weight, runs"), ("", None)):
        file = tmp_path / f"only{kept}.npz"
        np.savez(file, **{k: v for k, v in weights.items() if not kept or k == kept})
        options = ["--weights", str(file), "-o", str(tmp_path / "out")]
        called = CliRunner().invoke(command_line, [*words, *options])
        assert (called.exit_code == 0) == (lacks is None), called.output
        assert lacks is None or lacks in str(called.exception)


class Transformed(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.fft.fft(x).real + torch.rand_like(x)


@pytest.mark.slow
def test_all_that_an_archive_has_is_listed(archive: Path, tmp_path: Path) -> None:
    words = ["compile", str(archive), "--trust", "--explain", "--dim", "x_dim0=1..8"]
    called = CliRunner().invoke(command_line, [*words, "--json"])
    found = json.loads(called.output)
    assert found["entries"] == ["forward: x f32[x_dim0, 4] -> probs f32[x_dim0, 4]"]
    assert found["operators"]["aten.linear.default"] == 2
    assert not found["problems"]
    file = tmp_path / "bad.pt2"
    torch.export.save(torch.export.export(Transformed(), (torch.randn(3, 4),)), file)
    called = CliRunner().invoke(command_line, ["compile", str(file), "--trust", "--explain"])
    assert isinstance(called.exception, ProblemsInModel)
    assert "complex numbers have no dtype here" in called.output
    assert "it draws random numbers" in called.output


@pytest.mark.parametrize(
    ("options", "text"),
    [
        (["--set", "a=1"], "--set cannot be a"),
        (["--set", "a=1", "--explain"], "--set cannot be a"),
        (["--explain", "--check"], "one of the two"),
        (["--check", "--weights", "w.npz"], "the original has its own weights"),
    ],
)
def test_options_that_do_not_fit(archive: Path, options: list[str], text: str) -> None:
    called = CliRunner().invoke(command_line, ["compile", str(archive), "--trust", *options])
    assert text in str(called.exception)


def test_a_size_without_an_end_is_one_problem_among_others(archive: Path) -> None:
    called = CliRunner().invoke(command_line, ["compile", str(archive), "--trust", "--explain"])
    assert isinstance(called.exception, ProblemsInModel)
    assert "the dim x_dim0 cannot be without a greatest size" in called.output
    assert "aten.linear" in called.output, "operators are listed too"


def test_an_archive_has_one_model() -> None:
    called = CliRunner().invoke(command_line, ["compile", "net.pt2:net"])
    assert "Pass net.pt2 alone: it has one model." in str(called.exception)


def test_dims_are_of_archives(tmp_path: Path) -> None:
    for size in ("n=4", "n=m"):
        called = CliRunner().invoke(command_line, ["compile", "model.py", "--dim", size])
        assert isinstance(called.exception, BadArgument)
    for size in ("n=", "=4", "n=4..", "n=-1", "n=.."):
        called = CliRunner().invoke(command_line, ["compile", "model.onnx", "--dim", size])
        assert called.exit_code == 2


def test_a_missing_archive_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ModelFileError, match="no such file"):
        from_pt2(tmp_path / "none.pt2", {}, trust=True)


class Traced:
    """What has a stack, as a node of a program does."""

    def __init__(self, stack: str) -> None:
        self.meta = {"stack_trace": stack}


def test_an_archive_names_no_devices_as_sources() -> None:
    frame = 'File "{}", line 3, in forward\n    return x\n'
    assert line_of(Traced(frame.format("/dev/zero"))) is None
    assert line_of(Traced(frame.format("/dev/zero.py"))) == SourceLocation(
        "/dev/zero.py", 3, "forward"
    )
    library = frame.format("/lib/python3.11/site-packages/torch/nn/modules/linear.py")
    assert line_of(Traced(frame.format("net.py") + library)) == SourceLocation(
        "net.py", 3, "forward"
    )


@pytest.mark.slow
def test_a_compiled_module_computes_what_pytorch_does(tmp_path: Path) -> None:
    torch.manual_seed(0)
    module = Net()
    first = copy.deepcopy(module)
    shapes = [{0: Dim("batch", min=1, max=8)}]
    model = lg.from_torch(module, (torch.randn(3, 4),), dynamic_shapes=shapes, name="small_net")
    place = tmp_path / "small_net"
    for rounding in ({"weights_dtype": "q8"}, {"activations_dtype": "i8"}):
        with pytest.raises(lg.UserError, match="Pass none with check"):
            lg.compile(model, output=place, check=True, **rounding)
    built = lg.compile(model, output=place, check=True, isa="baseline")
    context = built.Model().context()
    for count in (1, 8):
        x = torch.randn(count, 4)
        with torch.no_grad():
            want = module(x)["probs"].numpy()
        np.testing.assert_allclose(context.forward(x.numpy()), want, rtol=1e-5)
    x = torch.randn(3, 4)
    with torch.no_grad():  # the first run of a context: what the module does when it is new
        want = first(x)["probs"].numpy()
    np.testing.assert_allclose(of_a_program(place, "small_net", x.numpy(), (3, 4)), want, rtol=1e-5)
    assert what_the_original_gives(place) == "baseline: 0 failures"
    weights = place / "weights" / "small_net.safetensors"
    kept = weights.read_bytes()
    weights.write_bytes(kept[:-4] + np.float32(9).tobytes())  # the last bias
    assert what_the_original_gives(place) == "baseline: 3 failures"
    weights.unlink()
    assert what_the_original_gives(place) == "baseline: 0 failures"


def what_the_original_gives(project: Path) -> str:
    """The last line of the project's tests of its entry."""
    build, test = project / "build" / "release", "small_net_entries_test"
    for words in (
        ("-B", build, "-S", project, "-DSMALL_NET_TESTS=ON"),
        ("--build", build, "-t", test),
    ):
        subprocess.run(
            [packaged("cmake", "CMAKE_BIN_DIR") or "cmake", *words], check=True, capture_output=True
        )
    found = subprocess.run([build / test], capture_output=True, text=True, check=False)
    return found.stdout.splitlines()[-1]

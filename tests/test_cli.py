"""The `lumigen` command: what it makes and prints, and how it refuses."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import textwrap
import time
import tomllib
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gguf
import ml_dtypes
import numpy as np
import pytest
import torch
from safetensors.numpy import save_file

import lumigen as lg
from lumigen import cli
from lumigen.cli import terminal, use
from lumigen.cli.bench import beside, kernel_times, places
from lumigen.cli.opened import Project, inputs_for, manifest_of, read_array
from lumigen.errors import BadInput, FileRefused
from lumigen.forms import FORMS
from lumigen.interp.graph import evaluate
from lumigen.limits import Limits, Memory, Rate
from lumigen.progress import Progress

ROOT = Path(__file__).parent.parent
DIGITS = ROOT / "examples" / "digits" / "model.py"
BATCH = 5

Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Run:
    """A command in this process: its exit code, stdout, stderr."""

    def call(*arguments: object) -> tuple[int, str, str]:
        capsys.readouterr()
        code = cli.run([str(a) for a in arguments])
        out, err = capsys.readouterr()
        assert "Traceback" not in out + err
        return code, out, err

    return call


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working directory."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture(scope="session")
def weights() -> dict[str, np.ndarray]:
    rng = np.random.default_rng(0)
    found = lg.load_model_file(DIGITS).trace().weights
    return {w.name: (rng.normal(size=w.shape) / 8).astype(np.float32) for w in found}


@pytest.fixture(scope="session")
def digits(tmp_path_factory: pytest.TempPathFactory, weights: dict[str, np.ndarray]) -> Path:
    """The digits example, built by the command; kept from session to session in LUMIGEN_CACHE."""
    cache = os.environ.get("LUMIGEN_CACHE")
    base = Path(cache) / "tests" if cache else shared(tmp_path_factory)
    folder = base / "un été à la mer"
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / "digits.safetensors"
    save_file(weights, file)
    out = folder / "digits-cpu"
    assert cli.run(["compile", str(DIGITS), "--weights", str(file), "-o", str(out)]) == 0
    return out


def shared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory that all processes of a test run have in common; builds lock it."""
    base = tmp_path_factory.getbasetemp()
    return (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "cli"


@pytest.fixture
def emitted(here: Path, run: Run) -> Path:
    """The digits example, emitted without a build."""
    assert run("compile", DIGITS, "--no-build")[0] == 0
    return here / "digits-cpu"


def write(path: Path, text: str) -> Path:
    path.write_text(text, encoding="utf-8")
    return path


# --- compile --------------------------------------------------------------------------------------


def test_compile_prints_a_summary_and_lines_to_paste(here: Path, run: Run) -> None:
    code, out, err = run("compile", DIGITS, "--no-build")
    assert code == 0
    assert out.splitlines()[0] == "digits 0.1.0 for cpu in digits-cpu"
    for word in ("classify", "batch=64", "kernels  3", "weights  4", "files    ", "time     trace"):
        assert word in out
    (times,) = (line for line in out.splitlines() if line.startswith("time "))
    assert " us" not in times, "steps that had nothing to do are left out"
    paste = [line for line in out.splitlines() if line.startswith(("Python", "bench", "CMake"))]
    assert [line.split()[0] for line in paste] == ["CMake"], "the others need what is built"
    assert [line.split()[0] for line in err.splitlines()] == [
        *("trace", "recall", "passes", "lower", "emit", "vectors", "write")
    ]


TINY = """import lumigen as lg
from lumigen import nn


class Tiny(nn.Module):
    def __init__(self, config):
        hidden = config["hidden_size"]
        self.layers = [nn.Module() for _ in range(config["num_hidden_layers"])]
        for layer in self.layers:
            layer.self_attn = nn.Module()
            layer.self_attn.q_proj = nn.Linear(hidden, hidden, bias=False)
        self.norm = nn.RMSNorm(hidden, eps=config["rms_norm_eps"])

    def forward(self, x):
        for layer in self.layers:
            x = layer.self_attn.q_proj(x)
        return self.norm(x)


def build(weights):
    net = Tiny(weights.config)
    model = lg.Model("tiny", {"model": net})

    @model.entry(x=lg.spec(lg.Dim("batch", 1, 4), weights.config["hidden_size"]))
    def f(x):
        return net(x)

    return model
"""


@pytest.mark.slow
def test_a_model_takes_its_weights_from_any_kind_of_file(here: Path, run: Run) -> None:
    """One model.py, with the names of Hugging Face: what is shipped is the same bytes."""
    model = write(here / "model.py", TINY)
    rng = np.random.default_rng(0)
    halves = rng.normal(size=(2, 8, 8)).astype(np.float32)
    norm = rng.normal(size=8).astype(np.float32)
    q = "model.layers.{}.self_attn.q_proj.weight"
    arrays = {q.format(0): halves[0], q.format(1): halves[1], "model.norm.weight": norm}
    config = {"hidden_size": 8, "num_hidden_layers": 2, "rms_norm_eps": 0.5}
    write(here / "config.json", json.dumps(config))
    save_file(arrays, here / "w.safetensors")
    np.savez(here / "w.npz", **arrays)
    torch.save({k: torch.from_numpy(a) for k, a in arrays.items()}, here / "w.pt")
    (here / "gguf").mkdir()
    writer = gguf.GGUFWriter(here / "gguf" / "w.gguf", "llama")
    writer.add_embedding_length(8)
    writer.add_block_count(2)
    writer.add_head_count(2)
    writer.add_layer_norm_rms_eps(0.5)
    for i, half in enumerate(halves):  # (heads, halves, pairs, columns): pairs come first
        pairs = half.reshape(2, 2, 2, 8).swapaxes(1, 2).reshape(8, 8)
        writer.add_tensor(f"blk.{i}.attn_q.weight", pairs)
    writer.add_tensor("output_norm.weight", norm)
    writer.add_tensor("blk.0.ffn_up.weight", norm)
    for step in ("header_to_file", "kv_data_to_file", "tensors_to_file"):
        getattr(writer, f"write_{step}")()
    writer.close()

    shipped: dict[str, bytes] = {}
    for file in ("w.safetensors", "w.npz", "w.pt", "gguf/w.gguf"):
        code, _, err = run("compile", model, "--weights", file, "--no-build", "-o", file + "-out")
        assert code == 0, err
        shipped[file] = (here / f"{file}-out" / "weights" / "tiny.safetensors").read_bytes()
        unread = "note: tensors of gguf/w.gguf that the model does not read: blk.0.ffn_up.weight"
        assert (unread in err) == (file == "gguf/w.gguf")
        assert err.count("does not read") == (file == "gguf/w.gguf")
    assert len(set(shipped.values())) == 1


def test_a_model_file_may_bring_its_weights(here: Path, run: Run) -> None:
    text = """
        import numpy as np
        import lumigen as lg
        from lumigen import nn

        net = nn.Linear(2, 3)
        net.load_state_dict({"weight": np.ones((3, 2), "f4"), "bias": np.arange(3, dtype="f4")})
        model = lg.Model("m", net)

        @model.entry(x=lg.spec(1, 2))
        def f(x):
            return net(x)
    """
    model = write(here / "model.py", textwrap.dedent(text))
    assert run("compile", model, "--no-build")[0] == 0
    shipped = lg.open_weights(here / "m-cpu" / "weights" / "m.safetensors")
    assert shipped["bias"].tolist() == [0, 1, 2]
    save_file({"weight": np.zeros((3, 2), "f4"), "bias": np.ones(3, "f4")}, here / "w.safetensors")
    assert run("compile", model, "--weights", "w.safetensors", "--no-build")[0] == 0
    shipped = lg.open_weights(here / "m-cpu" / "weights" / "m.safetensors")
    assert shipped["bias"].tolist() == [1, 1, 1]  # what is named goes before


def test_compile_as_json(here: Path, run: Run) -> None:
    code, out, _ = run("compile", DIGITS, "--no-build", "--json", "-o", "out")
    found = json.loads(out)
    assert code == 0
    assert (found["model"], found["directory"], found["kernels"]) == ("digits", "out", 3)
    assert found["entries"][0]["dims"] == {"batch": 64}


@pytest.mark.parametrize("width", ["width: int = 3", "width=3"])
def test_options_reach_build(width: str, here: Path, run: Run) -> None:
    """By their annotations, or by the types of their defaults."""
    write(
        here / "model.py",
        "import lumigen as lg\n"
        f"def build(weights=None, {width}):\n"
        "    model = lg.Model('sized')\n"
        "    @model.entry(x=lg.spec(width))\n"
        "    def twice(x):\n"
        "        return x * 2\n"
        "    return model\n",
    )
    assert run("compile", "model.py", "--no-build", "--set", "width=7")[0] == 0
    manifest = json.loads((here / "sized-cpu" / "manifest.json").read_text())
    assert manifest["entries"][0]["signature"] == "twice(x: f32[7]) -> out: f32[7]"
    assert manifest["options"] == {"dtype": "f32", "set.width": "7", "target": "cpu"}
    code, _, err = run("compile", "model.py", "--no-build", "--set", "depth=7")
    assert code == 1
    assert "there is no option depth; there are: width." in err
    code, _, err = run("compile", "model.py", "--no-build", "--set", "width=wide")
    assert code == 1
    assert "option width cannot be 'wide'. Pass an integer." in err


def test_another_name_in_the_file(here: Path, run: Run) -> None:
    shutil.copy(DIGITS, here / "model.py")
    with (here / "model.py").open("a") as file:
        file.write("\nother = lg.Model('other')\nother.entry(x=lg.spec(2))(lambda x: x + x)\n")
    write(
        here / "two.py",
        "import lumigen as lg\nother = lg.Model('other')\n"
        "@other.entry(x=lg.spec(2))\ndef twice(x):\n    return x + x\n",
    )
    assert run("compile", "two.py:other", "--no-build")[0] == 0
    assert (here / "other-cpu" / "manifest.json").is_file()
    code, _, err = run("compile", "two.py", "--no-build")
    assert (code, "Name one of them, as in two.py:other." in err) == (1, True)
    code, _, err = run("compile", "two.py:nobody", "--no-build")
    assert (code, "no model or function nobody; there is other" in err) == (1, True)


@pytest.mark.slow
def test_weights_can_be_embedded(here: Path, run: Run, weights: dict[str, np.ndarray]) -> None:
    save_file(weights, here / "w.safetensors")
    arguments = ("compile", DIGITS, "--no-build", "--weights", "w.safetensors", "--embed-weights")
    assert run(*arguments)[0] == 0
    assert (here / "digits-cpu" / "src" / "embedded.cpp").is_file()
    assert run(*arguments[:-1])[0] == 0
    assert not (here / "digits-cpu" / "src" / "embedded.cpp").exists()


def test_unused_tensors_are_noted(here: Path, run: Run, weights: dict[str, np.ndarray]) -> None:
    counters = {f"{n}num_batches_tracked": np.zeros((), np.int64) for n in ("", "1.", "bn.")}
    head = {"head": np.zeros(1, np.float32)}
    save_file({**weights, **head, **counters}, here / "w.safetensors")
    code, _, err = run("compile", DIGITS, "--no-build", "--weights", "w.safetensors")
    assert code == 0
    assert "tensors of w.safetensors that the model does not read: head\n" in err


SIZED = """import lumigen as lg
from lumigen import nn

net = nn.Linear(16, {width})
model = lg.Model("sized", net)


@model.entry(x=lg.spec(lg.Dim("batch", 1, 64), 16))
def f(x):
    return net(x)
"""


@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["f32", "bf16"])
def test_kept_weights_are_checked(dtype: str, here: Path, run: Run) -> None:
    write(here / "m.py", SIZED.format(width=32))
    save_file(
        {"weight": np.ones((32, 16), np.float32), "bias": np.ones(32, np.float32)}, "w.safetensors"
    )
    arguments = ("compile", "m.py", "--no-build", "--dtype", dtype)
    assert "note: " not in run(*arguments)[2]
    _, _, err = run(*arguments, "--weights", "w.safetensors")
    assert "note: " not in err
    code, _, err = run(*arguments)
    assert (code, "note: the weights of before are kept, in sized-cpu/weights/" in err) == (0, True)
    shown = run("inspect", "sized-cpu")[1]
    assert "fit" not in shown
    assert "as in the file" not in shown, "rounded weights are not"
    shutil.copy("w.safetensors", "sized-cpu/weights/sized.safetensors")
    assert "the weights of before are kept" in run(*arguments)[2], "as trained, they fit as well"
    run(*arguments, "--weights", "w.safetensors")
    write(here / "m.py", SIZED.format(width=48))
    code, out, err = run(*arguments)
    assert code == 0
    wrong = f"is {dtype}[32, 16], must be {dtype}[48, 16]"
    assert (
        f"sized.safetensors is kept from before and does not fit this model: weight {wrong} " in err
    )
    assert "(and 1 more). Compile again with --weights FILE." in err
    assert "as kernels read them" in out
    code, out, err = run("inspect", "sized-cpu")
    assert (code, f"; does not fit this model: weight {wrong} (and 1 more)\n" in out) == (1, True)
    assert f"its weights do not fit the model: weight {wrong} (and 1 more). Restore" in err
    code, out, _ = run("inspect", "sized-cpu", "--json")
    assert (code, bool(json.loads(out)["weights_file"]["misfits"])) == (1, True)


def test_each_stage_is_named_once_and_its_time_once(here: Path, run: Run) -> None:
    stages = ["trace", "recall", "passes", "lower", "emit", "vectors", "write"]
    code, out, err = run("compile", DIGITS, "--no-build")
    assert (code, err.splitlines()) == (0, stages)
    (times,) = re.findall(r"^time     (.*)$", out, re.MULTILINE)
    assert [re.sub(r" [\d.]+ (s|ms|us)$", "", t) for t in times.split(", ")] == stages


@pytest.mark.slow
@pytest.mark.parametrize("command", [("compile", DIGITS, "--no-build"), ("show", DIGITS)])
def test_progress_is_quiet_when_asked(command: tuple[Any, ...], here: Path, run: Run) -> None:
    assert run(*command)[2].startswith("trace\n")
    code, out, err = run(*command, "-q")
    assert (code, err) == (0, "")
    assert out


def test_a_long_stage_is_told_of_now_and_then(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    seconds = iter([0.0, 1.0, 9.0, 11.0, 12.0, 21.5, 22.0])
    monkeypatch.setattr(terminal, "monotonic", lambda: next(seconds))
    with terminal.progress() as listener:
        listener(Progress("compile"))
        for done in range(1, 6):
            listener(Progress("compile", done, 5, f"{done}.cpp"))
        listener(Progress("write"))
    assert capsys.readouterr().err.splitlines() == [
        "compile",
        "compile 3/5 3.cpp",
        "compile 5/5 5.cpp",
        "write",
    ]


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("script") is None, reason="no script(1) to be a terminal")
def test_a_terminal_keeps_no_lines_of_progress(here: Path) -> None:
    command = f"{sys.executable} -m lumigen compile {DIGITS} --no-build"
    done = subprocess.run(
        ["script", "-qec", command, "/dev/null"],
        env={**os.environ, "PYTHONPATH": str(ROOT), "TERM": "xterm"},
        capture_output=True,
        text=True,
        check=True,
    )
    lines = [line.rpartition("\x1b[2K")[2] for line in done.stdout.replace("\r", "").split("\n")]
    assert sum(bool(re.search(r"\b\d+(\.\d+)? m?s\b", line)) for line in lines) == 1, lines


# --- mistakes -------------------------------------------------------------------------------------

USED = "import lumigen as lg\n"

MODELS = {
    "raises.py": (USED + "x = 1\nx.nothing\n", "raises.py:3: [model] ", "AttributeError"),
    "syntax.py": (USED + "def f(:\n", "syntax.py:2: [model] ", "not valid Python"),
    "empty.py": (USED, "empty.py: it defines neither model nor build()", "lg.Model"),
    "shapes.py": (
        USED
        + "model = lg.Model('m')\n"
        + "@model.entry(x=lg.spec(2, 3), y=lg.spec(4, 5))\n"
        + "def f(x, y):\n"
        + "    return x @ y\n",
        "shapes.py:5: [matmul] shapes (2, 3) and (4, 5) do not fit together",
        "Transpose",
    ),
}


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("command", [("compile", "--no-build"), ("show",)])
def test_mistakes_in_a_model_file(
    name: str, command: tuple[str, ...], here: Path, run: Run
) -> None:
    text, place, word = MODELS[name]
    write(here / name, text)
    code, out, err = run(*command, name)
    assert (code, out) == (1, "")
    assert err.removeprefix("trace\n").startswith("error: ")
    assert place in err
    assert word in err
    assert len(err.splitlines()) <= 8
    assert [p.name for p in here.iterdir()] == [name], "nothing is left behind"


# a command, what its error says
REFUSED = [
    ("compile nope.py", "[model] nope.py: there is no such file. "),
    ("compile {digits} --target cuda:sm_35", "'sm_35' is no architecture"),
    ("compile {digits} --target tpu", "there is no such target. Choose one of: cpu, cuda, metal."),
    ("compile {digits} --weights no.safetensors", "no.safetensors cannot be used: there is no"),
    ("compile {digits} --set width=3", "model is an lg.Model and no function such as build(), so"),
    ("compile {digits} --weights {digits}", "model.py cannot be used: it is none of safetensors,"),
    ("compile {digits} -o full", "full is not empty and has no complete manifest.json of lumigen"),
    ("compile {digits} -o full/a.txt", "[compile] full/a.txt is a file, and a project is a"),
    ("compile {digits} -o damaged", "damaged is not empty and has no complete manifest.json of"),
    ("compile .", "[checkpoint] . cannot be used: it has no config.json."),
    ("compile full/a.txt", "a.txt: it ends in .txt, and Python files end in .py. Name"),
    ("compile full/w.safetensors", "a .safetensors file holds no model. Name the Python file of"),
    (
        "compile {digits} --weights full/y.npy",
        "full/y.npy cannot be used: it is none of safetensors,",
    ),
    (
        "compile {digits} --weights full/y.pt",
        "full/y.pt cannot be used: it is none of safetensors, GGUF, PyTorch",
    ),
    ("compile {digits} --embed-weights", "--embed-weights cannot be alone. Pass them together"),
    (
        "show {digits} --after tile --kernel k99",
        "--kernel cannot be k99. Pass one of k00_product_panel",
    ),
    ("show {digits} --after fold --kernel k00", "cannot be k00 after fold. Pass a kernel after"),
    ("show {digits} --why k00 --after plan", "--why cannot be together with --after"),
    ("run full/a.txt", "[run] full/a.txt cannot be used: it is no directory. Name a directory"),
    (
        "compile {digits} --isa sse",
        "--isa cannot be sse. Pass baseline, avx2, avx512, avx512_vnni, avx512_bf16, amx",
    ),
    (
        "compile {digits} --target cuda:sm_90a --isa avx2",
        "--isa cannot be avx2. Pass none with this target",
    ),
    (
        "tune {digits} --time 1s --html none/a.html",
        "--html cannot be none/a.html, in a directory that is not there. Pass a file in a",
    ),
    ("tune {digits} --time 1s --html full", "--html cannot be full, which is a directory. Pass a"),
    ("tune --export none/a.json", "--export cannot be none/a.json, in a directory that is not"),
    (
        "compile {digits} --schedules none.json",
        "schedules cannot be none.json, which is no file. Pass a file that a search has",
    ),
    ("inspect nowhere", "nowhere cannot be used: there is no such directory or library. Name a"),
    ("inspect damaged", "[inspect] damaged/manifest.json cannot be used: it is damaged, or of"),
    (
        "run nowhere",
        "[run] nowhere cannot be used: there is no such directory. Name a directory that",
    ),
    ("run full", "[run] full cannot be used: it holds no manifest.json of lumigen."),
    ("bench full", "[bench] full cannot be used: "),
    ("test full", "[test] full cannot be used: "),
    ("inspect full", "[inspect] full cannot be used: "),
    ("inspect checkpoint", "says `lumigen compile checkpoint --explain`"),
    ("inspect checkpoint/a.pt2", "says `lumigen compile checkpoint/a.pt2 --explain`"),
    ("inspect full/a.txt", "[inspect] full/a.txt cannot be used: it is no shared library"),
    (
        "inspect checkpoint/a.pt2",
        "takes an ONNX file, and no .pt2. What is in an archive says `lumigen compile",
    ),
    ("new full", "[new] full cannot be used: it is there already. Choose another name"),
    ("new 9lives", "[new] NAME cannot be '9lives'. Pass a name that begins with a letter from A"),
    (
        "new class",
        "[new] the name cannot be 'class', which belongs to C and C++, where it is a key",
    ),
    ("new numpy", "[new] the name cannot be 'numpy', which belongs to a Python module that the"),
]


@pytest.mark.parametrize(("command", "says"), REFUSED)
def test_what_cannot_be_done_is_said(command: str, says: str, here: Path, run: Run) -> None:
    files = ["a.txt", "w.safetensors", "y.npy", "y.pt"]
    (here / "full").mkdir()
    (here / "damaged").mkdir()
    (here / "checkpoint").mkdir()
    given = {
        "checkpoint/a.pt2": "mine",
        "checkpoint/config.json": "{}",
        "damaged/manifest.json": '{"lumigen"',
        **{f"full/{name}": "mine" for name in files},
    }
    for name, text in given.items():
        write(here / name, text)
    arguments = [str(DIGITS) if word == "{digits}" else word for word in command.split()]
    code, out, err = run(*arguments)
    assert (code, out) == (1, "")
    last = next(line for line in err.splitlines() if line.startswith("error: "))
    assert says in last
    assert tree(here) == list(given)


# what is named, and what is near it
NEAR = [
    ("compile modle.py", "there is no such file. Did you mean model.py?"),
    ("compile digits.py", "Did you mean full/digits.py?"),
    ("compile full/model.py", "Did you mean model.py?"),
    ("compile full/model.py.txt", "Name a Python file that defines a model."),
    ("compile model.py --weights w.npz", "there is no such file. Did you mean w.npy?"),
    ("run digits_cpu", "there is no such directory. Did you mean digits-cpu?"),
    ("test full/digits-cpu", "Did you mean digits-cpu?"),
    ("inspect digitscpu", "Did you mean digits-cpu?"),
    ("inspect full.so", "or a library built from it."),
    ("compile net.onnx", "there is no such file. Name an .onnx file."),
    ("compile nett.pt2", "there is no such file. Did you mean net.pt2?"),
    ("compile full/other.pt2", "there is no such file. Correct the path."),
]


@pytest.mark.parametrize(("command", "says"), NEAR)
def test_a_path_that_is_not_there_is_compared_with_those_that_are(
    command: str, says: str, here: Path, run: Run
) -> None:
    for folder in ("full", "digits-cpu"):
        (here / folder).mkdir()
    files = (
        "model.py",
        "model.txt",
        "full/digits.py",
        "w.npy",
        "net.pt2",
        "digits-cpu/manifest.json",
    )
    for name in files:
        write(here / name, "mine")
    code, out, err = run(*command.split())
    assert (code, out) == (1, "")
    assert f"{says} The working directory is {here}." in err


CTEST = """\
1/3 Test #1: digits.kernels ....................***Skipped   0.01 sec
2/3 Test #2: digits.entries ....................***Skipped   0.01 sec
3/3 Test #3: digits_example_c ..................   Passed    0.12 sec

100% tests passed, 0 tests failed out of 3
"""


@pytest.mark.parametrize(
    ("target", "want"),
    [("cuda", "a GPU that runs the project"), ("cpu", "instruction sets of other processors")],
)
@pytest.mark.parametrize("as_json", [False, True])
def test_skipped_tests_are_said_to_prove_nothing(
    target: str, want: str, as_json: bool, emitted: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = emitted / "manifest.json"
    file.write_text(file.read_text().replace('"target": "cpu"', f'"target": "{target}"'))
    done = types.SimpleNamespace(returncode=0, stdout=CTEST)
    built = types.SimpleNamespace(log=emitted / "log")
    monkeypatch.setattr(use, "build_project", lambda *_, **__: built)
    monkeypatch.setattr(use.subprocess, "run", lambda *_, **__: done)
    code, out, err = run("test", emitted, *(["--json"] if as_json else []))
    assert code == 0
    assert (
        f"note: 2 of 3 tests were skipped, as they need {want}; they prove nothing. "
        "The exit code is 0 if no test failed, even if all were skipped.\n"
    ) in err
    if as_json:
        found = json.loads(out)
        assert (found["passed"], found["skipped"]) == (True, 2)
        assert found["tests"]["digits_example_c"] == "passed"


def test_damaged_files_of_numpy_are_one_message(here: Path, rng: np.random.Generator) -> None:
    np.save(here / "x.npy", np.ones((2, 3), np.float32))
    whole = (here / "x.npy").read_bytes()
    refused = 0
    for _ in range(300):
        data = bytearray(whole)
        for at in rng.integers(0, 128, 2):
            data[at] = rng.choice(list(b"'\"{}()[],:0123456789-LTF\n \xff"))
        (here / "x.npy").write_bytes(data)
        try:
            read_array("run", here / "x.npy")
        except FileRefused as e:
            refused += "x.npy cannot be used: it is no .npy file of numbers" in str(e)
    assert refused > 100
    os.mkfifo(here / "pipe")
    with pytest.raises(FileRefused, match="it is no regular file"):
        read_array("run", here / "pipe")


def test_an_array_of_another_type_is_told_how_to_convert_the_file(
    here: Path, emitted: Path
) -> None:
    project = emitted_project(emitted)
    np.save(here / "x.npy", np.ones((2, 64)))
    with pytest.raises(BadInput) as caught:
        inputs_for(project, project.entry(None), {"x": "x.npy"}, {})
    assert str(caught.value) == (
        "[classify] x in x.npy is float64, must be float32. "
        "Convert the file: np.save('x.npy', np.load('x.npy').astype(np.float32))."
    )


def test_an_absolute_path_has_no_working_directory(here: Path, run: Run) -> None:
    code, _, err = run("compile", here / "nowhere" / "model.py")
    assert code == 1
    assert "there is no such file. Name a Python file that defines a model.\n" in err


@pytest.mark.parametrize(
    "command",
    [
        "frobnicate",
        "compile",
        "compile model.py --frobnicate",
        "compile model.py --set width",
        "show model.py --after lunch",
        "run dir --dims batch",
        "run dir --dims batch=many",
        "run dir --threads -1",
        "run dir --input x",
    ],
)
def test_a_command_line_that_does_not_parse(command: str, run: Run) -> None:
    code, out, err = run(*command.split())
    assert (code, out) == (2, "")
    assert "Usage: lumigen" in err
    assert len(err.splitlines()) <= 8


@pytest.mark.slow
def test_edited_files_are_kept_unless_forced(emitted: Path, run: Run) -> None:
    readme = emitted / "README.md"
    original = readme.read_text()
    write(readme, "mine")
    code, out, err = run("compile", DIGITS, "--no-build")
    assert (code, out) == (1, "")
    assert "these files in digits-cpu were edited after they were emitted: README.md. " in err
    assert readme.read_text() == "mine"
    assert run("compile", DIGITS, "--no-build", "--force")[0] == 0
    assert readme.read_text() == original


@pytest.mark.parametrize("command", ["run", "bench"])
def test_what_was_only_emitted_does_not_run(command: str, emitted: Path, run: Run) -> None:
    code, _, err = run(command, emitted.name)
    assert code == 1
    assert f"[{command}] digits-cpu has no built Python module. Run " in err
    assert "cmake" not in err


def test_a_missing_compiler_is_named(here: Path, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(here))
    monkeypatch.delenv("CXX", raising=False)
    code, out, err = run("compile", DIGITS)
    assert (code, out) == (1, "")
    assert "[build] a C++ compiler was not found, and compiling a project needs it." in err
    code, out, err = run("doctor")
    assert code == 1
    assert "--  C++ compiler" in out
    assert "C++ compiler: Install g++ or clang++." in err


def test_a_bug_of_ours_is_reported_as_ours(
    here: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object, **__: object) -> None:
        raise KeyError("x")

    monkeypatch.setattr("lumigen.cli.make.compile_project", broken)
    code, out, err = run("compile", DIGITS, "--no-build")
    assert (code, out) == (70, "")
    assert "[compile] KeyError: 'x', raised at test_cli.py:" in err
    assert "This is a bug in lumigen, not in your model. Please report it" in err


def test_ctrl_c_leaves_nothing_half_written(
    here: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("lumigen.build.tempfile.mkdtemp", interrupted)
    code, out, err = run("compile", DIGITS, "--no-build")
    assert (code, out) == (130, "")
    assert err.endswith("stopped\n")
    assert tree(here / "digits-cpu") == []


def tree(directory: Path) -> list[str]:
    return sorted(p.relative_to(directory).as_posix() for p in directory.rglob("*") if p.is_file())


# --- show, new, inspect, doctor, help -------------------------------------------------------------

SHOWN = {
    "graph": ["entry classify\n", "dim batch in 1..64\n", "= sum_reduce i2<64 %", "model.py:12"],
    "retype": ["entry classify\n", "dim batch in 1..64\n"],
    "canonicalize": ["entry classify\n", "= sum_reduce i2<64 %"],
    "fold": ["entry classify\n", "output probs = %"],
    "offsets": ["entry classify\n", "output probs = %"],
    "share": ["entry classify\n", "output probs = %"],
    "regions": [
        "k00_product_panel  # ",
        "sum over (k0) of %",
        "store out[i0, i1] over (i0, i1) = %",
    ],
    "plan": ["grid (i0: batch, i1: 128)", "schedule panel: ", "schedule simt: "],
    "tile": ["k00_product_panel  # ", "c_tile", "k02_probs_simt  # "],
    "program": [
        "input x f32[batch, 64]\n",
        "run k00_product_panel(x, ",
        "weight w_0_bias = 0.bias",
    ],
    "source": ["void k00_product_panel(const void* ", "void k02_probs_simt(const void* "],
}


@pytest.mark.slow
@pytest.mark.parametrize("form", FORMS)
def test_every_stage_can_be_shown(form: str, run: Run) -> None:
    code, out, err = run("show", DIGITS, "--after", form, "-q")
    assert (code, err) == (0, "")
    for text in SHOWN[form]:
        assert text in out
    code, as_json, _ = run("show", DIGITS, "--after", form, "--json")
    assert code == 0
    assert json.loads(as_json)["text"].rstrip("\n") == out.rstrip("\n"), "the same each time"


STRANGE = """import lumigen as lg
from lumigen import nn

NAMES = {"w": "a\\nb\\x1b[2J", "v": r"a\\nb\\x1b[2J", "u": "'quoted'", "t": "line\\u2028end"}


class Net(nn.Module):
    def __init__(self):
        self.w, self.v, self.u, self.t = (nn.Parameter(8, 8) for _ in range(4))


net = Net()
model = lg.Model("strange", net, rename=NAMES)


@model.entry(x=lg.spec(4, 8))
def f(x):
    return (x @ net.w @ net.v).softmax(-1) @ net.u + x @ net.t
"""


@pytest.mark.parametrize("target", ["cpu", "cuda"])
@pytest.mark.parametrize("form", FORMS)
def test_a_name_stays_on_its_line(form: str, target: str, here: Path, run: Run) -> None:
    """In the text itself, which --json and LUMIGEN_DUMP give away as it is."""
    write(here / "two\nlines.py", STRANGE)
    code, out, _ = run("show", "two\nlines.py", "--after", form, "--target", target, "--json")
    assert code == 0
    text = json.loads(out)["text"]
    assert [c for c in text if not c.isprintable() and c not in "\n\t"] == []
    assert not [line for line in text.splitlines() if line.startswith(("b", "end", "lines.py"))]
    names = re.findall(r"(?:%\d+ = weight|^weight \w+ =) (.*?) +f32\[", text, re.MULTILINE)
    if names:
        assert len(set(names)) == 4, "no two look alike"


@pytest.mark.slow
def test_a_model_is_held_in_16_bits(here: Path, run: Run) -> None:
    assert run("compile", DIGITS, "--no-build", "--dtype", "bf16", "-o", "out")[0] == 0
    manifest = json.loads((here / "out" / "manifest.json").read_text())
    assert manifest["options"] == {"dtype": "bf16", "target": "cpu"}
    assert (
        manifest["entries"][0]["signature"]
        == "classify(x: bf16[batch, 64]) -> probs: bf16[batch, 10]; batch 1..64"
    )
    assert {w["name"]: w["dtype"] for w in manifest["weights"]}["0.weight"] == "bfloat16"
    assert "store_f16(" in run("show", DIGITS, "--dtype", "f16", "--after", "source")[1]
    shown = run("show", DIGITS, "--dtype", "f16", "--after", "retype")[1]
    assert "f16[batch, 64]" in shown
    code, _, err = run("compile", DIGITS, "--no-build", "--dtype", "f8")
    assert code == 2
    assert "'f32', 'f16', 'bf16'" in err


@pytest.mark.slow
def test_a_single_kernel_can_be_shown(run: Run) -> None:
    code, out, _ = run("show", DIGITS, "--after", "regions", "--kernel", "k02_probs_simt")
    assert code == 0
    assert out.startswith("k02_probs_simt  # ")
    assert "k00_product_panel" not in out
    code, alone, _ = run("show", DIGITS, "--kernel", "k02_probs_simt")
    assert code == 0
    assert alone == run("show", DIGITS, "--after", "source", "--kernel", "k02_probs_simt")[1]
    assert "void k02_probs_simt(" in alone
    assert run("show", DIGITS)[1] == run("show", DIGITS, "--after", "program")[1]


@pytest.mark.slow
def test_a_new_model_compiles_as_it_is(here: Path, run: Run) -> None:
    code, out, err = run("new", "my-model")
    assert code == 0
    assert err.startswith("note: the model is called my_model, ")
    todo = out.split("\n\n")[1]
    for line in (
        "cd my-model",
        "python weights.py ",
        "lumigen compile model.py --weights my_model.",
    ):
        assert f"  {line}" in todo
    readme = (here / "my-model" / "README.md").read_text(encoding="utf-8")
    assert len({line.find("  # ") for line in readme.splitlines() if "  # " in line}) == 1
    assert run("new", "plain")[2] == ""
    assert tree(here / "my-model") == ["README.md", "model.py", "weights.py"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "weights.py"]
    subprocess.run(command, cwd=here / "my-model", env=environment, check=True)
    weights = "my-model/my_model.safetensors"
    code, out, _ = run("compile", "my-model/model.py", "--weights", weights, "--no-build")
    assert code == 0
    assert "my_model 0.1.0 for cpu in my_model-cpu" in out
    assert (here / "my_model-cpu" / "weights" / "my_model.safetensors").is_file()


def test_inspect_names_what_was_edited(emitted: Path, run: Run) -> None:
    code, out, _ = run("inspect", emitted)
    assert code == 0
    assert "digits 0.1.0 for cpu, emitted by lumigen" in out
    assert "entry    classify(x: f32[batch, 64])" in out
    assert "built    no" in out
    write(emitted / "README.md", "mine")
    (emitted / "src" / "classify.cpp").unlink()
    code, out, err = run("inspect", emitted)
    assert (code, err.count("\n")) == (1, 1)
    assert "1 edited: README.md, 1 missing: src/classify.cpp" in out
    assert (
        "differs from what was emitted: edited: README.md; missing: src/classify.cpp. Restore"
        in err
    )
    code, out, _ = run("inspect", emitted, "--json")
    assert (code, json.loads(out)["edited"]) == (1, ["README.md"])


@pytest.mark.slow
def test_inspect_finds_damaged_weights(
    here: Path, run: Run, weights: dict[str, np.ndarray]
) -> None:
    save_file(weights, here / "w.safetensors")
    assert run("compile", DIGITS, "--no-build", "--weights", "w.safetensors")[0] == 0
    code, out, _ = run("inspect", "digits-cpu", "--json")
    assert code == 0
    assert json.loads(out)["weights_file"]["packed"]
    file = here / "digits-cpu" / "weights" / "digits.safetensors"
    data = bytearray(file.read_bytes())
    data[-1] ^= 1
    file.write_bytes(bytes(data))
    code, _, err = run("inspect", "digits-cpu")
    assert code == 1
    assert "its data differ from the hash in its header" in err


def test_doctor_finds_what_builds_need(run: Run) -> None:
    code, out, _ = run("doctor", "--json")
    found = {f["name"]: f for f in json.loads(out)["findings"]}
    assert code == (0 if all(f["ok"] for f in found.values() if f["needed"]) else 1)
    assert not found["CUDA toolkit"]["needed"]
    assert not found["Metal"]["needed"]
    assert not found["onnxruntime"]["needed"]
    assert found["egglog"]["ok"] or found["egglog"]["remedy"] == "pip install 'lumigen[search]'"
    assert {"C++ compiler", "cmake", "ninja", "Python headers", "processor"} <= found.keys()


@pytest.mark.parametrize("command", sorted(cli.lumigen.commands))
def test_help_has_an_example(command: str, run: Run) -> None:
    code, out, err = run(command, "--help")
    assert (code, err) == (0, "")
    assert f"\n  Example: lumigen {command}" in out
    assert "\\" not in out + run("--help")[1]


@pytest.mark.parametrize("command", ["run", "bench"])
def test_help_says_what_is_taken_without_an_option(command: str, run: Run) -> None:
    text = " ".join(run(command, "--help")[1].split())
    assert "by default those of the input files, else the model's typical sizes." in text
    assert "0 is one for each core. [default: 0; x>=0]" in text
    assert ("to measure each entry. [default: 1.0; x>=0]" in text) == (command == "bench")


@pytest.mark.slow
def test_a_reader_who_leaves_is_no_error(here: Path) -> None:
    show = f"{sys.executable} -m lumigen show '{DIGITS}' -q --after source"
    shown = f"{show} | head -n 1; exit ${{PIPESTATUS[0]}}"
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    command = ["bash", "-c", shown]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("// k00_product_panel")


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (["--tokenizer", "nope"], "there is no file nope; name the model's tokenizer.json"),
        (["--tokenizer", "t.json"], "minilm-cpu is no project that `lumigen compile` built"),
    ],
)
def test_the_example_of_sentences_names_what_is_missing(
    options: list[str], says: str, here: Path
) -> None:
    write(here / "t.json", "{}")
    command = [sys.executable, ROOT / "examples" / "minilm" / "similarity.py", *options, "a", "b"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert done.stderr.splitlines()[-1].endswith(says)


def test_a_place_that_cannot_be_written_is_named(here: Path, run: Run) -> None:
    write(here / "file", "")
    code, _, err = run("compile", DIGITS, "--no-build", "-o", "file/out")
    assert code == 1
    assert "file" in err
    assert "cannot be used: not a directory. Name another place" in err


def test_version_and_help(run: Run) -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    code, out, _ = run("--version")
    assert code == 0
    assert out.strip() == f"lumigen, version {project['version']}"
    code, out, _ = run("--help")
    assert code == 0
    assert all(f"  {command} " in out for command in cli.lumigen.commands)
    assert run()[0] == 2


# --- inputs and outputs ---------------------------------------------------------------------------


def emitted_project(directory: Path) -> Project:
    """A project that was not built: all of it but the calls."""
    module = types.ModuleType("not_built")
    return Project("run", directory, manifest_of("run", directory), module)


def test_a_file_of_wider_floats_is_rounded(here: Path, run: Run) -> None:
    assert run("compile", DIGITS, "--no-build", "--dtype", "bf16", "-o", "out")[0] == 0
    project = emitted_project(here / "out")
    x = np.linspace(-1, 1, 128).reshape(2, 64)
    bf16 = np.dtype(ml_dtypes.bfloat16)
    for array, notes in (
        (x, ["x.npy is float64, rounded to bfloat16 for x"]),
        (x.astype(np.float32), ["x.npy is float32, rounded to bfloat16 for x"]),
        (x.astype(bf16), []),  # saved by numpy as two bytes without a type
    ):
        np.save("x.npy", array)
        arrays, found = inputs_for(project, project.entry(None), {"x": "x.npy"}, {})
        assert (arrays["x"].dtype, found) == (bf16, notes)
        np.testing.assert_array_equal(arrays["x"], x.astype(bf16))
    np.save("x.npy", x.astype(np.int64))
    with pytest.raises(BadInput, match=r"x in x.npy is int64, must be bfloat16\..*float32"):
        inputs_for(project, project.entry(None), {"x": "x.npy"}, {})


TWO_ENTRIES = """
import lumigen as lg
model = lg.Model("two")
batch, seq = lg.Dim("batch", 1, 8), lg.Dim("seq", 1, 16)
@model.entry(x=lg.spec(batch, 4))
def whole(x):
    return x * 2
@model.entry(x=lg.spec(batch, seq))
def parts(x):
    return x.sum(-1)
"""


def test_a_dim_counts_where_an_entry_has_it(here: Path, run: Run) -> None:
    write(here / "model.py", TWO_ENTRIES)
    assert run("compile", "model.py", "--no-build")[0] == 0
    project = emitted_project(here / "two-cpu")
    dims = {"batch": 3, "seq": 5}
    project.check_dims(project.entries, dims)
    for entry, shape in zip(project.entries, ((3, 4), (3, 5)), strict=True):
        assert inputs_for(project, entry, {}, dims)[0]["x"].shape == shape
    for entries, given, says in (
        (project.entries, dims | {"sq": 1, "b": 2}, "sq, b in whole, parts; there are: batch, seq"),
        ([project.entry("whole")], dims, "seq in whole; there are: batch"),
    ):
        with pytest.raises(lg.errors.UnknownOption) as caught:
            project.check_dims(entries, given)
        text = f"[run] there is no dim {says}. Correct the name"
        assert str(caught.value).startswith(text)


def test_a_file_that_dims_contradict_is_refused(here: Path, emitted: Path) -> None:
    project = emitted_project(emitted)
    entry = project.entry(None)
    np.save("x.npy", np.zeros((5, 64), np.float32))
    says = "x is of size 5 in batch, must be of size 3 there, as --dims batch=3 says. Leave"
    with pytest.raises(lg.errors.BadInput, match=says):
        inputs_for(project, entry, {"x": "x.npy"}, {"batch": 3})
    assert inputs_for(project, entry, {"x": "x.npy"}, {"batch": 5})[1] == []


@pytest.mark.parametrize(
    ("name", "count", "says"),
    [
        ("o.npy", 1, ""),
        ("o.npz", 2, ""),
        ("o.npy", 2, "a .npy file holds one array, and there are 2 outputs. Name a file that ends"),
        ("o.txt", 1, "outputs are saved as .npz or .npy, and it ends in .txt. Name a file that"),
        ("o", 1, "and it ends in neither."),
        ("no/o.npz", 1, "there is no directory no. Make it first."),
    ],
)
def test_the_ending_says_how_outputs_are_saved(
    name: str, count: int, says: str, here: Path
) -> None:
    if says:
        with pytest.raises(lg.errors.FileRefused, match=re.escape(says)):
            use.check_output(Path(name), count)
        return
    use.check_output(Path(name), count)
    arrays = {f"y{i}": np.full(2, i, np.float32) for i in range(count)}
    use.save(Path(name), arrays)
    saved = np.load(name)
    assert isinstance(saved, np.ndarray) == name.endswith(".npy")


def test_outputs_of_bf16_are_saved_as_f32(here: Path) -> None:
    outputs = {"y": np.ones(3, ml_dtypes.bfloat16), "z": np.ones(3, np.float16)}
    use.save(here / "out.npz", use.widened(outputs))
    with np.load(here / "out.npz") as saved:
        assert {name: saved[name].dtype.name for name in saved} == {"y": "float32", "z": "float16"}


# --- what is built --------------------------------------------------------------------------------


def reference(weights: dict[str, np.ndarray], x: np.ndarray) -> np.ndarray:
    ((_, graph),) = lg.load_model_file(DIGITS).trace().entries
    return evaluate(graph, {"x": x}, weights)["probs"]


@pytest.mark.slow
def test_a_built_project_runs(
    digits: Path, here: Path, run: Run, rng: np.random.Generator, weights: dict[str, np.ndarray]
) -> None:
    x = rng.normal(size=(BATCH, 64)).astype(np.float32)
    np.save(here / "x.npy", x)
    code, out, err = run("run", digits, "--input", "x=x.npy", "--output", "out.npz")
    assert (code, err) == (0, "")
    assert out.startswith("probs: float32[5, 10]\n")
    with np.load(here / "out.npz") as saved:
        np.testing.assert_allclose(saved["probs"], reference(weights, x), rtol=1e-5)
    code, out, _ = run("run", digits, "--input", "x=x.npy", "--json", "--entry", "classify")
    values = json.loads(out)["outputs"]["probs"]["values"]
    np.testing.assert_allclose(values, reference(weights, x), rtol=1e-5)
    assert tree(here) == ["out.npz", "x.npy"]


@pytest.mark.slow
def test_weights_can_be_given_in_other_forms(
    digits: Path, here: Path, run: Run, weights: dict[str, np.ndarray]
) -> None:
    np.save(here / "x.npy", np.ones((1, 64), np.float32))
    save_file({n: w * 0 for n, w in weights.items()}, here / "zero.safetensors")
    np.savez(here / "zero.npz", **{n: w * 0 for n, w in weights.items()})
    for file in ("zero.safetensors", "zero.npz"):
        code, out, _ = run("run", digits, "--input", "x=x.npy", "--weights", file, "--json")
        assert code == 0
        assert np.allclose(json.loads(out)["outputs"]["probs"]["values"], 0.1)


@pytest.mark.slow
def test_random_inputs_are_said_to_be(digits: Path, run: Run) -> None:
    code, out, err = run("run", digits, "--dims", "batch=3")
    assert code == 0
    assert err == "note: random numbers for x\n"
    assert out.startswith("probs: float32[3, 10]\n")
    code, _, err = run("run", digits, "--dims", "seq=2", "--dims", "batch=3")
    assert code == 1
    assert "no dim seq" in err  # what all of them say is read


@pytest.mark.slow
@pytest.mark.parametrize(
    ("array", "options", "says"),
    [
        (np.zeros((2, 64)), "", "[classify] x in x.npy is float64, must be float32. "),
        (np.zeros((2, 63), np.float32), "", "[classify] x has shape (2, 63), must be"),
        (np.zeros((65, 64), np.float32), "", "[classify] "),
        (np.zeros(64, np.float32), "", "[classify] "),
        (None, "--dims batch=65", "[classify] "),
        (
            None,
            "--dims seq=2",
            "[run] there is no dim seq in classify; there are: batch.",
        ),
        (None, "--entry train", "[digits] there is no entry train; there are: classify."),
        (None, "--input y=x.npy", "[run] there is no input y; there are: x."),
        (None, "--input x=no.npy", "[run] no.npy cannot be used: there is no such file."),
        (None, "--input x=text.npy", "[run] text.npy cannot be used: it is no .npy file"),
        (None, "--weights no.safetensors", "no.safetensors cannot be used: there is no"),
        (None, "--output no/out.npz", "no/out.npz"),
    ],
)
def test_what_a_model_refuses(
    array: np.ndarray | None, options: str, says: str, digits: Path, here: Path, run: Run
) -> None:
    write(here / "text.npy", "no array")
    if array is not None:
        np.save(here / "x.npy", array)
        options += " --input x=x.npy"
    code, out, err = run("run", digits, *options.split())
    assert (code, out) == (1, "")
    assert says in err
    assert len(err.splitlines()) <= 8


@pytest.mark.slow
def test_bench_times_every_entry_and_its_kernels(digits: Path, run: Run) -> None:
    arguments = ["--dims", "batch=2", "--threads", 1, "--seconds", 0.01]
    code, out, _ = run("bench", digits, *arguments, "--json")
    found = json.loads(out)
    (row,) = found["entries"]
    assert code == 0
    assert (row["entry"], row["dims"]) == ("classify", {"batch": 2})
    assert row["runs"] >= 15
    assert row["min_seconds"] <= row["median_seconds"] <= row["p90_seconds"]
    kernels = row["kernels"]
    assert [k["kernel"] for k in kernels] == [
        "k00_product_panel",
        "k01_product_panel",
        "k02_probs_simt",
    ]
    assert sum(k["share"] for k in kernels) == pytest.approx(1)
    assert kernels[0]["flops"] >= 2 * 2 * 64 * 128
    assert kernels[0]["bytes_read"] == 4 * (2 * 64 + 64 * 128 + 128)
    assert kernels[0]["bytes_written"] == 4 * 2 * 128
    for k in kernels:
        assert (k["launches"], k["computes"], k["lines"]) == (1, "f32", ["model.py:12"])
        assert 0 < k["seconds"] < row["p90_seconds"] * 10
        assert k["of_limit"] == pytest.approx(k["least_seconds"] / k["seconds"])
        assert k["limit"] in ("memory", "f32")
    assert found["limits"]["arithmetic"]["f32"]["flops"] > 1e8
    assert found["limits_note"] == ""
    lines = run("bench", digits, *arguments)[1].splitlines()
    assert lines[0].split()[0] == "entry"
    assert re.fullmatch(r"classify: its kernels one by one, [\d.]+ [mun]?s together", lines[3])
    assert re.split(r"  +", lines[4].strip()) == [
        *("kernel", "time", "share", "GB/s", "FLOP/s", "of limit", "launches", "lines")
    ]
    assert [line.split()[0] for line in lines[5:8]] == [k["kernel"] for k in kernels]
    assert all(line.endswith("model.py:12") and "%" in line for line in lines[5:8])
    assert lines[9].startswith("limits  f32 ")


@pytest.mark.slow
def test_bench_without_a_compiler_says_so(
    digits: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lumigen.targets.cpu.limits.cxx", lambda: None)
    arguments = ("bench", digits, "--dims", "batch=2", "--threads", 1, "--seconds", 0)
    code, out, _ = run(*arguments)
    assert code == 0
    assert out.splitlines()[-1].startswith(
        "limits  unknown: [build] a C++17 compiler was not found"
    )
    kernel = next(line for line in out.splitlines() if line.startswith("k00_product_panel"))
    assert re.split(r"  +", kernel)[5] == "-"
    found = json.loads(run(*arguments, "--json")[1])
    assert found["limits"] is None
    assert "was not found" in found["limits_note"]
    assert [k["of_limit"] for k in found["entries"][0]["kernels"]] == [None] * 3


def launch(kernel: str, line: int, flops: str, read: str) -> dict[str, Any]:
    facts = {"flops": flops, "bytes_read": read, "bytes_written": "8", "computes": "f32"}
    return {"kernel": kernel, "lines": [f"m.py:{line}"], **facts}


def test_launches_of_a_kernel_are_one_row() -> None:
    entry = {
        "launches": [
            launch("k00", 3, "100*n", "4*n"),
            launch("k01", 4, "10", "n*n"),
            launch("k02", 5, "1", "1"),
            launch("k00", 7, "100*n", "4*n"),
        ]
    }
    runs = [  # k02 is a variant that did not run
        [(0, "k00", 1.0), (1, "k01", 2.0), (3, "k00", 3.0)],
        [(0, "k00", 2.0), (1, "k01", 9.0), (3, "k00", 3.0)],
        [(0, "k00", 9.0), (1, "k01", 5.0), (3, "k00", 9.0)],
    ]
    first, second = kernel_times(entry, runs, {"n": 6})
    assert (first.kernel, first.launches, first.seconds, first.share) == ("k00", 2, 5.0, 0.5)
    assert (first.flops, first.bytes_read, first.bytes_written) == (1200, 48, 16)
    assert first.lines == ("m.py:3", "m.py:7")
    assert (second.kernel, second.seconds, second.bytes_read) == ("k01", 5.0, 36)
    limits = Limits((Memory(1, 4.0, 2.0),), {"f32": Rate(1000.0, "sse2")})
    shown = beside(first, limits)
    assert (shown.least_seconds, shown.limit) == (2 * (24 / 4 + 8 / 2), "memory")
    assert shown.of_limit == 4.0, "no measure is bent where a limit is passed"
    assert places(first.lines) == "m.py:3, 7"
    assert places([f"{f}.py:{n}" for f in "ab" for n in (1, 2, 3)]) == (
        "a.py:1, 2, 3; b.py:1 and 2 more"
    )


@pytest.mark.slow
def test_compiling_again_builds_nothing_and_the_tests_pass(
    digits: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One test, since `test` changes the options of the build that is looked at before."""

    def start(*_: object, **__: object) -> None:
        raise AssertionError

    weights = digits.parent / "digits.safetensors"
    arguments = ("compile", DIGITS, "--weights", weights, "-o", digits)
    assert run(*arguments)[0] == 0
    before = times(digits)
    with monkeypatch.context() as patch:
        patch.setattr(subprocess, "Popen", start)
        code, out, _ = run(*arguments)
    assert code == 0
    assert "built before" in out
    assert times(digits) == before
    code, out, _ = run("test", digits, "--json")
    found = json.loads(out)
    assert (code, found["passed"]) == (0, True)
    assert found["tests"]["digits.kernels.baseline"] == "passed"
    assert found["tests"]["digits_example_c"] == "passed"


def times(directory: Path) -> dict[str, int]:
    """When each file but the lock and the weights was written."""
    kept = (p for p in tree(directory) if not p.endswith((".lock", ".safetensors")))
    return {p: (directory / p).stat().st_mtime_ns for p in kept}


@pytest.mark.slow
def test_the_module_is_what_compile_and_load_return(
    digits: Path, weights: dict[str, np.ndarray]
) -> None:
    module = lg.load(digits)
    context = module.Model().context(threads=1)
    x = np.ones((2, 64), np.float32)
    np.testing.assert_allclose(context(x), reference(weights, x), rtol=1e-5)


@pytest.mark.slow
def test_the_lines_to_paste_run(digits: Path, run: Run) -> None:
    weights = digits.parent / "digits.safetensors"
    out = run("compile", DIGITS, "--weights", weights, "-o", digits)[1]
    line = next(x for x in out.splitlines() if x.startswith("Python")).partition(" ")[2]
    line = line.replace(" python ", f" {sys.executable} ")
    done = subprocess.run(line, shell=True, check=True, capture_output=True, text=True)
    assert "classify(x: f32[batch, 64])" in done.stdout


@pytest.mark.slow
def test_inspect_reads_a_library(digits: Path, run: Run) -> None:
    code, out, _ = run("inspect", digits / "lib" / "libdigits.so", "--json")
    assert code == 0
    assert json.loads(out)["manifest"]["model"] == "digits"
    code, out, _ = run("inspect", digits)
    assert code == 0
    assert "built    lib/libdigits.so" in out


@pytest.mark.slow
def test_an_interrupted_build_goes_on_where_it_stopped(here: Path) -> None:
    """Ctrl-C reaches the whole group of processes, as from a terminal."""
    shutil.copy(DIGITS, here / "model.py")
    environment: dict[str, Any] = {**os.environ, "PYTHONPATH": str(ROOT)}
    # Where the tests run in the background, SIGINT is ignored, and what they start would ignore it too.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    process = subprocess.Popen(
        [sys.executable, "-m", "lumigen", "compile", "model.py"],
        cwd=here,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    signal.signal(signal.SIGINT, before)
    log = here / "digits-cpu" / "build" / "release" / "lumigen.log"
    end = time.monotonic() + 120
    while not log.is_file() and process.poll() is None and time.monotonic() < end:
        time.sleep(0.05)
    os.killpg(process.pid, signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert (process.returncode, out) == (130, "")
    assert err.endswith("stopped\n")
    assert "Traceback" not in err
    folder = here / "digits-cpu"
    assert json.loads((folder / "manifest.json").read_text())["model"] == "digits"
    assert not any((folder / name).exists() for name in ("lib", "python"))
    assert not [p for p in tree(folder) if "/." in p and not p.endswith(".lock")]


# --- what nobody would do on purpose --------------------------------------------------------------

RAISING = """
class Odd(BaseException):
    def __str__(self):
        raise ValueError
raise Odd
"""


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (RAISING, "it raised Odd. Correct the line."),
        ("raise GeneratorExit('x')", "it raised GeneratorExit: x. Correct the line."),
        ("raise ValueError('a\\x1b[2Jb')", r"it raised ValueError: a\x1b[2Jb. Correct"),
        (
            "import builtins\nbuiltins.isinstance = None",
            "it replaced isinstance() of Python. Leave",
        ),
        ("import builtins\nbuiltins.len = lambda _: 1 / 0\nlen('')", "it replaced len() of Python"),
    ],
)
def test_odd_exceptions_of_a_model_file(text: str, says: str, here: Path, run: Run) -> None:
    code, _, err = run("compile", write(here / "model.py", text), "--no-build")
    assert code == 1
    assert says in err


@pytest.mark.slow
def test_a_model_file_that_closes_its_output(here: Path) -> None:
    for did in ("os.close(1)", "sys.stdout.close()"):
        write(here / "model.py", f"import os, sys\n{did}\n")
        command = [sys.executable, "-m", "lumigen", "compile", "model.py", "--no-build"]
        done = subprocess.run(command, cwd=here, capture_output=True, text=True, check=False)
        assert (done.returncode, "model.py: it closed stdout" in done.stderr) == (1, True)
        assert "Traceback" not in done.stderr


def test_a_circle_of_links_is_no_file(here: Path, run: Run) -> None:
    (here / "model.py").symlink_to(here / "model.py")
    (here / "out").symlink_to(here / "out")
    code, _, err = run("compile", here / "model.py", "--no-build")
    assert (code, "there is no such file" in err) == (1, True)
    code, _, err = run("compile", DIGITS, "-o", here / "out", "--no-build")
    assert code == 1
    assert "out cannot be used: file exists" in err


@pytest.mark.slow
def test_a_library_is_read_and_not_run(here: Path, run: Run, digits: Path) -> None:
    library = here / "libdigits.so"
    shutil.copy(digits / "lib" / "libdigits.so", library)
    with library.open("r+b") as file:
        file.seek(64)
        file.write(bytes(64))  # the linker would not load it
    assert json.loads(run("inspect", library, "--json")[1])["manifest"]["model"] == "digits"
    library.write_bytes(b"")
    code, _, err = run("inspect", library)
    assert (code, "it is no shared library that holds" in err) == (1, True)


@pytest.mark.parametrize(
    ("option", "says"),
    [
        (
            f"batch={10**19}",
            "[run] dim batch cannot be 10000000000000000000. Pass a size of at most",
        ),
        ("batch=" + "9" * 5000, "Pass a size of at most 18 digits"),
    ],
)
def test_sizes_are_numbers_of_64_bits(option: str, says: str, here: Path, run: Run) -> None:
    code, _, err = run("run", here, "--dims", option)
    assert (code, says in err) == (1, True)


def test_threads_can_be_counted(here: Path, run: Run) -> None:
    code, _, err = run("run", here, "--threads", 2**31)
    assert code == 1
    assert "[run] --threads cannot be 2147483648. Pass at most 4096" in err


DAMAGE: dict[str, tuple[Callable[[dict[str, Any]], object], str]] = {
    "files": (lambda m: m.update(files=[1]), "its files are '[1]', which is no object"),
    "no files": (lambda m: m.update(files=None), "its files are 'None'"),
    "digest": (lambda m: m["files"].update(x=5), "its files have the row 'x': '5'"),
    "path": (lambda m: m["files"].update({"a\0b": ""}), r"the row 'a\x00b'"),
    "model": (lambda m: m.update(model="../x"), "its model is '../x', which is no name"),
    "key": (lambda m: m.pop("weights"), "it has no weights"),
    "inner key": (lambda m: m["entries"][0].pop("dims"), "an item of entries has no dims"),
    "type": (lambda m: m.update(abi="1\x1b"), r"abi is '1\x1b'"),
    "entries": (lambda m: m.update(entries=[]), "it has no entries"),
    "no launches": (
        lambda m: m["entries"][0].pop("launches"),
        "an item of entries has no launches",
    ),
    "work": (
        lambda m: m["entries"][0]["launches"][0].update(flops="__import__('os').abort()"),
        "its launch of k00_product_panel has work that cannot be",
    ),
    "extent": (
        lambda m: m["entries"][0]["inputs"][0].update(shape=["batch//0"]),
        "its port x has a type, a shape or a range that cannot be",
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", DAMAGE)
def test_a_damaged_manifest_is_one_message(name: str, emitted: Path, run: Run) -> None:
    damage, says = DAMAGE[name]
    file = emitted / "manifest.json"
    manifest = json.loads(file.read_text(encoding="utf-8"))
    damage(manifest)
    file.write_text(json.dumps(manifest), encoding="utf-8")
    for command in ("inspect", "run", "bench", "test"):
        code, out, err = run(command, emitted)
        assert (code, out) == (1, "")
        assert says in err
        assert "manifest.json cannot be used" in err


@pytest.mark.slow
def test_what_is_in_the_way_of_a_file_is_named(emitted: Path, run: Run) -> None:
    (emitted / "README.md").unlink()
    (emitted / "README.md").mkdir()
    code, _, err = run("compile", DIGITS, "--no-build")
    assert code == 1
    assert "digits-cpu/README.md cannot be used: it is a directory, where a file" in err


def test_places_that_cannot_be_built_in_are_refused_before_anything(here: Path, run: Run) -> None:
    for place in ('a"b', "a;b", "a\\b"):
        code, _, err = run("compile", DIGITS, "-o", place)
        assert code == 1
        assert "[build] " in err
        assert "CMake cannot build where the path holds" in err
        assert not (here / place).exists()
    code, _, err = run("compile", DIGITS, "--no-build", "-o", "")
    assert code == 1
    assert "[compile] -o cannot be empty. Pass a directory." in err


@pytest.mark.slow
def test_a_full_disk_leaves_nothing(here: Path) -> None:
    done = shell(f"ulimit -f 8; {COMMAND} compile '{DIGITS}' -o a/b --no-build")
    assert done.returncode == 1
    assert "[compile] the disk cannot be used: file too large." in done.stderr
    assert not (here / "a").exists()


@pytest.mark.slow
def test_streams_may_be_closed(here: Path) -> None:
    for closed in (">&-", "2>&-", "<&-", "<&- >&- 2>&-"):
        done = shell(f"{COMMAND} show '{DIGITS}' --after program {closed}")
        assert done.returncode == 0
        assert "bug in lumigen" not in done.stderr


def test_ctrl_c_while_importing_has_no_traceback(here: Path) -> None:
    write(here / "numpy.py", "raise KeyboardInterrupt\n")
    done = shell(f"PYTHONPATH='{here}:{ROOT}' {COMMAND} doctor; exit $?")
    assert (done.returncode, done.stderr) == (130, "stopped\n")


def test_names_in_a_weights_file_cannot_steer_a_terminal(
    here: Path, run: Run, weights: dict[str, np.ndarray]
) -> None:
    file = here / "w.safetensors"
    save_file({**weights, "a\x1b[2J\nb": np.zeros(1, np.float32)}, file)
    code, _, err = run("compile", DIGITS, "--weights", file, "--no-build")
    assert code == 0
    assert r"the model does not read: a\x1b[2J\nb" in err


COMMAND = f"'{sys.executable}' -m lumigen"


def shell(text: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    command = ["bash", "-c", text]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False)

"""The Python module of a built project: results, the contract, ownership."""

from __future__ import annotations

import ctypes
import gc
import os
import shutil
import subprocess
import sys
import threading
import weakref
from pathlib import Path
from types import MappingProxyType, ModuleType

import models
import numpy as np
import pytest
from fake_arrays import FLOAT, Managed, new_capsule


@pytest.fixture(scope="module")
def model(tiny: ModuleType):
    return tiny.Model()


@pytest.fixture
def x(rng: np.random.Generator) -> np.ndarray:
    return rng.normal(size=(5, models.IN)).astype(np.float32)


def expected(x: np.ndarray, arrays: dict[str, np.ndarray]) -> np.ndarray:
    return (x * arrays["scale"] + arrays["shift"]) @ arrays["proj.weight"].T


class Exchanged:
    """An array that offers nothing but DLPack, as another library's would."""

    def __init__(self, array: np.ndarray) -> None:
        self.array = array
        self.dtype = array.dtype

    def __dlpack__(self, **options: object):
        return self.array.__dlpack__(**options)

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.array.__dlpack_device__()


@pytest.mark.parametrize("threads", [0, 1, 3])
def test_results(model, x, arrays, threads):
    out = model.context(threads=threads).forward(x)
    np.testing.assert_allclose(out.y, expected(x, arrays), rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(out.total, expected(x, arrays).sum(-1), rtol=1e-4, atol=1e-4)
    assert out._fields == ("y", "total")
    assert type(out).__name__ == "forward_outputs"


def test_one_output_is_an_array(model, arrays):
    ids = np.array([3, 0, 9], np.int64)
    out = model.context().lookup(ids)
    assert type(out) is np.ndarray
    np.testing.assert_array_equal(out, arrays["table"][ids])


def test_weights_from_a_file_from_memory_and_packed_give_the_same(tiny, project, x, model):
    original = project / "original.safetensors"
    want = model.context(1).forward(x).y
    for weights in (
        original,
        str(original),
        original.read_bytes(),
        memoryview(original.read_bytes()),
    ):
        np.testing.assert_array_equal(tiny.Model(weights).context(1).forward(x).y, want)
    packed = (project / "weights" / "tiny.safetensors").read_bytes()
    for shift in range(4):  # memory at any address
        moved = np.frombuffer(b"?" * shift + packed, np.uint8)[shift:]
        np.testing.assert_array_equal(tiny.Model(moved).context(1).forward(x).y, want)


@pytest.mark.slow
def test_weights_in_memory_live_as_long_as_contexts(tiny, project, x):
    data = np.frombuffer((project / "original.safetensors").read_bytes(), np.uint8).copy()
    alive = weakref.ref(data)
    context = tiny.Model(data).context(1)
    del data
    gc.collect()
    assert alive() is not None
    context.forward(x)
    del context
    gc.collect()
    assert alive() is None


def test_inputs_by_name_and_outputs_of_the_caller(model, x, arrays):
    context = model.context(1)
    out = (np.empty((5, models.OUT), np.float32), np.empty(5, np.float32))
    assert context.forward(x=x, out=out) is out
    np.testing.assert_allclose(out[0], expected(x, arrays), rtol=1e-5, atol=1e-5)
    named = {"total": np.empty(5, np.float32), "y": np.empty((5, models.OUT), np.float32)}
    assert context.forward(x, out=named) is named
    np.testing.assert_array_equal(named["y"], out[0])
    named["y"][:] = 0
    context.forward(x, out=MappingProxyType(named))
    np.testing.assert_array_equal(named["y"], out[0])
    rows = np.empty((3, models.IN), np.float32)
    assert context.lookup(np.array([1, 2, 3]), out=rows) is rows


def test_a_profile_times_every_launch(model, x):
    context = model.context(1)
    context.forward(x)
    assert context.times == []
    context.profile()
    for _ in range(2):
        context.forward(x)
        numbers, kernels, seconds = zip(*context.times, strict=True)
        assert (numbers, kernels) == ((0, 1, 2), ("k00_affine_7", "k01_project_20x7", "k02_sum_20"))
        assert min(seconds) > 0
    launches = model.manifest["entries"][0]["launches"]
    assert [launches[n]["kernel"] for n in numbers] == list(kernels)
    context.profile(False)
    context.forward(x)
    assert context.times == []


def test_inputs_that_are_not_contiguous_are_copied(model, x):
    context = model.context(1)
    want = context.forward(x).y
    np.testing.assert_array_equal(context.forward(np.asfortranarray(x)).y, want)
    np.testing.assert_array_equal(context.forward(np.repeat(x, 2, axis=0)[::2]).y, want)
    raw = np.frombuffer(b"?" + x.tobytes(), np.uint8)[1:].view(np.float32).reshape(x.shape)
    assert not raw.flags.aligned
    np.testing.assert_array_equal(context.forward(raw).y, want)
    np.testing.assert_array_equal(context.forward(Exchanged(np.asfortranarray(x))).y, want)


def test_dlpack_arrays_in_and_out(model, x):
    context = model.context(1)
    want = context.forward(x)
    np.testing.assert_array_equal(context.forward(Exchanged(x)).y, want.y)
    y, total = np.empty_like(want.y), np.empty_like(want.total)
    context.forward(x, out=(Exchanged(y), Exchanged(total)))
    np.testing.assert_array_equal(y, want.y)


class Misaligned(Exchanged):
    """An array at an odd address, of row-major elements and so without strides."""

    def __init__(self, array: np.ndarray) -> None:
        super().__init__(array)
        self.memory = ctypes.create_string_buffer(array.nbytes + 1)
        self.memory[1:] = array.tobytes()
        self.shape = (ctypes.c_int64 * array.ndim)(*array.shape)
        data = ctypes.addressof(self.memory) + 1
        bits = 8 * array.itemsize
        self.managed = Managed(
            data, 1, 0, array.ndim, FLOAT, bits, 1, self.shape, None, 0, None, None
        )

    def __dlpack__(self, **options: object):
        return new_capsule(ctypes.byref(self.managed), b"dltensor", None)


def test_dlpack_without_strides(model, x):
    context = model.context(1)
    given = Misaligned(x)
    np.testing.assert_array_equal(context.forward(given).y, context.forward(x).y)
    given.managed.shape = None
    with pytest.raises(Exception, match="x has 2 axes and no shape"):
        context.forward(given)


class Odd(np.ndarray):
    def copy(self, *_: object) -> None:
        return None


def test_a_class_that_makes_nothing_of_itself(model, x):
    context = model.context(1)
    given = np.asfortranarray(x).view(Odd)
    np.testing.assert_array_equal(context.forward(given).y, context.forward(x).y)


ENDING = """
import sys, threading, time
import numpy as np
sys.path.insert(0, {folder!r})
import tiny
model, x = tiny.Model(), np.ones((64, {width}), np.float32)
def serve():
    context = model.context(1)
    while True:
        context.forward(x)
for _ in range(4):
    threading.Thread(target=serve, daemon=True).start()
time.sleep(0.1)
"""


@pytest.mark.slow
def test_threads_that_run_when_python_ends(project):
    text = ENDING.format(folder=str(project / "python"), width=models.IN)
    for _ in range(3):
        done = subprocess.run(
            [sys.executable, "-c", text], capture_output=True, text=True, timeout=60, check=False
        )
        assert (done.returncode, done.stderr) == (0, "")


def test_torch_tensors(model, x):
    torch = pytest.importorskip("torch")
    context = model.context(1)
    want = context.forward(x)
    given = torch.from_numpy(x.copy())
    np.testing.assert_array_equal(context.forward(given).y, want.y)
    np.testing.assert_array_equal(context.forward(given.T.contiguous().T).y, want.y)
    out = (torch.empty(5, models.OUT), torch.empty(5))
    context.forward(given, out=out)
    np.testing.assert_array_equal(out[0].numpy(), want.y)
    with pytest.raises(ValueError, match=r"x is torch.float64, must be float32"):
        context.forward(given.double())
    with pytest.raises(ValueError, match=r"x records gradients, .* Pass its .detach\(\)\."):
        context.forward(given.requires_grad_())


def refused(status: int, text: str):
    return pytest.raises(ValueError, match=text, check=lambda e: getattr(e, "status", 0) == status)


def test_the_contract(tiny, model, x):
    c = model.context(1)
    with refused(2, r"^\[forward\] x is float64, must be float32. Pass x.astype\(np.float32\).$"):
        c.forward(x.astype("f8"))
    with refused(2, "x is >f4, must be float32"):
        c.forward(x.astype(">f4"))
    with refused(2, "x is float64, must be float32"):
        c.forward(Exchanged(x.astype("f8")))
    with refused(3, r"x has shape \(7,\), must be \(batch, 7\). Reshape it."):
        c.forward(x[0])
    with refused(3, r"x has shape \(1, 5, 7\), must be \(batch, 7\)"):
        c.forward(Exchanged(x[None]))
    with refused(3, r"x has shape \(5, 6\), must be \(batch, 7\): axis 1 is 6, must be 7"):
        c.forward(x[:, :6])
    with refused(3, r"x has shape \(65, 7\).*batch is 65 \(axis 0\), must be 1..64"):
        c.forward(np.zeros((65, 7), np.float32))
    with refused(3, "batch is 0"):
        c.forward(np.zeros((0, 7), np.float32))
    with refused(3, r"n is 3 \(axis 0\), must be 2..1000 and a multiple of 2"):
        c.lookup(np.zeros(4, np.int64))
    with refused(1, "ids holds 10 at flat index 2, must be in 0..9"):
        c.lookup(np.array([0, 9, 10]))
    with refused(1, "ids holds -1 at flat index 0"):
        c.lookup(np.array([-1, 9, 10]))
    with refused(1, "x is of type list, must be an array of float32"):
        c.forward([1.0])
    y, total = np.empty((5, models.OUT), np.float32), np.empty(5, np.float32)
    with refused(3, "total has shape"):
        c.forward(x, out=(y, np.empty(4, np.float32)))
    with refused(2, "y is float64, must be float32. Pass an array of that dtype"):
        c.forward(x, out=(y.astype("f8"), total))
    with refused(1, "y is not contiguous and writable"):
        c.forward(x, out=(np.asfortranarray(y), total))
    total.flags.writeable = False
    with refused(1, "total is not contiguous and writable"):
        c.forward(x, out=(y, total))
    with refused(1, "output rows overlaps ids"):
        memory = np.zeros(3 * models.IN * 2, np.float32)
        c.lookup(memory.view(np.int64)[:3], out=memory[: 3 * models.IN].reshape(3, models.IN))
    assert issubclass(tiny.Error, ValueError)


def test_wrong_calls_are_type_errors(model, x):
    c = model.context(1)
    with pytest.raises(TypeError, match=r"forward\(\) lacks input x. It is forward\(x: f32"):
        c.forward()
    with pytest.raises(TypeError, match="has no input z"):
        c.forward(x, z=1)
    with pytest.raises(TypeError, match=r"forward\(\) has no input X. It is forward\(x: f32"):
        c.forward(X=x)
    with pytest.raises(TypeError, match="takes 1 inputs, not 2"):
        c.forward(x, x)
    with pytest.raises(TypeError, match="got x twice"):
        c.forward(x, x=x)
    with pytest.raises(ValueError, match="out has 1 arrays, must have 2"):
        c.forward(x, out=(x,))
    with pytest.raises(
        TypeError, match=r"forward\(\) lacks output total in out. It is forward\(x: f32"
    ):
        c.forward(x, out={"y": x})
    with pytest.raises(
        TypeError, match=r"has no output sum, which out names. It is forward\(x: f32"
    ):
        c.forward(x, out={"y": x, "sum": x})
    for other in (5, {1, 2}, iter(())):
        with pytest.raises(
            TypeError, match=f"or a dict of them by name, not {type(other).__name__}. It is"
        ):
            c.forward(x, out=other)
    assert not callable(c)  # two entries


def test_entries_and_manifest(tiny, model):
    assert list(model.entries) == ["forward", "lookup"]
    text = "forward(x: f32[batch, 7]) -> y: f32[batch, 20], total: f32[batch]; batch 1..64"
    assert str(model.entries["forward"]) == text
    assert model.entries["lookup"].dims == {"n": (2, 1000, 2)}
    assert model.entries["lookup"].inputs == {"ids": "i64[n + 1]"}
    assert model.manifest["version"] == tiny.__version__ == "1.2.3"
    assert "files" not in model.manifest


def test_weights_errors(tiny, tmp_path):
    with refused(5, "there is no such file"):
        tiny.Model(tmp_path / "none.safetensors")
    with refused(5, "is no regular file"):
        tiny.Model(tmp_path)
    with refused(8 - 3, "shorter than any"):
        tiny.Model(b"123")
    with pytest.raises(TypeError):
        tiny.Model(3)


def test_threads_share_a_model_but_not_a_context(model, x):
    want = model.context(1).forward(x).y
    wrong: list[object] = []

    def use() -> None:
        context = model.context(2)
        same = [np.array_equal(context.forward(x).y, want) for _ in range(200)]
        wrong.extend(s for s in same if not s)

    threads = [threading.Thread(target=use) for _ in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not wrong


def test_nothing_leaks(model, x):
    context = model.context(1)
    owners = [x, np.asfortranarray(x)]
    before = [sys.getrefcount(o) for o in owners]
    for _ in range(50):
        for o in owners:
            context.forward(o)
        context.forward(Exchanged(x))
        with pytest.raises(ValueError, match="float64"):
            context.forward(x.astype("f8"))
    del o
    gc.collect()
    assert [sys.getrefcount(o) for o in owners] == before


def test_a_module_without_weights_beside_it_says_how_to_pass_them(project, tmp_path):
    shutil.copytree(project / "python", tmp_path / "python")
    code = "import tiny; tiny.Model()"
    run = subprocess.run(
        [sys.executable, "-c", code],
        cwd=tmp_path / "python",
        capture_output=True,
        text=True,
        check=False,
    )
    assert "tiny.Error: [model_open] no weights are given" in run.stderr
    assert "Pass weights=, a path or a buffer" in run.stderr


def test_import_from_the_python_folder_finds_the_weights(project, tmp_path):
    code = "import tiny; print(len(tiny.Model().entries), tiny.Model().context(1) is None)"
    environment = {**os.environ, "PYTHONPATH": str(project / "python")}
    run = subprocess.run(
        [sys.executable, "-c", code],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )
    assert run.stdout.strip() == "2 False"


def test_the_stub_is_beside_the_module(project: Path):
    stub = (project / "python" / "tiny.pyi").read_text()
    assert "def forward(self, x: Any, *, out: Any = None) -> forward_outputs: ..." in stub
    compile(stub, "tiny.pyi", "exec")


@pytest.mark.parametrize(
    ("name", "use"),
    [
        ("Model", lambda tiny, o: o.context()),
        ("Context", lambda tiny, o: o.forward(np.zeros((1, models.IN), np.float32))),
        ("Context", lambda tiny, o: o.times),
        ("Entry", lambda tiny, o: o.signature),
        ("Entry", lambda tiny, o: repr(o)),
    ],
)
def test_an_object_that_nobody_constructed_raises(tiny, name, use):
    kind = getattr(tiny, name)
    with pytest.raises(TypeError, match=r"made by __new__ alone .* Call Model"):
        use(tiny, kind.__new__(kind))


def test_a_model_that_could_not_be_opened_raises(tiny):
    model = tiny.Model.__new__(tiny.Model)
    with pytest.raises(tiny.Error, match="no such file"):
        model.__init__("no such file")
    with pytest.raises(TypeError, match="holds nothing"):
        model.context()


@pytest.mark.parametrize("threads", ["two", 1.5, 10**30])
def test_threads_are_an_integer(model, threads):
    with pytest.raises(TypeError, match=r"\[context\] threads is .* must be None or an integer"):
        model.context(threads)


def test_a_path_is_taken_whole(tiny, tmp_path):
    (tmp_path / "a").write_bytes(b"")
    with pytest.raises(ValueError, match="embedded null byte"):
        tiny.Model(str(tmp_path / "a\0b"))

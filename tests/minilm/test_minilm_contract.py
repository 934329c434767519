"""What `minilm_embed` refuses: the status, the text, and that nothing was written."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
import pytest
from c_interface import BAD_ARGUMENT, BAD_DTYPE, BAD_SHAPE, OK, Library, Tensor, tensor

pytestmark = pytest.mark.slow


@dataclass
class Call:
    """Arrays of a call that is fine, to be spoiled; `tensors` are what is passed."""

    ids: np.ndarray = field(default_factory=lambda: np.arange(8).reshape(2, 4))
    mask: np.ndarray = field(default_factory=lambda: np.ones((2, 4), np.int64))
    out: np.ndarray = field(default_factory=lambda: np.full((2, 384), 7, np.float32))
    offsets: tuple[int, int, int] = (0, 0, 0)

    def tensors(self) -> tuple[Tensor, Tensor, Tensor]:
        arrays = (self.ids, self.mask, self.out)
        first, second, third = map(tensor, arrays, self.offsets)
        return first, second, third


def with_batch(batch: int, sequence: int) -> Call:
    ids = np.zeros((batch, sequence), np.int64)
    return Call(ids, np.ones_like(ids), np.full((batch, 384), 7, np.float32))


def changed(**changes: np.ndarray) -> Call:
    return Call(**changes)


def holding(name: str, value: int) -> Call:
    call = Call()
    getattr(call, name)[1, 2] = value
    return call


def on_top(of: str) -> Call:
    """The output in the last bytes of an input's memory, and beyond them."""
    memory = np.full(8 + 384, 7, np.int64)
    array = memory[:8].reshape(2, 4)
    array[:] = 1
    out = memory.view(np.float32)[15 : 15 + 768].reshape(2, 384)
    return Call(**{of: array}, out=out)


CASES: dict[str, tuple[Callable[[], Call], int, str]] = {
    "id past the vocabulary": (
        lambda: holding("ids", 30522),
        BAD_ARGUMENT,
        r"input_ids holds 30522 at flat index 6, must be in 0..30521. Correct the values\.",
    ),
    "negative id": (
        lambda: holding("ids", -1),
        BAD_ARGUMENT,
        r"input_ids holds -1 at flat index 6, must be in 0..30521. Correct the values\.",
    ),
    "huge id": (
        lambda: holding("ids", -(1 << 63)),
        BAD_ARGUMENT,
        r"input_ids holds -9223372036854775808 at flat index 6, must be in 0..30521\.",
    ),
    "mask of 2": (
        lambda: holding("mask", 2),
        BAD_ARGUMENT,
        r"attention_mask holds 2 at flat index 6, must be in 0..1\. Correct the values\.",
    ),
    "int32 ids": (
        lambda: changed(ids=np.zeros((2, 4), np.int32)),
        BAD_DTYPE,
        r"input_ids is int32, must be int64\. Pass int64 data; dtypes are never converted\.",
    ),
    "float mask": (
        lambda: changed(mask=np.ones((2, 4), np.float32)),
        BAD_DTYPE,
        r"attention_mask is float32, must be int64\. Pass int64 data",
    ),
    "float64 output": (
        lambda: changed(out=np.full((2, 384), 7.0)),
        BAD_DTYPE,
        r"embedding is float64, must be float32\. Pass float32 data",
    ),
    "one axis": (
        lambda: changed(ids=np.zeros(8, np.int64)),
        BAD_SHAPE,
        r"input_ids has 1 axes, must have 2: \(batch, sequence\)\. Reshape it\.",
    ),
    "three axes": (
        lambda: changed(mask=np.ones((2, 4, 1), np.int64)),
        BAD_SHAPE,
        r"attention_mask has 3 axes, must have 2: \(batch, sequence\)\. Reshape it\.",
    ),
    "batch 65": (
        lambda: with_batch(65, 4),
        BAD_SHAPE,
        (
            r"input_ids has shape \(65, 4\), must be \(batch, sequence\): batch is 65 \(axis 0\), "
            r"must be 1..64\. Pass a shape in that range\."
        ),
    ),
    "batch 0": (lambda: with_batch(0, 4), BAD_SHAPE, r".*: batch is 0 \(axis 0\), must be 1..64\."),
    "sequence 513": (
        lambda: with_batch(1, 513),
        BAD_SHAPE,
        (
            r"input_ids has shape \(1, 513\), must be \(batch, sequence\): sequence is 513 \(axis 1\), "
            r"must be 1..512\. Pass a shape in that range\."
        ),
    ),
    "sequence 0": (
        lambda: with_batch(1, 0),
        BAD_SHAPE,
        r".*: sequence is 0 \(axis 1\), must be 1..512",
    ),
    "a mask for another sequence": (
        lambda: changed(mask=np.ones((2, 5), np.int64)),
        BAD_SHAPE,
        (
            r"attention_mask has shape \(2, 5\), must be \(batch, sequence\): axis 1 is 5, must be "
            r"sequence = 4\. Pass a tensor of that shape\."
        ),
    ),
    "a mask for another batch": (
        lambda: changed(mask=np.ones((1, 4), np.int64)),
        BAD_SHAPE,
        r"attention_mask has shape \(1, 4\), .*axis 0 is 1, must be batch = 2\.",
    ),
    "a narrow output": (
        lambda: changed(out=np.full((2, 383), 7, np.float32)),
        BAD_SHAPE,
        r"embedding has shape \(2, 383\), must be \(batch, 384\): axis 1 is 383, must be 384\.",
    ),
    "a short output": (
        lambda: changed(out=np.full((1, 384), 7, np.float32)),
        BAD_SHAPE,
        r"embedding has shape \(1, 384\), .*axis 0 is 1, must be batch = 2\.",
    ),
    "an output on top of the ids": (
        lambda: on_top("ids"),
        BAD_ARGUMENT,
        r"output embedding overlaps input_ids, must share no memory with it\. Pass separate",
    ),
    "an output on top of the mask": (
        lambda: on_top("mask"),
        BAD_ARGUMENT,
        r"output embedding overlaps attention_mask, must share no memory with it\.",
    ),
    "misaligned ids": (
        lambda: Call(offsets=(4, 0, 0)),
        BAD_ARGUMENT,
        r"input_ids starts at address 0x[0-9a-f]+, must start at a multiple of 8 bytes\. Copy it\.",
    ),
    "a misaligned output": (
        lambda: Call(offsets=(0, 0, 2)),
        BAD_ARGUMENT,
        r"embedding starts at address 0x[0-9a-f]+, must start at a multiple of 4 bytes\. Copy it\.",
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_refused_and_nothing_written(library: Library, name: str) -> None:
    make, status, text = CASES[name]
    call = make()
    before = [a.copy() for a in (call.ids, call.mask, call.out)]
    assert library.embed(*call.tensors()) == status
    with pytest.raises(ValueError, match=r"^\[embed\] " + text):  # `match` shows both texts
        raise ValueError(library.last_error())
    for array, want in zip((call.ids, call.mask, call.out), before, strict=True):
        np.testing.assert_array_equal(array, want)
    assert library.embed(*Call().tensors()) == OK


def test_null_is_refused(library: Library) -> None:
    for at, name in enumerate(("input_ids", "attention_mask", "embedding")):
        tensors: list[Tensor | None] = list(Call().tensors())
        tensors[at] = None
        assert library.embed(*tensors) == BAD_ARGUMENT
        assert f"{name} is NULL" in library.last_error()


def test_an_output_beside_an_input_is_fine(library: Library) -> None:
    memory = np.zeros(8 + 384, np.int64)
    out = memory.view(np.float32)[16:].reshape(2, 384)
    assert library.embed(*Call(ids=memory[:8].reshape(2, 4), out=out).tensors()) == OK
    np.testing.assert_allclose(np.linalg.norm(out, axis=-1), 1, atol=1e-5)


def test_python_says_what_to_call(minilm) -> None:
    context = minilm.Model().context(threads=1)
    good = Call()
    for spoiled, status, text in (
        (
            good.ids.astype("i4"),
            BAD_DTYPE,
            r"is int32, must be int64. Pass .*\.astype\(np\.int64\)",
        ),
        (good.ids[0], BAD_SHAPE, r"has shape \(\d+,\), must be \(batch, sequence\)"),
        (np.full((2, 4), 30522), BAD_ARGUMENT, "holds 30522 at flat index 0"),
        (np.zeros((65, 4), np.int64), BAD_SHAPE, "batch is 65"),
    ):
        with pytest.raises(minilm.Error, match=text) as refused:
            context.embed(spoiled, good.mask)
        assert refused.value.status == status


def test_workspaces_are_as_small_as_promised(library: Library) -> None:
    assert library.workspace(1, 128) <= 1.1e6
    scores = 64 * 12 * 512 * 512 * 4  # a f32 tensor (batch, heads, sequence, sequence)
    assert library.workspace(64, 512) <= scores / 4

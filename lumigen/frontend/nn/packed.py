"""packed: sequences of lengths of their own in one batch, as recurrent layers take them.

They stay padded: a length is data, and shapes are not. What comes after the end of a sequence changes no state.
"""

# ruff: noqa: FBT002  # signatures are PyTorch's

from __future__ import annotations

from typing import NamedTuple

from lumigen.errors import BadArgument, RankMismatch, ShapeMismatch
from lumigen.frontend import functions
from lumigen.frontend.primitive import Extent, Scalar
from lumigen.frontend.tensor import Tensor
from lumigen.frontend.trace import fail
from lumigen.index import ix

__all__ = ["PackedSequence", "pack_padded_sequence", "pad_packed_sequence"]


class PackedSequence(NamedTuple):
    """`data`: (time, batch, ...), padded; `lengths`: (batch), how much of each sequence counts."""

    data: Tensor
    lengths: Tensor

    def present(self) -> Tensor:
        """(time, batch) of bool: what lies within its sequence."""
        return functions.arange(self.data.shape[0])[:, None] < self.lengths


def pack_padded_sequence(
    input: Tensor, lengths: Tensor, batch_first: bool = False, enforce_sorted: bool = True
) -> PackedSequence:
    """(time, batch, ...), or (batch, time, ...) with `batch_first`, and the length of each sequence.

    Lengths are integers from 1 to the time; they may come in any order.
    """
    del enforce_sorted
    if input.ndim < 2:  # time and batch
        expected, remedy = "at least 2 axes, time and batch", "Reshape it."
        raise fail(
            RankMismatch,
            op="pack_padded_sequence",
            name="input",
            shape=input.extents,
            expected=expected,
            remedy=remedy,
        )
    data = input.transpose(0, 1) if batch_first else input
    if lengths.extents != data.extents[1:2] or not lengths.dtype.is_int:
        raise fail(
            ShapeMismatch,
            op="pack_padded_sequence",
            lhs=input.extents,
            rhs=lengths.extents,
            rule=f"lengths are of {lengths.dtype}, and must be one integer for each of the {data.extents[1]} sequences",
            remedy="Pass lengths of shape (batch,); batch_first says which axis is the batch.",
        )
    return PackedSequence(data, lengths)


def pad_packed_sequence(
    sequence: PackedSequence,
    batch_first: bool = False,
    padding_value: Scalar = 0.0,
    total_length: Extent | None = None,
) -> tuple[Tensor, Tensor]:
    """((time, batch, ...) with `padding_value` after the end of each sequence, their lengths).

    The time is that of what was packed, and not the greatest length as in PyTorch: `total_length` is that or None.
    """
    data, lengths = sequence
    if total_length is not None and ix(total_length) != data.extents[0]:
        expected = f"{data.extents[0]}, the time that was packed, and slice or pad the result"
        raise fail(
            BadArgument,
            op="pad_packed_sequence",
            name="total_length",
            value=total_length,
            expected=expected,
        )
    present = sequence.present()
    kept = present.reshape(*present.shape, *(1 for _ in data.shape[2:]))
    out = functions.where(kept, data, padding_value)
    return (out.transpose(0, 1) if batch_first else out), lengths

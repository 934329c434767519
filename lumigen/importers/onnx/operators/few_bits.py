"""few_bits: products with matrices of a few bits, in blocks along their rows.

ONNX has neighbours of a row in one byte. Numbers that are known are arranged in planes of bits, as weights of other
files are (`weights.formats`), whose bytes vectors take apart.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from lumigen.dtype import f32
from lumigen.frontend import Tensor, functions
from lumigen.frontend.formulas import TRACED
from lumigen.importers.onnx.node import OnnxNode
from lumigen.importers.onnx.operators import quantised
from lumigen.importers.onnx.values import Array, Known
from lumigen.weights.formats import Blocks, Plane, planes_of

SIGN = 128  # what integers of 8 bits with a sign are less than those without


class InBlocks(NamedTuple):
    """A matrix of so many bits in blocks: its rows, and how long they and their blocks are."""

    width: int
    depth: int
    bits: int
    block: int

    @property
    def blocks(self) -> int:
        return -(-self.depth // self.block)


def matmul_nbits(n: OnnxNode) -> Tensor:
    """A product with a matrix of 2, 4 or 8 bits in blocks along its rows, each with a scale and a zero point."""
    x, of = n.tensor(0), _sizes(n)
    bits, zeros = n.given(1), n.given(3) if n.has(3) else None
    scales = quantised.scales(n, 2).to(f32).reshape(of.width, of.blocks)
    if isinstance(bits, Known) and (zeros is None or isinstance(zeros, Known)):
        weight = _in_planes(n, of, bits, scales, zeros)
    else:
        weight = _as_given(n, of, scales)
    weight = weight.reshape(of.width, of.blocks * of.block).narrow(1, 0, of.depth).to(x.dtype)
    out = x @ weight.t()
    return out + n.tensor(5) if n.has(5) else out


def _sizes(n: OnnxNode) -> InBlocks:
    """Those of a node whose operands have them; UnsupportedNode of others."""
    depth, width = int(n.attr("K")), int(n.attr("N"))
    bits, block = int(n.attr("bits", 4)), int(n.attr("block_size"))
    if bits not in (2, 4, 8) or n.has(4):
        raise n.unsupported(
            f"it has {bits} bits, or an order of its groups", "Export it with 2, 4 or 8 bits."
        )
    if min(depth, width, block) < 1 or block * bits % 8:
        why = f"blocks of {block} of K {depth} and N {width} in {bits} bits are not of whole bytes"
        raise n.unsupported(why, "Export it again.")
    of = InBlocks(width, depth, bits, block)
    each = {1: of.blocks * (block * bits // 8), 2: of.blocks}  # of a column
    if n.has(3):
        each[3] = of.blocks if n.tensor(3).dtype.is_float else -(-of.blocks * bits // 8)
    for i, wanted in each.items():
        if n.given_size(i) != width * wanted:
            why = f"input {i + 1} has {n.given_size(i)} elements, of {width} x {depth} in blocks of {block}"
            raise n.unsupported(f"{why} it must have {width * wanted}", "Export it again.")
    return of


def _in_planes(
    n: OnnxNode, of: InBlocks, bits: Known, scales: Tensor, zeros: Known | None
) -> Tensor:
    """The matrix of known numbers, (width, blocks, ...)."""
    integers = _apart(bits.array.reshape(-1, of.block * of.bits // 8), of.bits)
    planes, less = planes_of(of.bits, of.block), 0
    if of.bits == 8:  # products of integers take those with a sign
        planes, less = (Plane(8, of.block, is_signed=True),), SIGN
        integers = (integers ^ SIGN).view(np.int8)
    zero, dtype, fields = 2 ** (of.bits - 1) - less, None, {"scales": scales}
    if zeros is not None:
        each = zeros.array.reshape(of.width, -1)
        if each.dtype.kind in "ui":
            each, zero = _apart(each, of.bits)[:, : of.blocks], 0
            each = (each ^ SIGN).view(np.int8) if less else each
        else:
            zero = -less
        fields["zeros"] = n.around.tensor(Known(np.array(each), f"{zeros.name}.apart"))
        dtype = fields["zeros"].dtype
    blocks = Blocks(of.block, planes, zero, scale=f32, zeros=dtype)
    (quants,) = blocks.planed(integers).values()
    known = Known(quants.reshape(of.width, of.blocks, -1), f"{bits.name}.quants")
    return blocks.values(fields | {"quants": n.around.tensor(known)}, TRACED)


def _apart(packed: Array, bits: int) -> Array:
    """Rows of numbers of a few bits, the lowest of each byte first."""
    parts = [packed >> shift & 2**bits - 1 for shift in range(0, 8, bits)]
    return np.stack(parts, -1).reshape(len(packed), -1)


def _as_given(n: OnnxNode, of: InBlocks, scales: Tensor) -> Tensor:
    """The matrix of numbers that a run knows."""
    numbers = _unpacked(n.tensor(1).reshape(of.width, of.blocks, -1), of.bits).to(f32)
    if not n.has(3):
        return (numbers - 2 ** (of.bits - 1)) * scales.unsqueeze(-1)
    given = n.tensor(3)
    zero = given.reshape(of.width, -1)
    zero = zero if given.dtype.is_float else _unpacked(zero, of.bits).narrow(1, 0, of.blocks)
    return (numbers - zero.to(f32).unsqueeze(-1)) * scales.unsqueeze(-1)


def _unpacked(x: Tensor, bits: int) -> Tensor:
    """Numbers of a few bits, the lowest of each byte first."""
    parts = [x // 2**shift % 2**bits for shift in range(0, 8, bits)]
    return x if bits == 8 else functions.stack(parts, -1).flatten(-2)

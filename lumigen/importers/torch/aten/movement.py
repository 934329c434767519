# pyright: reportUnknownLambdaType=false, reportUnknownMemberType=false
# pyright: reportUnknownArgumentType=false, reportUnknownVariableType=false
"""movement: the ops of ATen that arrange, join, make and look up elements, as calls of the frontend."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from lumigen.dtype import DType, f32, i64
from lumigen.errors import BadArgument
from lumigen.frontend import functional, functions
from lumigen.frontend.symbolic import Size
from lumigen.frontend.tensor import Tensor
from lumigen.frontend.trace import fail
from lumigen.importers.torch.aten.row import Row, Table, same

OF_TORCH = """
as_strided cat chunk column_stack diag diag_embed diagonal diagonal_scatter flatten flip
full full_like gather hstack index_add index_copy index_fill index_reduce index_select
kron masked_scatter meshgrid movedim narrow nonzero_static ones ones_like permute put roll rot90
scalar_tensor scatter scatter_add scatter_reduce select select_scatter split squeeze stack t
take take_along_dim transpose tril triu unbind unflatten unsqueeze vstack zeros zeros_like
"""
OF_TENSOR = "expand expand_as new_full new_ones new_zeros repeat reshape tile unfold"
OF_FUNCTIONAL = "channel_shuffle one_hot pixel_shuffle pixel_unshuffle"

Extent = Size | None


def arange(start: Any, end: Any, step: Any = 1, *, dtype: DType | None = None) -> Tensor:
    """start, start + step, ... before the end."""
    return functions.arange(start, end, step, dtype)


def sliced(
    input: Tensor, dim: int = 0, start: Extent = None, end: Extent = None, step: int = 1
) -> Tensor:
    """Elements `start`, `start + step`, ... before `end` of an axis."""
    return input[(slice(None),) * (dim % input.ndim) + (slice(start, end, step),)]


def slice_scatter(
    input: Tensor,
    src: Tensor,
    dim: int = 0,
    start: Any = None,
    end: Any = None,
    step: int = 1,
) -> Tensor:
    """`input` with `src` at a slice of an axis; nothing is left of it where that is the whole axis."""
    whole = sliced(input, dim, start, end, step).edge == input.edge
    if whole:
        return src.to(input.dtype)
    return functions.slice_scatter(input, src, dim, start, end, step)


def indexed(input: Tensor, indices: Sequence[Tensor | None]) -> Tensor:
    """x[i, :, j]: None is an axis as it is."""
    return input[tuple(slice(None) if i is None else i for i in indices)]


def index_put(
    input: Tensor, indices: Sequence[Tensor | None], values: Tensor, accumulate: bool = False
) -> Tensor:
    """`input` with values where x[i, :, j] reads; the axes that are written come first in between."""
    given = [i for i in indices if i is not None]
    if len(given) == len(indices):
        return functions.index_put(input, given, values, accumulate)
    if given[0].dtype.is_bool:
        return masked_put(input, given[0], len(indices) - 1, values, accumulate)
    named = [d for d, i in enumerate(indices) if i is not None]
    order = [*named, *(d for d in range(input.ndim) if d not in named)]
    moved = input.permute(order)
    if named[-1] - named[0] == len(named) - 1:  # values have the axes of the indices in their place
        width, before = max(i.ndim for i in given), named[0]
        rank = width + input.ndim - len(named)
        wide = values.reshape([1] * (rank - values.ndim) + [*values.shape])
        written = range(before, before + width)
        values = wide.permute([*written, *(d for d in range(rank) if d not in written)])
    done = functions.index_put(moved, given, values, accumulate)
    return done.permute([order.index(d) for d in range(input.ndim)])


def masked_put(
    input: Tensor, mask: Tensor, before: int, values: Tensor, accumulate: bool
) -> Tensor:
    """`input` with a value where a mask of the axes after some holds."""
    after = input.ndim - before - mask.ndim
    if values.ndim > after:
        expected = "one value, as how many places a mask chooses is known only when the model runs"
        value = f"of shape ({', '.join(map(str, values.shape))})"
        raise fail(BadArgument, op="index_put", name="values", value=value, expected=expected)
    wide = mask.reshape([*mask.shape, *(1,) * after])
    given = values.to(input.dtype)
    return functions.where(wide, input + given if accumulate else given, input)


def padded(input: Tensor, pad: Sequence[Size], value: Any = 0) -> Tensor:
    """A constant around the last axes."""
    return functional.pad(input, pad, "constant", value)


def padded_by(mode: str) -> Row:
    """Padding by what the axes themselves hold."""
    return lambda input, pad: functional.pad(input, pad, mode)


def made(value: int) -> Row:
    """A number everywhere in a shape; what PyTorch leaves undefined is 0."""
    return lambda size, dtype=None: functions.full(size, value, dtype or f32)


def like(value: int) -> Row:
    """Likewise in the shape of a tensor."""
    return lambda input, dtype=None: functions.full_like(input, value, dtype=dtype or input.dtype)


def repeat_interleave(input: Tensor, repeats: Size, dim: int | None = None, **_: Any) -> Tensor:
    """Each element so many times in a row; ATen knows the length of the result beforehand."""
    return input.repeat_interleave(repeats, dim)


ROWS: Table = {
    **same(functions, OF_TORCH),
    **same(Tensor, OF_TENSOR),
    **same(functional, OF_FUNCTIONAL),
    "arange.default": lambda end, dtype=None: functions.arange(end, dtype=dtype),
    "arange.start": arange,
    "arange.start_step": arange,
    "block_diag": lambda tensors: functions.block_diag(*tensors),
    "broadcast_tensors": lambda tensors: functions.broadcast_tensors(*tensors),
    "concat": functions.cat,
    "constant_pad_nd": padded,
    "empty": made(0),
    "empty_strided": lambda size, stride, dtype=None: functions.full(size, 0, dtype or f32),
    "empty_like": like(0),
    "eye.default": lambda n, dtype=None: functions.eye(n, dtype=dtype or f32),
    "eye.m": lambda n, m, dtype=None: functions.eye(n, m, dtype=dtype or f32),
    "expand": lambda input, size, implicit=False: input.expand(size),
    "full_like": functions.full_like,
    "index.Tensor": indexed,
    "_unsafe_index.Tensor": indexed,
    "index_put": index_put,
    "_unsafe_index_put": index_put,
    "linspace": lambda start, end, steps, dtype=None: functions.linspace(
        start, end, steps, dtype=dtype or f32
    ),
    "new_empty": lambda input, size, dtype=None: input.new_zeros(size, dtype=dtype),
    "new_empty_strided": lambda input, size, stride, dtype=None: input.new_zeros(size, dtype=dtype),
    "numpy_T": lambda input: input.T,
    "ones": made(1),
    "ones_like": like(1),
    "pad": functional.pad,
    "reflection_pad1d": padded_by("reflect"),
    "reflection_pad2d": padded_by("reflect"),
    "reflection_pad3d": padded_by("reflect"),
    "repeat_interleave.self_int": repeat_interleave,
    "replication_pad1d": padded_by("replicate"),
    "replication_pad2d": padded_by("replicate"),
    "replication_pad3d": padded_by("replicate"),
    "scalar_tensor": lambda s, dtype=None: functions.scalar_tensor(s, dtype=dtype or f32),
    "slice": sliced,
    "slice_scatter": slice_scatter,
    "split_with_sizes": Tensor.split,
    "unsafe_chunk": Tensor.chunk,
    "unsafe_split": Tensor.split,
    "unsafe_split_with_sizes": Tensor.split,
    "swapaxes": Tensor.transpose,
    "swapdims": Tensor.transpose,
    "sym_numel": Tensor.numel,
    "sym_size": lambda input, dim: input.shape[dim],
    "tril_indices": lambda row, col, offset=0, dtype=None: functions.tril_indices(
        row, col, offset, dtype=dtype or i64
    ),
    "triu_indices": lambda row, col, offset=0, dtype=None: functions.triu_indices(
        row, col, offset, dtype=dtype or i64
    ),
    "view.default": Tensor.reshape,
    "_reshape_alias": lambda input, size, stride: input.reshape(size),
    "_unsafe_view": Tensor.reshape,
    "view_as": Tensor.reshape_as,
    "reshape_as": Tensor.reshape_as,
    "zeros": made(0),
    "zeros_like": like(0),
    "zero": like(0),
}
# Of a value the copy of a view is the view.
COPIES = """
as_strided diagonal expand narrow permute select slice split split_with_sizes squeeze t transpose unbind
unfold unsqueeze view
"""
MOVEMENT: Table = {
    **ROWS,
    **{f"{name}_copy": row for name, row in ROWS.items() if name in COPIES.split()},
    "view_copy.default": Tensor.reshape,
}

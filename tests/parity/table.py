"""How our frontend is called for entries of torch's list that are not called by their names."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import lumigen as lg
from lumigen.dtype import DType
from lumigen.frontend import Tensor

GRID_MODES = ("bilinear", "nearest", "bicubic")
GRID_PADDINGS = ("zeros", "border", "reflection")


def drawing(function: Callable[..., Any], **defaults: Any) -> Callable[..., Any]:
    """The function with a generator, and with defaults that are PyTorch's."""
    return lambda *args, **named: function(
        *args, **{**defaults, **named}, generator=lg.Generator(3)
    )


CALLS: dict[str, Callable[..., Any]] = {
    "T": lambda x: x.T,
    "H": lambda x: x.T,
    "mT": lambda x: x.mT,
    "mH": lambda x: x.mT,
    "__getitem__": lambda x, key: x[key],
    "__radd__": lambda x, y: y + x,
    "__rmul__": lambda x, y: y * x,
    "__rsub__": lambda x, y: y - x,
    "__rdiv__": lambda x, y: y / x,
    "__rmod__": lambda x, y: y % x,
    "__rpow__": lambda x, y: y**x,
    "__rmatmul__": lambda x, y: y @ x,
    "__rand__": lambda x, y: y & x,
    "__ror__": lambda x, y: y | x,
    "__rxor__": lambda x, y: y ^ x,
    "to": lambda x, *args, **_: x.to(next(a for a in args if isinstance(a, DType | Tensor))),
    # a tensor is a value: a copy of a view is the view
    "alias_copy": Tensor.clone,
    "as_strided_copy": Tensor.as_strided,
    "diagonal_copy": Tensor.diagonal,
    "expand_copy": Tensor.expand,
    "narrow_copy": Tensor.narrow,
    "permute_copy": Tensor.permute,
    "split_with_sizes_copy": Tensor.split_with_sizes,
    "squeeze_copy": Tensor.squeeze,
    "t_copy": Tensor.t,
    "transpose_copy": Tensor.transpose,
    "unbind_copy": Tensor.unbind,
    "unfold_copy": Tensor.unfold,
    "unsqueeze_copy": Tensor.unsqueeze,
    "view_copy": Tensor.view,
    "unsafe_chunk": Tensor.chunk,
    "unsafe_split": Tensor.split,
    # of real numbers these are the identity
    "conj": lambda x: x,
    "conj_physical": lambda x: x,
    "real": lambda x: x,
    "resolve_conj": lambda x: x,
    "resolve_neg": lambda x: x,
    # in place, written as the value that is there afterwards
    "fill": lambda x, value: lg.full_like(x, value),
    "zero_": lg.zeros_like,
    "slice": lambda x, dim=0, start=None, end=None, step=1: x[
        (slice(None),) * dim + (slice(start, end, step),)
    ],
    "constant_pad_nd": lambda x, widths, value=0: lg.functional.pad(x, widths, value=value),
    "grid_sampler_2d": lambda x, grid, mode, padding, corners: lg.functional.grid_sample(
        x, grid, GRID_MODES[mode], GRID_PADDINGS[padding], corners
    ),
    "grid_sampler_3d": lambda x, grid, mode, padding, corners: lg.functional.grid_sample(
        x, grid, GRID_MODES[mode], GRID_PADDINGS[padding], corners
    ),
    "mvlgamma": lambda x, p: x.mvlgamma(p),
    "polygamma": lambda x, n: lg.polygamma(n, x),
    "special.polygamma": lambda x, n: lg.special.polygamma(n, x),
    "view": Tensor.view,
    "flip": lambda x, dims: x.flip(dims),
    "nn.functional.max_pool1d": lg.functional.max_pool1d,
    "broadcast_shapes": lambda *shapes: tuple(e.const for e in lg.broadcast_shapes(*shapes)),
    "einsum": lambda tensors, equation: lg.einsum(equation, *tensors),
    "bernoulli": drawing(lg.bernoulli),
    "cauchy": drawing(lg.random.cauchy),
    "exponential": drawing(lg.random.exponential),
    "geometric": drawing(lg.random.geometric),
    "log_normal": drawing(lg.random.log_normal),
    "multinomial": drawing(lg.multinomial),
    "normal": drawing(lg.normal),
    "normal|in_place": drawing(
        lambda x, mean, std, generator: lg.normal(
            mean, std, x.shape, generator=generator, dtype=x.dtype
        )
    ),
    "rand_like": drawing(lg.rand_like),
    "randint": drawing(lg.randint),
    "randint_like": drawing(lg.randint_like),
    "randn": drawing(lg.randn),
    "randn_like": drawing(lg.randn_like),
    "uniform": drawing(lg.random.uniform),
    "nn.functional.alpha_dropout": drawing(lg.functional.alpha_dropout, training=True),
    "nn.functional.dropout": drawing(lg.functional.dropout, training=True),
    "nn.functional.dropout2d": drawing(lg.functional.dropout2d, training=True),
    "nn.functional.dropout3d": drawing(lg.functional.dropout3d, training=True),
    "nn.functional.feature_alpha_dropout|with_train": drawing(
        lg.functional.feature_alpha_dropout, training=True
    ),
    "nn.functional.rrelu": drawing(lg.functional.rrelu),
    "where": lambda x, condition, other: lg.where(condition, x, other),
    "nn.functional.embedding": lambda w, ids, **k: lg.functional.embedding(ids, w, **k),
    "nn.functional.embedding_bag": lambda w, ids, **k: lg.functional.embedding_bag(ids, w, **k),
}

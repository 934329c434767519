"""Modules with parameters, named as PyTorch names them, so that a checkpoint fits.

A parameter is a weight without a value: a shape and a dtype. It gets its name, the path of
attributes to it, when a model that holds its module is traced; values come from a weights file when
the built model runs.
"""

# ruff: noqa: FBT002  # signatures are PyTorch's

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias, cast

from lumigen import graph
from lumigen.dtype import DType, f32
from lumigen.errors import BadArgument
from lumigen.frontend import functional as fn
from lumigen.frontend.functional import Pair, pair
from lumigen.frontend.offered import lacks, offered
from lumigen.frontend.state import State as State
from lumigen.frontend.tensor import Tensor
from lumigen.frontend.trace import current, emit, fail
from lumigen.index import ix
from lumigen.ops import Op
from lumigen.view import Shape

Part: TypeAlias = "Parameter | Module"


class Parameter(Tensor):
    """A weight of fixed shape; a `name` of its own overrides its place in a module."""

    __slots__ = ("_dtype", "_extents", "name")

    def __init__(self, *shape: Any, dtype: DType = f32, name: str | None = None) -> None:
        if not all(isinstance(e, int) and e > 0 for e in shape):
            raise fail(
                BadArgument,
                op="Parameter",
                name="the shape",
                value=shape,
                expected="positive integers",
            )
        self._extents: Shape = tuple(ix(e) for e in shape)
        self._dtype = dtype
        self.name = name

    @property
    def edge(self) -> graph.Edge:
        """The weight in the graph that is traced; BadArgument before it has a name."""
        scope = current()
        name = self.name or (scope.name_of(self) if scope else None)
        if name is None:
            raise fail(
                BadArgument,
                op="Parameter",
                name=f"a parameter of shape {tuple(self.shape)}",
                value="used before it has a name",
                expected="its module to lg.Model(name, net), and use it in an entry",
            )
        return emit(graph.source(Op.WEIGHT, name, self._extents, self._dtype))

    @property
    def extents(self) -> Shape:
        """The shape as index expressions."""
        return self._extents

    @property
    def dtype(self) -> DType:
        """The dtype that the weights file must have."""
        return self._dtype

    def declare(self, dtype: DType) -> None:
        """Change the dtype that the weights file must have."""
        self._dtype = dtype

    def __repr__(self) -> str:
        return f"Parameter({self.dtype}[{', '.join(map(str, self.extents))}])"


class Module:
    """What has parameters, found in its attributes, lists and dicts included, and a `forward`."""

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.forward(*args, **kwargs)

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """What the module computes; a subclass says it."""
        raise NotImplementedError(f"{type(self).__name__} has no forward()")

    def named_parts(self) -> Iterator[tuple[str, Part]]:
        """The parameters and modules directly inside, by name."""
        for name, value in vars(self).items():
            yield from _parts(name, value)

    def named_parameters(self, prefix: str = "") -> Iterator[tuple[str, Parameter]]:
        """Every parameter under its path; a shared one under each of its paths."""
        for name, part in self.named_parts():
            if isinstance(part, Parameter):
                yield prefix + name, part
            else:
                yield from part.named_parameters(f"{prefix}{name}.")

    def parameters(self) -> Iterator[Parameter]:
        """Every parameter once."""
        yield from dict.fromkeys(p for _, p in self.named_parameters())

    def state_dict(self) -> dict[str, Parameter]:
        """Parameters by path: PyTorch's names, less `num_batches_tracked` of training."""
        return dict(self.named_parameters())

    def children(self) -> Iterator[Module]:
        """The modules directly inside."""
        yield from (part for _, part in self.named_parts() if isinstance(part, Module))

    def modules(self) -> Iterator[Module]:
        """This module and all inside it."""
        yield self
        for child in self.children():
            yield from child.modules()

    def to(self, dtype: DType) -> Module:
        """Declare all floating parameters in `dtype`."""
        for p in self.parameters():
            if p.dtype.is_float:
                p.declare(dtype)
        return self

    def eval(self) -> Module:
        """The module itself: it is always in inference."""
        return self


def _parts(name: str, value: Any) -> Iterator[tuple[str, Part]]:
    if isinstance(value, Parameter | Module):
        yield name, value
    elif isinstance(value, list | tuple):
        for i, item in enumerate(cast("list[Any]", value)):
            yield from _parts(f"{name}.{i}", item)
    elif isinstance(value, dict):
        for key, item in cast("dict[Any, Any]", value).items():
            yield from _parts(f"{name}.{key}", item)


# --- containers -----------------------------------------------------------------------------------


class ModuleList(Module):
    """Modules under the names 0, 1, ..."""

    def __init__(self, modules: Iterable[Module] = ()) -> None:
        self._modules = list(modules)

    def named_parts(self) -> Iterator[tuple[str, Part]]:
        yield from ((str(i), m) for i, m in enumerate(self._modules))

    def append(self, module: Module) -> ModuleList:
        """Add a module at the end."""
        self._modules.append(module)
        return self

    def __iter__(self) -> Iterator[Any]:
        return iter(self._modules)

    def __len__(self) -> int:
        return len(self._modules)

    def __getitem__(self, i: int) -> Any:
        return self._modules[i]


class ModuleDict(Module):
    """Modules under names of their own."""

    def __init__(self, modules: Mapping[str, Module] | None = None) -> None:
        self._modules = dict(modules or {})

    def named_parts(self) -> Iterator[tuple[str, Part]]:
        yield from self._modules.items()

    def __getitem__(self, name: str) -> Any:
        return self._modules[name]

    def __setitem__(self, name: str, module: Module) -> None:
        self._modules[name] = module

    def __iter__(self) -> Iterator[str]:
        return iter(self._modules)

    def __len__(self) -> int:
        return len(self._modules)

    def items(self) -> Iterator[tuple[str, Any]]:
        """Names and modules, in order."""
        yield from self._modules.items()


class Sequential(ModuleList):
    """One module after the other."""

    def __init__(self, *modules: Module) -> None:
        super().__init__(modules)

    def forward(self, x: Any) -> Any:
        for module in self._modules:
            x = module(x)
        return x


# --- layers with parameters -----------------------------------------------------------------------


class Linear(Module):
    """(.., in) -> (.., out): x @ weight.T + bias, weight (out, in)."""

    def __init__(
        self, in_features: int, out_features: int, bias: bool = True, dtype: DType = f32
    ) -> None:
        self.weight = Parameter(out_features, in_features, dtype=dtype)
        self.bias = Parameter(out_features, dtype=dtype) if bias else None

    def forward(self, x: Tensor) -> Tensor:
        return fn.linear(x, self.weight, self.bias)


class Embedding(Module):
    """Ids (..) of integers -> (.., features): rows of weight (ids, features)."""

    def __init__(self, num_embeddings: int, embedding_dim: int, dtype: DType = f32) -> None:
        self.weight = Parameter(num_embeddings, embedding_dim, dtype=dtype)

    def forward(self, ids: Tensor) -> Tensor:
        return fn.embedding(ids, self.weight)


class Conv2d(Module):
    """(batch, in, height, width) -> (batch, out, height', width'), weight (out, in / groups, r, s)."""

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: Pair,
        stride: Pair = 1,
        padding: Pair | str = 0,
        dilation: Pair = 1,
        groups: int = 1,
        bias: bool = True,
        dtype: DType = f32,
    ) -> None:
        self.stride, self.padding, self.dilation, self.groups = stride, padding, dilation, groups
        r, s = pair(kernel_size)
        self.weight = Parameter(out_channels, in_channels // groups, r, s, dtype=dtype)
        self.bias = Parameter(out_channels, dtype=dtype) if bias else None

    def forward(self, x: Tensor) -> Tensor:
        return fn.conv2d(
            x, self.weight, self.bias, self.stride, self.padding, self.dilation, self.groups
        )


class LayerNorm(Module):
    """(.., *normalized_shape) -> the same: (x - mean) * rsqrt(var + eps) * weight + bias over those."""

    def __init__(
        self,
        normalized_shape: int | Sequence[int],
        eps: float = 1e-5,
        elementwise_affine: bool = True,
        bias: bool = True,
        dtype: DType = f32,
    ) -> None:
        shape = (
            (normalized_shape,) if isinstance(normalized_shape, int) else tuple(normalized_shape)
        )
        self.normalized_shape, self.eps = shape, eps
        self.weight = Parameter(*shape, dtype=dtype) if elementwise_affine else None
        self.bias = Parameter(*shape, dtype=dtype) if elementwise_affine and bias else None

    def forward(self, x: Tensor) -> Tensor:
        return fn.layer_norm(x, self.normalized_shape, self.weight, self.bias, self.eps)


class RMSNorm(Module):
    """(.., *normalized_shape) -> the same: x * rsqrt(mean(x^2) + eps) * weight over those."""

    def __init__(
        self,
        normalized_shape: int | Sequence[int],
        eps: float | None = None,
        elementwise_affine: bool = True,
        dtype: DType = f32,
    ) -> None:
        shape = (
            (normalized_shape,) if isinstance(normalized_shape, int) else tuple(normalized_shape)
        )
        self.normalized_shape, self.eps = shape, eps
        self.weight = Parameter(*shape, dtype=dtype) if elementwise_affine else None

    def forward(self, x: Tensor) -> Tensor:
        return fn.rms_norm(x, self.normalized_shape, self.weight, self.eps)


class BatchNorm2d(Module):
    """(batch, channel, height, width) -> the same, with the statistics of training."""

    def __init__(
        self, num_features: int, eps: float = 1e-5, affine: bool = True, dtype: DType = f32
    ) -> None:
        self.eps = eps
        self.weight = Parameter(num_features, dtype=dtype) if affine else None
        self.bias = Parameter(num_features, dtype=dtype) if affine else None
        self.running_mean = Parameter(num_features, dtype=dtype)
        self.running_var = Parameter(num_features, dtype=dtype)

    def forward(self, x: Tensor) -> Tensor:
        return fn.batch_norm(
            x, self.running_mean, self.running_var, self.weight, self.bias, eps=self.eps
        )


class GroupNorm(Module):
    """(batch, channel, ..) -> the same: layer norm over each group of channels."""

    def __init__(
        self,
        num_groups: int,
        num_channels: int,
        eps: float = 1e-5,
        affine: bool = True,
        dtype: DType = f32,
    ) -> None:
        self.num_groups, self.eps = num_groups, eps
        self.weight = Parameter(num_channels, dtype=dtype) if affine else None
        self.bias = Parameter(num_channels, dtype=dtype) if affine else None

    def forward(self, x: Tensor) -> Tensor:
        return fn.group_norm(x, self.num_groups, self.weight, self.bias, self.eps)


# --- layers without parameters --------------------------------------------------------------------


class Identity(Module):
    """The input."""

    def forward(self, x: Tensor) -> Tensor:
        return x


class Dropout(Module):
    """The identity: a model is compiled for inference."""

    def __init__(self, p: float = 0.5) -> None:
        self.p = p

    def forward(self, x: Tensor) -> Tensor:
        return x


class ReLU(Module):
    """max(x, 0) of any shape."""

    def forward(self, x: Tensor) -> Tensor:
        return x.relu()


class GELU(Module):
    """x times the normal distribution function of x; `tanh` is its approximation."""

    def __init__(self, approximate: str = "none") -> None:
        self.approximate = approximate

    def forward(self, x: Tensor) -> Tensor:
        return fn.gelu(x, self.approximate)


class SiLU(Module):
    """x * sigmoid(x) of any shape."""

    def forward(self, x: Tensor) -> Tensor:
        return fn.silu(x)


class Tanh(Module):
    """The hyperbolic tangent, of any shape."""

    def forward(self, x: Tensor) -> Tensor:
        return x.tanh()


class Sigmoid(Module):
    """1 / (1 + exp(-x)) of any shape."""

    def forward(self, x: Tensor) -> Tensor:
        return x.sigmoid()


class Softmax(Module):
    """exp(x - max) / sum(exp(x - max)) along `dim`."""

    def __init__(self, dim: int) -> None:
        self.dim = dim

    def forward(self, x: Tensor) -> Tensor:
        return x.softmax(self.dim)


class Flatten(Module):
    """One dimension for those from `start_dim` to `end_dim`."""

    def __init__(self, start_dim: int = 1, end_dim: int = -1) -> None:
        self.start_dim, self.end_dim = start_dim, end_dim

    def forward(self, x: Tensor) -> Tensor:
        return x.flatten(self.start_dim, self.end_dim)


class MaxPool2d(Module):
    """(.., height, width) -> (.., height', width'): the greatest of each window."""

    def __init__(
        self, kernel_size: Pair, stride: Pair | None = None, padding: Pair = 0, dilation: Pair = 1
    ) -> None:
        self.kernel_size, self.stride = kernel_size, stride
        self.padding, self.dilation = padding, dilation

    def forward(self, x: Tensor) -> Tensor:
        return fn.max_pool2d(x, self.kernel_size, self.stride, self.padding, self.dilation)


class AvgPool2d(Module):
    """(.., height, width) -> (.., height', width'): the mean of each window."""

    def __init__(
        self,
        kernel_size: Pair,
        stride: Pair | None = None,
        padding: Pair = 0,
        count_include_pad: bool = True,
    ) -> None:
        self.kernel_size, self.stride = kernel_size, stride
        self.padding, self.count_include_pad = padding, count_include_pad

    def forward(self, x: Tensor) -> Tensor:
        return fn.avg_pool2d(
            x,
            self.kernel_size,
            self.stride,
            self.padding,
            count_include_pad=self.count_include_pad,
        )


def __getattr__(name: str) -> object:
    raise lacks(name, __dir__(), __name__)


def __dir__() -> list[str]:
    return sorted([*offered(globals(), __name__), State.__name__])

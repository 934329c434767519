"""Modules with parameters: where weights are found, what they are called, what a checkpoint must hold."""

# ruff: noqa: FBT002  # signatures are PyTorch's

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, Self, TypeAlias, cast

import numpy as np

from lumigen import graph
from lumigen.dtype import DType, bf16, f16, f32, f64, of_numpy
from lumigen.errors import BadArgument, StateMismatch
from lumigen.frontend.extents import of_quotient
from lumigen.frontend.misuse import told
from lumigen.frontend.offered import ELSEWHERE, lacks_method
from lumigen.frontend.primitive import check_dtype
from lumigen.frontend.tensor import Tensor
from lumigen.frontend.trace import current, emit, fail, name_results, running
from lumigen.index import ix
from lumigen.ops import Op
from lumigen.view import Shape
from lumigen.weights import Array, Weights, as_array, check_named, named_array

Part: TypeAlias = "Parameter | Module"


class Parameter(Tensor):
    """A weight of fixed shape; a `name` of its own overrides its place in a module.

    Instead of a shape it takes an array, numpy's or torch's, whose shape, dtype and `value` it has then, as it has a
    value after `load_state_dict`; else values come from a weights file.
    """

    __slots__ = ("_dtype", "_extents", "name", "value")

    def __init__(self, *shape: Any, dtype: DType | None = None, name: str | None = None) -> None:
        if len(shape) == 1 and isinstance(shape[0], Tensor):
            given = ", ".join(map(str, shape[0].extents))
            expected = f"its shape, Parameter({given}), or numbers: an array of numpy's or torch's"
            value = f"a tensor of shape ({given}), which has no numbers while a model is traced"
            raise fail(
                BadArgument, op="Parameter", name="the shape", value=value, expected=expected
            )
        value = as_array(shape[0]) if len(shape) == 1 and _is_array(shape[0]) else None
        declared = f32 if value is None else of_numpy(value.dtype)
        self.value: Array | None = None
        self.name = name
        if value is not None:
            shape = value.shape
        if not all(isinstance(e, int) and e > 0 for e in shape):
            expected = f"positive integers, or an array alone{of_quotient(shape)}"
            raise fail(
                BadArgument, op="Parameter", name="the shape", value=shape, expected=expected
            )
        if dtype is not None:
            declared = dtype
        if declared is None:
            declared = cast("DType", value.dtype if value is not None else dtype)
        check_dtype("Parameter", declared)
        self._extents: Shape = tuple(ix(e) for e in shape)
        self._dtype = declared
        if value is not None:
            self.value = value.astype(declared.numpy, copy=False)

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
        """Change the dtype that the weights file must have; a value is converted."""
        check_dtype("to", dtype)
        self._dtype = dtype
        if self.value is not None:
            self.value = self.value.astype(dtype.numpy)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.dtype}[{', '.join(map(str, self.extents))}])"

    def __deepcopy__(self, memo: dict[int, Any]) -> Parameter:
        copied = type(self)(*(e.const for e in self._extents), dtype=self._dtype, name=self.name)
        copied.value = self.value
        memo[id(self)] = copied
        return copied


class Buffer(Parameter):
    """A weight that training keeps but does not learn, such as a running mean.

    One that is not `persistent` is in no state_dict: its value is the model's own, whatever file the weights are of.
    """

    __slots__ = ("persistent",)

    def __init__(
        self,
        *shape: Any,
        dtype: DType | None = None,
        name: str | None = None,
        persistent: bool = True,
    ) -> None:
        super().__init__(*shape, dtype=dtype, name=name)
        self.persistent = persistent

    def __deepcopy__(self, memo: dict[int, Any]) -> Parameter:
        copied = cast("Buffer", super().__deepcopy__(memo))
        copied.persistent = self.persistent
        return copied


class IncompatibleKeys(NamedTuple):
    """What `load_state_dict` has not found, and what it has no use for."""

    missing_keys: list[str]
    unexpected_keys: list[str]


class Module:
    """What has parameters, found in its attributes, lists and dicts included, and a `forward`."""

    def __init_subclass__(cls, **named: Any) -> None:
        super().__init_subclass__(**named)
        if "__init__" in vars(cls) and cls.__module__.startswith("lumigen."):
            cls.__init__ = told(cls.__init__)

    if not TYPE_CHECKING:  # which finds attributes by itself

        def __getattr__(self, name: str) -> Any:
            if name in ELSEWHERE:
                raise lacks_method(name, type(self))
            kind = type(self).__name__
            raise AttributeError(f"{kind!r} object has no attribute {name!r}", name=name, obj=self)

    training = False
    # names beside the parameters that a checkpoint may hold, because training needs them
    counted: tuple[str, ...] = ()

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        with running(self):
            made = self.forward(*args, **kwargs)
            name_results(made, (*args, *kwargs.values()))
            return made

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """What the module computes; a subclass says it."""
        raise NotImplementedError(f"{type(self).__name__} has no forward()")

    def named_parts(self) -> Iterator[tuple[str, Part]]:
        """The parameters and modules directly inside, by name."""
        for name, value in vars(self).items():
            yield from _parts(name, value)

    def named_weights(self, prefix: str = "") -> Iterator[tuple[str, Parameter]]:
        """Every parameter and buffer under its path; a shared one under each of its paths."""
        for name, part in self.named_parts():
            if isinstance(part, Parameter):
                yield prefix + name, part
            else:
                yield from part.named_weights(f"{prefix}{name}.")

    def named_parameters(self, prefix: str = "") -> Iterator[tuple[str, Parameter]]:
        """Every parameter under its path, less the buffers; a shared one under each of its paths."""
        yield from ((n, p) for n, p in self.named_weights(prefix) if not isinstance(p, Buffer))

    def named_buffers(self, prefix: str = "") -> Iterator[tuple[str, Buffer]]:
        """Every buffer under its path."""
        yield from ((n, p) for n, p in self.named_weights(prefix) if isinstance(p, Buffer))

    def parameters(self) -> Iterator[Parameter]:
        """Every parameter once, less the buffers."""
        yield from dict.fromkeys(p for _, p in self.named_parameters())

    def buffers(self) -> Iterator[Buffer]:
        """Every buffer once."""
        yield from dict.fromkeys(p for _, p in self.named_buffers())

    def state_dict(self, prefix: str = "") -> dict[str, Parameter]:
        """Parameters and persistent buffers by path: PyTorch's names, less `num_batches_tracked` of training.

        Each has a shape and a dtype; its `value` is what `load_state_dict` gave it, or None.
        """
        named = self.named_weights(prefix)
        return {n: p for n, p in named if not isinstance(p, Buffer) or p.persistent}

    @told
    def load_state_dict(
        self, state_dict: Mapping[str, Any], strict: bool = True, assign: bool = False
    ) -> IncompatibleKeys:
        """Take values from arrays by name: numpy's, torch's, or opened `Weights`.

        A model whose parameters have values compiles without a weights file. Floats are converted to the
        dtype that a parameter declares, integers to its integers; with `assign` the parameter declares
        theirs. StateMismatch where shapes or kinds differ, a number is too great and, if `strict`, where names
        are missing or left over; counters of training (`num_batches_tracked`) may be either. Nothing is taken then.
        """
        refused = partial(fail, BadArgument)
        check_named("load_state_dict", "state_dict", state_dict, refused)
        wanted = self.state_dict()
        counters = {f"{p}.{c}" if p else c for p, m in self.named_modules() for c in m.counted}
        missing = [name for name in wanted if name not in state_dict]
        unexpected = [n for n in state_dict if n not in wanted and n not in counters]
        if isinstance(state_dict, Weights):
            read = {n for name in wanted for n in state_dict.stored_names(name)}
            unexpected = [name for name in unexpected if name not in read]
        given = {
            name: named_array("load_state_dict", name, state_dict[name], refused)
            for name in wanted
            if name in state_dict
        }
        unlike = [
            f"{name} is {_shown(array)}, must be {wanted[name].dtype}{list(wanted[name].shape)}"
            for name, array in given.items()
            if not _fits(array, wanted[name])
        ]
        unlike += [
            f"{name} has {great:.3g}, above the greatest of {wanted[name].dtype}"
            for name, array in given.items()
            if not unlike and (great := _too_great(array, wanted[name].dtype)) is not None
        ]
        if unlike or (strict and (missing or unexpected)):
            remedy = "Pass the state_dict of this module."
            if not unlike:
                remedy = "Pass the state_dict of this module, or strict=False to leave out names."
            raise fail(
                StateMismatch,
                module=type(self).__name__,
                missing=sorted(missing) if strict else [],
                unexpected=sorted(unexpected) if strict else [],
                unlike=unlike,
                remedy=remedy,
            )
        for name, array in given.items():
            ours = of_numpy(array.dtype)
            if assign and ours is not None:
                wanted[name].declare(ours)
            wanted[name].value = array.astype(wanted[name].dtype.numpy, copy=False)
        return IncompatibleKeys(missing, unexpected)

    def named_children(self) -> Iterator[tuple[str, Module]]:
        """The modules directly inside, by name."""
        yield from ((n, part) for n, part in self.named_parts() if isinstance(part, Module))

    def children(self) -> Iterator[Module]:
        """The modules directly inside."""
        yield from (m for _, m in self.named_children())

    def named_modules(self, prefix: str = "") -> Iterator[tuple[str, Module]]:
        """This module under `prefix` and all inside it by their paths, each once."""
        seen: set[int] = set()
        todo: list[tuple[str, Module]] = [(prefix, self)]
        while todo:
            name, module = todo.pop()
            if id(module) in seen:
                continue
            seen.add(id(module))
            yield name, module
            start = f"{name}." if name else ""
            todo += reversed([(start + n, m) for n, m in module.named_children()])

    def modules(self) -> Iterator[Module]:
        """This module and all inside it, each once."""
        yield from (m for _, m in self.named_modules())

    def get_submodule(self, target: str) -> Module:
        """The module at a path; the empty path is this one. AttributeError where there is none."""
        for name, module in self.named_modules():
            if name == target:
                return module
        raise AttributeError(f"{type(self).__name__} has no module {target}")

    def apply(self, fn: Callable[[Module], object]) -> Self:
        """Call `fn` with every module inside, then with this one."""
        for child in self.children():
            child.apply(fn)
        fn(self)
        return self

    def register_module(self, name: str, module: Module | None) -> None:
        """Set an attribute, under any name."""
        vars(self)[name] = module

    add_module = register_module

    def register_parameter(self, name: str, param: Parameter | None) -> None:
        """Set an attribute, under any name; an array becomes a parameter."""
        vars(self)[name] = Parameter(param) if _is_array(param) else param

    def register_buffer(self, name: str, tensor: Buffer | None, persistent: bool = True) -> None:
        """Set an attribute, under any name; an array becomes a buffer.

        One that is not `persistent` is in no state_dict, and no weights file is asked for it: a compilation takes the
        array. A project that opens another file than the one it was compiled with finds it there, or refuses the file.
        """
        held = Buffer(tensor) if _is_array(tensor) else tensor
        if isinstance(
            held, Buffer
        ):  # and no tensor that is computed, which is in no state_dict anyway
            held.persistent = persistent
        vars(self)[name] = held

    def to(self, dtype: DType) -> Self:
        """Declare all floating parameters and buffers in `dtype`."""
        for p in dict.fromkeys(p for _, p in self.named_weights()):
            if p.dtype.is_float:
                p.declare(dtype)
        return self

    def half(self) -> Self:
        """`to(lg.f16)`."""
        return self.to(f16)

    def bfloat16(self) -> Self:
        """`to(lg.bf16)`."""
        return self.to(bf16)

    def float(self) -> Self:
        """`to(lg.f32)`."""
        return self.to(f32)

    def double(self) -> Self:
        """`to(lg.f64)`."""
        return self.to(f64)

    def eval(self) -> Self:
        """The module itself: it is always in inference."""
        return self

    def train(self, mode: bool = True) -> Self:
        """The module itself for `mode=False`; BadArgument for True, as models are compiled for inference."""
        if mode:
            expected = "False: models are compiled for inference"
            raise fail(BadArgument, op="train", name="mode", value=True, expected=expected)
        return self

    def requires_grad_(self, requires_grad: bool = True) -> Self:
        """The module itself: nothing is differentiated."""
        del requires_grad
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


def _is_array(value: Any) -> bool:
    return not isinstance(value, Tensor) and hasattr(value, "shape") and hasattr(value, "dtype")


def _fits(array: Array, parameter: Parameter) -> bool:
    kind = of_numpy(array.dtype)
    return (
        kind is not None
        and kind.kind is parameter.dtype.kind
        and array.shape == tuple(e.const for e in parameter.extents)
    )


def _too_great(array: Array, dtype: DType) -> float | None:
    """The greatest finite number of an array, if a float dtype cannot hold it."""
    ours = of_numpy(array.dtype)
    if ours is None or not dtype.is_float or ours.greatest <= dtype.greatest:
        return None
    great = float(np.max(np.abs(array), where=np.isfinite(array), initial=0))
    return great if great > dtype.greatest else None


def _shown(array: Array) -> str:
    return f"{of_numpy(array.dtype) or array.dtype}{list(array.shape)}"


def spelled(value: object) -> str:
    """The name of a value's type; of PyTorch's modules, whose names are those of ours, also whose it is."""
    kind = type(value)
    is_torch = any(base.__module__.partition(".")[0] == "torch" for base in kind.__mro__)
    return f"{kind.__name__}, a module of torch" if is_torch else kind.__name__

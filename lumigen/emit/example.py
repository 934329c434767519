"""The example programs: the model's first entry at its usual dims."""

from __future__ import annotations

from math import prod

from lumigen.emit.contexts import ExampleContext, ExamplePortContext, ModelContext, PortContext
from lumigen.emit.contract import typical
from lumigen.emit.cxx import integer
from lumigen.index import Dim
from lumigen.program import CompiledModel, Port


def example_context(model: CompiledModel, context: ModelContext) -> ExampleContext:
    program, entry = model.programs[0], context.entries[0]
    env = {d: typical(d) for d in program.dims}
    inputs = tuple(
        _port(p, c, env, model.name) for p, c in zip(program.inputs, entry.inputs, strict=True)
    )
    outputs = tuple(
        _port(p, c, env, model.name) for p, c in zip(program.outputs, entry.outputs, strict=True)
    )
    return ExampleContext(
        name=entry.name,
        method=entry.method,
        signature=entry.signature,
        weights_argument=f" weights/{model.name}.safetensors" if model.weights else "",
        dims=entry.dims,
        dims_argument="&dims" if entry.dims else "NULL",
        inputs=inputs,
        outputs=outputs,
        fills=tuple(
            f"for (int64_t i = 0; i < {_count(p, env)}; ++i) "
            f"(({p.dtype.ctype} *){c.ident}.data)[i] = {_first(p)};"
            for p, c in zip(program.inputs, entry.inputs, strict=True)
            if _first(p) != 0
        ),
    )


def _first(port: Port) -> int:
    """A legal value: zero unless the port's range excludes it."""
    if port.range is None or port.range[0] <= 0 <= port.range[1]:
        return 0
    return port.range[0]


def _count(port: Port, env: dict[Dim, int]) -> int:
    return prod(int(e.evaluate(env)) for e in port.shape)


def _port(
    port: Port, context: PortContext, env: dict[Dim, int], namespace: str
) -> ExamplePortContext:
    extents = [int(e.evaluate(env)) for e in port.shape]
    count, first = prod(extents), _first(port)
    # std::vector<bool> has no elements to point at.
    element = "char" if port.dtype.is_bool else _qualified(context.cpptype, namespace)
    data = (
        f"reinterpret_cast<bool*>({context.ident}.data())" if port.dtype.is_bool else context.ident
    )
    shape = ", ".join(map(integer, extents))
    if extents:
        view = f"{namespace}::view({data}, {{{shape}}})"
    elif port.dtype.is_bool:
        view = f"{namespace}::scalar(*{data})"
    else:
        view = f"{namespace}::scalar({data}[0])"
    return ExamplePortContext(
        ident=context.ident,
        rank=context.rank,
        code=context.code,
        bits=context.bits,
        numpy=context.numpy,
        item_bytes=port.dtype.itemsize,
        shape=shape or "0",
        places=max(1, context.rank),
        vector=f"std::vector<{element}> {context.ident}({count}{f', {first}' if first else ''})",
        view=view,
    )


def _qualified(cpptype: str, namespace: str) -> str:
    return f"{namespace}::{cpptype}" if cpptype in {"float16", "bfloat16"} else cpptype

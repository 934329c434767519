"""An entry's contract as text: its signature, where its dims come from, the checks it makes.

Promises that every dim gets its value from one place, and that every extent is then compared with
what the dims say.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import prod

from lumigen.dtype import DType
from lumigen.emit.contexts import CheckContext, DimContext, ExtentContext, PortContext
from lumigen.emit.cxx import expression, integer, string
from lumigen.errors import LoweringFailed
from lumigen.index import Atom, Dim, Ix, parts
from lumigen.names import identifier, taken_by
from lumigen.program import Port, Program

# What the functions that have tensors as parameters (of src/<entry>.cpp, the headers and the examples)
# call their own things, and what they use of others.
_TAKEN = """
args arena argc argv borrow buffer bytes call check check_apart check_arena check_dim check_dim_value
check_dims check_extent check_tensor check_values set_extent context copies copy data_of detail dims error
exit fail fprintf free handle index_max index_min floor_div floor_mod align64 kernels
kernels_for model most options place ports printf run s settings solve_dim tensor tensors weights
Arena Context Dim Dims Launch Port Run Size Status Tensor View Weights KernelTable float16 bfloat16
"""
TAKEN = frozenset(_TAKEN.split())

CPP_TYPES = {
    "f32": "float", "f64": "double", "f16": "float16", "bf16": "bfloat16", "i8": "int8_t",
    "u8": "uint8_t", "i32": "int32_t", "i64": "int64_t", "bool": "bool",
}  # fmt: skip
NUMPY_NAMES = {
    "f32": "float32", "f64": "float64", "f16": "float16", "bf16": "bfloat16", "i8": "int8",
    "u8": "uint8", "i32": "int32", "i64": "int64", "bool": "bool",
}  # fmt: skip


def shape_text(shape: tuple[Ix, ...]) -> str:
    """`(batch, 784)`, as Python writes a tuple."""
    return f"({', '.join(map(str, shape))}{',' if len(shape) == 1 else ''})"


def port_text(port: Port) -> str:
    """`x: f32[batch, 784]`."""
    return f"{port.name}: {port.dtype}[{', '.join(map(str, port.shape))}]"


def test_range(port: Port) -> tuple[int, int]:
    """Of the integers that the tests give an input."""
    return port.always or ((0, 1) if port.dtype.is_bool else (0, 7))


def range_text(dim: Dim) -> str:
    step = "" if dim.multiple_of == 1 else f", a multiple of {dim.multiple_of}"
    return f"{dim.lo}..{dim.hi}{step}"


def signature(program: Program) -> str:
    """`classify(x: f32[batch, 784]) -> probs: f32[batch, 10]; batch 1..64`."""
    inputs = ", ".join(port_text(p) for p in program.inputs)
    outputs = ", ".join(port_text(p) for p in program.outputs)
    dims = "".join(f"; {d.name} {range_text(d)}" for d in program.dims)
    return f"{program.entry}({inputs}) -> {outputs}{dims}"


def dim_constant(dim: Dim) -> str:
    return f"k_{dim.name}_dim"


def port_constant(port: Port) -> str:
    return f"k_{port.name}_port"


def test_type(dtype: DType) -> str:
    """The enumerator of tests/testing.h."""
    return f"Type::{'boolean' if dtype.is_bool else dtype.name}"


def port_idents(program: Program) -> dict[str, str]:
    """The parameter for each input and output; the examples call its shape `<parameter>_shape`."""
    out: dict[str, str] = {}
    ports = [p.name for p in (*program.inputs, *program.outputs)]
    taken = TAKEN | {f"{other}_shape" for other in ports}
    taken |= {f"{launch.kernel}_args" for launch in program.launches}
    for name in ports:
        out[name] = identifier(name, taken | (frozenset(ports) - {name}))
        taken |= {out[name]}
    return out


def dim_fields(program: Program) -> dict[Dim, str]:
    """The member of the dims struct for each dim."""
    out: dict[Dim, str] = {}
    names = frozenset(d.name for d in program.dims)
    for d in program.dims:
        out[d] = identifier(d.name, (names - {d.name}) | frozenset(out.values()))
    return out


def dim_contexts(program: Program) -> tuple[DimContext, ...]:
    return tuple(dim_context(d, field) for d, field in dim_fields(program).items())


def _bounds(dim: Dim) -> tuple[int, int]:
    """The least and the greatest multiple in the dim's range."""
    step = dim.multiple_of
    return -(-dim.lo // step) * step, dim.hi // step * step


def typical(dim: Dim) -> int:
    """The multiple that is nearest below what is typical, within the range."""
    least, most = _bounds(dim)
    return min(most, max(least, dim.estimate // dim.multiple_of * dim.multiple_of))


def dim_context(dim: Dim, field: str) -> DimContext:
    least, most = _bounds(dim)
    numbers = ", ".join(integer(v) for v in (dim.lo, dim.hi, dim.multiple_of))
    return DimContext(
        name=dim.name,
        field=field,
        constant=dim_constant(dim),
        row=f"{string(dim.name)}, {numbers}",
        range=range_text(dim),
        lo=dim.lo,
        hi=dim.hi,
        multiple_of=dim.multiple_of,
        least=integer(least),
        typical=integer(typical(dim)),
        most=integer(most),
    )


def port_context(port: Port, program: Program) -> PortContext:
    dtype: DType = port.dtype
    names: dict[Atom, str] = {d: f"dims->{field}" for d, field in dim_fields(program).items()}
    facts = (
        program.entry,
        port.name,
        dtype.dlpack_code,
        dtype.bits,
        len(port.shape),
        shape_text(port.shape),
    )
    ident = port_idents(program)[port.name]
    lo, hi = test_range(port)
    return PortContext(
        name=port.name,
        ident=ident,
        constant=port_constant(port),
        row=", ".join(string(f) if isinstance(f, str) else str(f) for f in facts),
        text=port_text(port),
        shape_text=shape_text(port.shape),
        type=test_type(dtype),
        code=dtype.dlpack_code,
        bits=dtype.bits,
        rank=len(port.shape),
        ctype=dtype.ctype,
        cpptype=CPP_TYPES[dtype.name],
        numpy=NUMPY_NAMES[dtype.name],
        array=f"{ident}[{len(port.shape)}]" if port.shape else f"*{ident}",
        extents=tuple(
            ExtentContext(_extent(e, names), fits(e), expression(e, names), string(str(e)))
            for e in port.shape
        ),
        symbolic=tuple(map(str, port.shape)),
        lo=integer(lo),
        hi=integer(hi),
    )


def fits(e: Ix) -> bool:
    """Whether no step of computing an extent leaves int64_t, whatever its dims are."""
    return _magnitude(e) < 2**63


def _magnitude(e: Ix) -> int:
    """What no step of computing an extent exceeds."""
    terms = (abs(factor) * prod(map(_atom_magnitude, atoms)) for atoms, factor in e.terms)
    return abs(e.const) + sum(terms)


def _atom_magnitude(atom: Atom) -> int:
    """Of a quotient, remainder or extremum, that of what it is made of: no less than its own."""
    return atom.hi if isinstance(atom, Dim) else max(map(_magnitude, parts(atom)), default=2**63)


def _extent(e: Ix, names: Mapping[Atom, str]) -> str:
    """An extent in plain numbers where those suffice, else as a Size."""
    return expression(e, names if fits(e) else {a: f"Size({n})" for a, n in names.items()})


def _affine(extent: Ix, dim: Dim) -> tuple[int, int] | None:
    """(scale, offset) where the extent is `scale * dim + offset` with a positive scale."""
    match extent.terms:
        case (((atom,), scale),) if atom == dim and scale > 0:
            return scale, extent.const
        case _:
            return None


def _sources(program: Program) -> dict[Dim, tuple[int, int, int, int]]:
    """(input, axis, scale, offset) that give each dim its value: a bare occurrence if any."""
    found: dict[Dim, tuple[int, int, int, int]] = {}
    for dim in program.dims:
        places = [
            (i, axis, *affine)
            for i, port in enumerate(program.inputs)
            for axis, extent in enumerate(port.shape)
            if (affine := _affine(extent, dim)) is not None
        ]
        if not places:
            what = f"the dim {dim.name} of {program.entry}, which no input has as an extent"
            raise LoweringFailed(step="emit", what=what)
        found[dim] = min(places, key=lambda p: (p[2:] != (1, 0), p))
    return found


def checks(program: Program) -> tuple[CheckContext, ...]:
    """The body of the entry's contract: inputs, dims, extents, outputs, overlaps, values."""
    lines: list[CheckContext] = []
    idents = port_idents(program)
    inputs = [(p, idents[p.name], port_constant(p)) for p in program.inputs]
    outputs = [(p, idents[p.name], port_constant(p)) for p in program.outputs]
    fields = dim_fields(program)
    sources = _sources(program)
    for _, ident, constant in inputs:
        lines.append(CheckContext(call=f"check_tensor({ident}, {constant})"))
    for dim, (i, axis, scale, offset) in sources.items():
        port, ident, constant = inputs[i]
        field = f"dims.{fields[dim]}"
        if (scale, offset) == (1, 0):
            lines.append(CheckContext(assignment=f"{field} = {ident}->shape[{axis}]"))
        else:
            text = string(str(port.shape[axis]))
            solve = f"solve_dim(&{field}, *{ident}, {constant}, {axis}, {scale}, {offset}, {text})"
            lines.append(CheckContext(call=solve))
        lines.append(
            CheckContext(
                call=f"check_dim(*{ident}, {constant}, {axis}, {dim_constant(dim)}, {field})"
            )
        )
    bound = {(i, axis) for i, axis, *_ in sources.values()}
    names: dict[Atom, str] = {d: f"dims.{field}" for d, field in fields.items()}
    for i, (port, ident, constant) in enumerate(inputs):
        lines += _extents(port, ident, constant, names, {axis for j, axis in bound if j == i})
    for port, ident, constant in outputs:
        lines.append(CheckContext(call=f"check_tensor({ident}, {constant})"))
        lines += _extents(port, ident, constant, names, set())
    for i, (_, ident, constant) in enumerate(outputs):
        for _, other, other_constant in (*inputs, *outputs[i + 1 :]):
            lines.append(
                CheckContext(call=f"check_apart(*{ident}, {constant}, *{other}, {other_constant})")
            )
    for port, ident, constant in inputs:
        if port.bounds is not None and port.dtype.is_int:
            lo, hi = port.bounds
            ends = f"{integer(lo)}, {expression(hi, names)}"
            lines.append(CheckContext(call=f"check_values(*{ident}, {constant}, {ends})"))
    return tuple(lines)


def _extents(
    port: Port, ident: str, constant: str, names: Mapping[Atom, str], bound: set[int]
) -> list[CheckContext]:
    """Every axis but those that gave a dim its value."""
    lines: list[CheckContext] = []
    for axis, extent in enumerate(port.shape):
        if axis in bound:
            continue
        text = "nullptr" if extent.is_const else string(str(extent))
        want = _extent(extent, names)
        lines.append(
            CheckContext(call=f"check_extent(*{ident}, {constant}, {axis}, {want}, {text})")
        )
    return lines


def dim_bindings(program: Program) -> tuple[CheckContext, ...]:
    """How a caller that holds `tensors[i]` of the right ranks gets the dims; nothing is checked."""
    lines: list[CheckContext] = []
    fields = dim_fields(program)
    for dim, (i, axis, scale, offset) in _sources(program).items():
        value = f"tensors[{i}].shape[{axis}]"
        if offset:
            value = f"({value} {'-' if offset > 0 else '+'} {abs(offset)})"
        if scale != 1:
            value = f"{value} / {scale}"
        lines.append(CheckContext(assignment=f"dims.{fields[dim]} = {value}"))
    return tuple(lines)


def max_dims(program: Program) -> str:
    """Initialiser of the dims struct at the greatest values."""
    return ", ".join(d.most for d in dim_contexts(program)) or "0"


def is_identifier(name: str) -> bool:
    return name.isidentifier() and name.isascii() and taken_by(name) is None

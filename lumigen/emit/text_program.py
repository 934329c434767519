"""The program that continues texts: its files, and how it calls the model's entries."""

from __future__ import annotations

import math

from lumigen.application import TextEntry, TextProgram
from lumigen.dtype import DType
from lumigen.emit.contexts import TextContext, TextEntryContext
from lumigen.emit.contract import signature
from lumigen.errors import BadArgument
from lumigen.printer import amount
from lumigen.program import CompiledModel, Port
from lumigen.resources import runtime_dir
from lumigen.tokenizer.shipped import shipped

FOLDER = "apps/text"  # where the runtime of it goes
# of a logit as it lies in memory: its type, and how it becomes a float
LOGITS = {
    "f32": ("float", "{}"),
    "f64": ("double", "static_cast<float>({})"),
    "bf16": ("uint16_t", "from_bf16({})"),
    "f16": ("uint16_t", "from_f16({})"),
}


def text_context(model: CompiledModel, text: TextProgram, *, embeds: bool) -> TextContext:
    """The program as its template sees it; `embeds`: the library holds the weights."""
    return TextContext(
        entries=(
            _entry(model, "run_prefill", text.prefill),
            _entry(model, "run_decode", text.decode),
        ),
        chunk=text.chunk,
        length=text.length,
        needs_weights=bool(model.weights) and not embeds,
        weights=weights_line(model),
        states=amount.size(sum(s.bytes for s in model.states)),
        tokens=len(text.tokenizer.tokens),
        ends=text.ends,
        sources=tuple(f"{FOLDER}/{name}" for name in text_files() if name.endswith(".cpp")),
    )


def weights_line(model: CompiledModel) -> str:
    """How many numbers the weights of a model are, in how many bits and bytes, and the types of their tensors."""
    formats = {f.weight: f for f in model.formats}
    read = {s.weight.name: s.weight for s in model.read}
    kinds: dict[str, set[str]] = {}
    bits = count = 0
    for name, w in read.items():
        of = formats.get(name.rpartition(".")[0])
        bits += math.prod(w.shape) * w.dtype.bits
        count += math.prod(w.shape) if of is None else 0
        kinds.setdefault(w.dtype.name if of is None else of.kind, set()).add(
            name if of is None else of.weight
        )
    count += sum(f.count for f in formats.values())
    types = ", ".join(f"{len(tensors)} in {kind}" for kind, tensors in kinds.items())
    each = bits / max(count, 1)
    return f"{amount.number(count)} of {each:.2f} bits, {amount.size(bits // 8)}; tensors: {types or 'none'}"


def text_files() -> dict[str, str]:
    """The runtime of the program by the names of its files."""
    paths = sorted((runtime_dir() / "text").iterdir())
    return {p.name: p.read_text(encoding="utf-8") for p in paths if p.suffix in {".h", ".cpp"}}


def tokenizer_file(text: TextProgram) -> str:
    """The text of the tokenizer's file."""
    try:
        return shipped(text.tokenizer)
    except ValueError as e:
        expected = "one of which the program knows all parts, or leave out the application"
        raise BadArgument(
            op="TextGeneration", name="tokenizer", value=f"one with {e}", expected=expected
        ) from None


def _entry(model: CompiledModel, name: str, entry: TextEntry) -> TextEntryContext:
    program = next(p for p in model.programs if p.entry == entry.entry)
    ports = {p.name: p for p in (*program.inputs, *program.outputs)}
    ids, position, logits = (ports[n] for n in (entry.ids, entry.position, entry.logits))
    parameters = {entry.ids: "&ids", entry.position: "&position", entry.logits: "&logits"}
    kind, value = LOGITS[logits.dtype.name]
    count = logits.shape[-1].const
    return TextEntryContext(
        name=name,
        function=f"{model.name}_{entry.entry}",
        signature=signature(program),
        id_type=ids.dtype.ctype,
        id_shape=", ".join(["1"] * (len(ids.shape) - 1) + ["count"]),
        ids=_tensor("given", ids, "id_shape"),
        position_type=position.dtype.ctype,
        position=_tensor("place", position, "nullptr"),
        logit_type=kind,
        logit_shape=", ".join(["1"] * (len(logits.shape) - 1) + [str(count)]),
        logit_count=count,
        logit_value=value.format("found[i]"),
        logits=_tensor("found", logits, "logit_shape"),
        arguments=", ".join(parameters[name] for name in ports),
    )


def _tensor(data: str, port: Port, shape: str) -> str:
    """The arguments of `tensor_of`, with which the template wraps data."""
    pointer = f"{data}.data()" if port.shape else f"&{data}"
    return f"{pointer}, {_kind(port.dtype)}, {len(port.shape)}, {shape}"


def _kind(dtype: DType) -> str:
    return f"{dtype.dlpack_code}, {dtype.bits}"

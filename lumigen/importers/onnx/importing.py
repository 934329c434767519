"""importing: an ONNX model as an `lg.Model` with one entry, `forward`."""

from __future__ import annotations

from collections.abc import Generator, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lumigen.errors import BadOnnxFile, UnknownOption, first_line
from lumigen.frontend import Dim, Entry, Model, Spec, Tensor
from lumigen.importers.onnx.node import domain_of
from lumigen.importers.onnx.ports import dims_for, fixed, identifier, sizes_of, spec_of, tensor_type
from lumigen.importers.onnx.reading import declared_elements, package, read_model
from lumigen.importers.onnx.reference import original_of
from lumigen.importers.onnx.session import DEEPEST, MISFITS, MOST_STEPS, UNKNOWN, Frame, Session
from lumigen.importers.onnx.soundness import least_steps, repeated
from lumigen.importers.onnx.values import Value
from lumigen.names import model_taken_by

ENTRY = "forward"
OLDEST = 6  # operator set


@dataclass(frozen=True)
class Imported:
    """An ONNX model on the way: its message, its inputs as specs, what its outputs are called."""

    proto: Any
    file: Path | None
    name: str
    inputs: tuple[tuple[str, str, Spec], ...]  # ONNX's name, ours, what it takes
    outputs: tuple[tuple[str, str], ...]
    known: Mapping[str, Value]
    session: Session


def from_onnx(
    model: Any,
    dims: Mapping[str, int | tuple[int, ...] | Dim | str] | None = None,
    inputs: Mapping[str, Any] | None = None,
) -> Model:
    """The model of an ONNX file, or of a ModelProto, with one entry `forward`.

    `dims` gives each symbolic size of the inputs a number, (least, greatest) or (least, greatest, multiple of), an
    `lg.Dim`, or the name of another that it equals; `inputs` gives inputs whose numbers decide shapes their values,
    and the entry has them no longer. Initialisers are weights under their own names. BadOnnxFile for what is no
    model, DimsWithoutRange, UnsupportedNode and NotConstant with the node's name.
    """
    made = model_of(opened(model, dims or {}, inputs or {}))
    made.trace()  # which finds the initialisers that it reads
    return made


def opened(model: Any, dims: Mapping[str, Any], values: Mapping[str, Any]) -> Imported:
    """The file read and its ports declared; nothing of its graph is imported yet."""
    proto, file = read_model(model)
    with _well_formed(file):
        return _declared(proto, file, dims, values)


@contextmanager
def read_well_formed(path: Path) -> Generator[Any]:
    """The message of a file; what does not fit in it while it is looked at is a BadOnnxFile."""
    proto, file = read_model(path)
    with _well_formed(file):
        yield proto


@contextmanager
def _well_formed(file: Path | None) -> Generator[None]:
    """What Python raises of a message whose parts do not fit, such as names that are no text, is a BadOnnxFile."""
    try:
        yield
    except MISFITS as e:
        why = f"it is not as ONNX has it ({type(e).__name__}: {first_line(e)[:80].rstrip('.')})"
        remedy = "Check it with onnx.checker.check_model, or export it again."
        raise BadOnnxFile(file=file or "the model", why=why, remedy=remedy) from e


def _declared(
    proto: Any, file: Path | None, dims: Mapping[str, Any], values: Mapping[str, Any]
) -> Imported:
    shown = file or "the model"
    versions = versions_of(proto, shown)
    if why := repeated(proto):
        raise BadOnnxFile(file=shown, why=why, remedy="Give each a name of its own.")
    graph = proto.graph
    functions = {(domain_of(f), f.name): f for f in proto.functions}
    if least_steps(graph, functions, DEEPEST) > MOST_STEPS:
        why = f"its functions come to more than {MOST_STEPS} nodes"
        raise BadOnnxFile(file=shown, why=why, remedy="Export fewer steps.")
    initial = {t.name for t in graph.initializer}
    free = [i for i in graph.input if i.name not in initial]
    for name in values:
        if name not in {i.name for i in free}:
            known = [i.name for i in free]
            raise UnknownOption(command="onnx", name=f"input {name}", known=known)
    ports = [i for i in free if i.name not in values]
    sizes = [sizes_of(i, shown) for i in ports]
    chosen = dims_for(sizes, dims, shown)
    names: list[str] = []
    for i in ports:
        names.append(identifier(i.name, names))
    specs = [spec_of(tensor_type(i, shown), s, chosen) for i, s in zip(ports, sizes, strict=True)]
    outputs: list[str] = []
    for o in graph.output:
        outputs.append(identifier(o.name, [*names, *outputs]))
    name = model_name(file.stem if file else graph.name)
    session = Session(
        file.name if file else "the model",
        file,
        functions,
        versions,
        declared_elements(proto),
        {dim.name: said for said, dim in reversed(chosen.items()) if isinstance(dim, Dim)},
    )
    return Imported(
        proto,
        file,
        name,
        tuple((i.name, n, s) for i, n, s in zip(ports, names, specs, strict=True)),
        tuple((o.name, n) for o, n in zip(graph.output, outputs, strict=True)),
        {i.name: fixed(values[i.name], i, shown) for i in free if i.name in values},
        session,
    )


def versions_of(proto: Any, shown: Any) -> dict[str, int]:
    """The version of each operator set; BadOnnxFile for one that is too old, or that nobody knows yet."""
    versions = {domain_of(o): int(o.version) for o in proto.opset_import}
    if not versions:
        why, remedy = "it names no operator set (opset_import)", "Export the model again."
        raise BadOnnxFile(file=shown, why=why, remedy=remedy)
    onnx, newest = package(), int(package("onnx.defs").onnx_opset_version())
    if versions.get("", newest) > newest:
        why = f"it has operator set {versions['']}, and onnx {onnx.__version__} ends at {newest}"
        raise BadOnnxFile(file=shown, why=why, remedy="Install a newer onnx, or export it again.")
    if not versions.get("", OLDEST) >= OLDEST:
        why = f"it has operator set {versions['']}, and {OLDEST} is the oldest that is read"
        remedy = "Convert it: onnx.version_converter.convert_version(model, 17)."
        raise BadOnnxFile(file=shown, why=why, remedy=remedy)
    return versions


def model_name(name: str) -> str:
    """The model's name as an identifier that nobody else has."""
    plain = identifier(name or "model", ())
    return f"{plain}_model" if model_taken_by(plain) else plain


def model_of(imported: Imported) -> Model:
    """The model, whose entry runs the graph when it is traced."""
    model = Model(imported.name, imported.session.read)
    entry, _ = entry_of(imported)
    model.entry(**dict(entry.inputs))(entry.function)
    model.originals = {entry.name: original_of(imported)}
    model.source = imported.file.name if imported.file else "a ModelProto"
    return model


def entry_of(imported: Imported) -> tuple[Entry, dict[str, Tensor]]:
    """The entry `forward`, and what its last run has given."""
    found: dict[str, Tensor] = {}

    def forward(**given: Tensor) -> dict[str, Tensor]:
        found.clear()
        found.update(run(imported, given))
        return dict(found)

    return Entry(ENTRY, forward, tuple((name, s) for _, name, s in imported.inputs)), found


def run(imported: Imported, given: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The outputs by our names."""
    session = imported.session
    session.steps = 0
    graph = imported.proto.graph
    values: dict[str, Any] = {onnx: given[name] for onnx, name, _ in imported.inputs}
    values |= imported.known
    frame = Frame(values, session.versions, elements=dict(session.elements))
    with _well_formed(imported.file):
        session.run(graph, frame)
    out: dict[str, Tensor] = {}
    for onnx, name in imported.outputs:
        try:
            value = frame.find(onnx)
        except KeyError:
            why = f"no node makes output {onnx}"
            raise BadOnnxFile(
                file=imported.file or "the model", why=why, remedy="Export the model again."
            ) from None
        for key, part in _parts(name, value):
            out[key] = session.tensor(part)
    return out


def _parts(name: str, value: Value) -> Iterator[tuple[str, Value]]:
    """A value of the graph as outputs: a sequence as `name_0`, `name_1` and so on; nothing for none."""
    if isinstance(value, list):
        for i, part in enumerate(value):
            yield from _parts(f"{name}_{i}", part)
    elif value is not None and value is not UNKNOWN:
        yield name, value

"""inspecting: what an ONNX file says of itself, without a range for any size and without reading its weights."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lumigen.importers.onnx.importing import read_well_formed
from lumigen.importers.onnx.node import domain_of
from lumigen.importers.onnx.reading import EXTERNAL, numpy_type
from lumigen.importers.onnx.schema import is_function
from lumigen.importers.onnx.soundness import graphs_of
from lumigen.importers.onnx.table import row_of

MOST_NODES = 1_000_000


@dataclass(frozen=True)
class StoredWeight:
    """An initialiser: its element type, shape and bytes, and the file that has them if it is another one."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    bytes: int
    location: str = ""


@dataclass(frozen=True)
class Inspected:
    """An ONNX file. `operators` are (name, how often it occurs, whether it is compiled: yes, or why not)."""

    file: str
    producer: str
    ir_version: int
    opsets: Mapping[str, int]
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    dims: tuple[str, ...]
    operators: tuple[tuple[str, int, str], ...]
    weights: tuple[StoredWeight, ...]
    metadata: Mapping[str, str]


def inspected(path: Path) -> Inspected:
    """What the file says; BadOnnxFile for what is no ONNX model."""
    with read_well_formed(path) as proto:
        graph = proto.graph
        opsets = {domain_of(o): int(o.version) for o in proto.opset_import}
        own = {(domain_of(f), f.name) for f in proto.functions}
        counts = Counter(_nodes(proto, opsets))
        initial = {t.name for t in graph.initializer}
        free = [i for i in graph.input if i.name not in initial]
        sizes = (d.dim_param for i in free for d in i.type.tensor_type.shape.dim)
        return Inspected(
            str(path),
            f"{proto.producer_name} {proto.producer_version}".strip(),
            int(proto.ir_version),
            {domain or "ai.onnx": version for domain, version in opsets.items()},
            tuple(map(_port, free)),
            tuple(map(_port, graph.output)),
            tuple(dict.fromkeys(filter(None, sizes))),
            tuple(
                (".".join(filter(None, (domain, op))), count, support(own, domain, op, version))
                for (domain, op, version), count in counts.most_common()
            ),
            tuple(map(_stored, graph.initializer)),
            {p.key: p.value for p in proto.metadata_props},
        )


def support(own: set[tuple[str, str]], domain: str, op: str, version: int) -> str:
    """Whether an operator is compiled: `yes`, `as a function`, or why not."""
    if (domain, op) in own:
        return "as a function of the file"
    row = row_of(domain, op, version)
    if row is not None:
        return f"no: {row.refusal}" if row.refusal else "yes"
    return "as a function" if is_function(domain, op, version) else "no: it is not known"


def _nodes(proto: Any, opsets: Mapping[str, int]) -> Iterator[tuple[str, str, int]]:
    """(domain, operator, version) of all nodes, also of graphs inside of nodes and of the file's functions."""
    todo: list[tuple[Any, Mapping[str, int]]] = [(proto.graph, opsets)]
    own = ({domain_of(o): int(o.version) for o in f.opset_import} for f in proto.functions)
    todo += [(f, {**opsets, **versions}) for f, versions in zip(proto.functions, own, strict=True)]
    count = 0
    while todo:
        graph, versions = todo.pop()
        for node in graph.node:
            count += 1
            if count > MOST_NODES:
                raise ValueError(f"it has more than {MOST_NODES} nodes")
            yield domain_of(node), str(node.op_type), versions.get(domain_of(node), 1)
            todo += [(g, versions) for g in graphs_of(node)]


def _port(info: Any) -> str:
    """`x float32[batch, 3]`, of what is a tensor."""
    which = info.type.WhichOneof("value")
    if which != "tensor_type":
        return f"{info.name} {(which or 'of no type').removesuffix('_type')}"
    tensor = info.type.tensor_type
    dims = [
        d.dim_param or (str(d.dim_value) if d.WhichOneof("value") == "dim_value" else "?")
        for d in tensor.shape.dim
    ]
    shape = f"[{', '.join(dims)}]" if tensor.HasField("shape") else " of any shape"
    return f"{info.name} {_element(tensor.elem_type)}{shape}"


def _element(number: int) -> str:
    if not number:
        return "of no type"
    kind = numpy_type(number)
    return "string" if kind.hasobject else kind.name


def _stored(t: Any) -> StoredWeight:
    shape = tuple(int(d) for d in t.dims)
    kind = numpy_type(t.data_type)
    size = 0 if kind.hasobject else math.prod(shape) * kind.itemsize
    entries = {e.key: e.value for e in t.external_data} if t.data_location == EXTERNAL else {}
    return StoredWeight(t.name, _element(t.data_type), shape, size, entries.get("location", ""))

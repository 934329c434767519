"""identity: the hash of a traced model, and the key of a compilation of it."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from lumigen.frontend import Traced
from lumigen.graph import tensor_of
from lumigen.model_weights import not_read
from lumigen.passes import show_entries
from lumigen.recall import key_of
from lumigen.weights import Weights

Array = npt.NDArray[Any]


def graph_hash(traced: Traced) -> str:
    """The same for models that mean the same by the same text, wherever their files lie."""
    return hashlib.sha256(show_entries(traced.entries, origins=False).encode()).hexdigest()


def compilation_key(
    traced: Traced,
    options: Mapping[str, str],
    weights: Weights | Mapping[str, Array] | None,
    *,
    embed: bool,
) -> str:
    """Of all that decides what is emitted."""
    arrays: Iterable[tuple[str, Array]] | None = None
    unread: Iterable[str] = ()
    if weights is not None:
        read = {tensor_of(n).name for _, g in traced.entries for n in g.weights()}
        arrays = ((name, np.asarray(weights[name])) for name in sorted(read) if name in weights)
        unread = not_read(weights, read)
    ranges = [
        f"{p} {d.lo} {d.hi} {d.multiple_of} {d.typical}"
        for p, g in traced.entries
        for d in g.dims()
    ]
    names = [g.names.get(n, "") for _, g in traced.entries for n in g.nodes()]
    facts = (
        traced.name,
        traced.version,
        json.dumps(dict(options)),
        str(embed),
        str(arrays is None),
        traced.text.identity() if traced.text else "",
        repr(traced.formats),
    )
    texts = (*facts, *ranges, *names, *unread, show_entries(traced.entries))
    return key_of(texts, arrays)

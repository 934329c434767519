"""operand_names: the names of the operands of kernels: the model's, as far as all uses of a kernel share them.

Before: the buffers of an entry, and the model's names of their values.  After: a name for each buffer of a canonical
region; it is what the names of all uses have in common.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import replace

from lumigen.graph import Graph
from lumigen.kernel_words import DERIVED, is_said
from lumigen.names import common_parts, identifier, numbered, short_names
from lumigen.program import Slot
from lumigen.region import Buffer, Expr, Reduce, Region, Role, buffers_of, walk

LONGEST = 24  # characters of the words in a kernel's name
UNSAID = frozenset({"out", "result", "weight", "bias"})  # that tell one kernel from no other


def labels_of(graph: Graph, regions: Iterable[Region]) -> dict[str, str]:
    """What the model calls temporaries, by the names that `cut_graph` gives them.

    A temporary without a name is called like the module whose weights it is a product with.
    """
    found = {f"t{i}": graph.names[n] for i, n in enumerate(graph.nodes()) if n in graph.names}
    for s in (s for r in regions for s in r.stores if s.dst.role is Role.TEMP):
        modules = {b.name.rpartition(".")[0] for b in _reduced(s.value) if _is_matrix(b)}
        if len(modules) == 1 and s.dst.name not in found:
            (found[s.dst.name],) = modules
    return found


def _reduced(*values: Expr) -> dict[Buffer, None]:
    """What the sums and maxima in these values are of: it is not what is added to them."""
    sums = [e for e in walk(values) if isinstance(e, Reduce)]
    return dict.fromkeys(b for e in walk(sums) for b in buffers_of(e))


def _is_matrix(b: Buffer) -> bool:
    return b.role is Role.WEIGHT and sum(d != 1 for d in b.dims) > 1


def operand_names(uses: Iterable[tuple[Buffer, str]]) -> dict[Buffer, Buffer]:
    """The buffers of a canonical region, called by the last parts that what they stand for have in common.

    `uses` has each of these by its name, or an empty one. Weights end with `weight` or `bias`. What has no name, or
    another one in each use, keeps its own.
    """
    found: dict[Buffer, list[str]] = {}
    for b, name in uses:
        found.setdefault(b, []).append(name)
    labels = {b: common_parts(names).removesuffix(".self") for b, names in found.items()}
    out: dict[Buffer, Buffer] = {}
    weights = [b for b in found if b.role is Role.WEIGHT]
    for b, short in zip(
        weights, short_names([labels[b] or "weight" for b in weights]), strict=True
    ):
        name = short if short.endswith(("weight", "bias")) else f"{short}_weight"
        out[b] = replace(b, name=numbered(name, {x.name for x in out.values()}))
    others = [b for b in found if b not in out]
    taken = {b.name for b in out.values()} | {b.name for b in others}
    named = [b for b in others if labels[b]]
    for b, short in zip(named, short_names([labels[b] for b in named], 1), strict=True):
        taken -= {b.name}
        name = free_name(short, taken)
        taken |= {name}
        out[b] = replace(b, name=name)
    return out


def free_name(name: str, taken: Iterable[str]) -> str:
    """The name, or one like it, that is not in `taken` and is no word of kernels."""
    used = frozenset(taken)
    used |= {f"{start}{b}" for b in used for start in DERIVED}
    while is_said(name) or name in used or any(f"{start}{name}" in used for start in DERIVED):
        name += "_"
    return identifier(name, used)


def named_slots(
    slots: Iterable[Slot], place: Mapping[str, str], labels: Mapping[str, str]
) -> tuple[tuple[Slot, ...], dict[str, str]]:
    """The slots of an arena, called after what lies in them, and the slot of each temporary.

    What lies in a slot one after another has its names joined by `or`. A slot of nothing that has a name keeps its own.
    """
    called: dict[str, str] = {}
    for slot in slots:
        within = (labels[t] for t, home in place.items() if home == slot.name and t in labels)
        words = dict.fromkeys(short_names([n.removesuffix(".self")], 1)[0] for n in within)
        found = "_or_".join(words)
        if len(words) > 1 and len(found) > LONGEST:
            found = f"{next(iter(words))}_or_others"
        called[slot.name] = numbered(found or slot.name, called.values())
    renamed = (Slot(called[s.name], s.bytes, tuple(called[a] for a in s.after)) for s in slots)
    return tuple(renamed), {t: called[home] for t, home in place.items()}


def kernel_words(named: Mapping[Buffer, Buffer]) -> dict[str, str]:
    """By its name in a kernel, the word that an operand gives to the kernel's name; none of what has no name."""
    out: dict[str, str] = {}
    for old, new in named.items():
        word = re.sub(r"_?(weight|bias)$", "", new.name) if old.role is Role.WEIGHT else new.name
        word = word.strip("_")
        is_told = len(word) > 1 and word.rstrip("_0123456789") not in UNSAID
        if old.name != new.name and is_told:
            out[new.name] = word
    return out


def kernel_name(words: Mapping[str, str], region: Region) -> str:
    """A word or two of a kernel: what it writes, else whose weights it reads; empty where neither has a name.

    Of a kernel with a product of weights that is of these: what is added to it may be a row of an embedding.
    """
    written = [s.dst.name for s in region.stores]
    weights = [b for b in region.reads() if b.role is Role.WEIGHT]
    reduced = _reduced(*(s.value for s in region.stores))
    multiplied = [b for b in weights if b in reduced]
    read = [b.name.removesuffix("_panels") for b in multiplied or weights]
    for operands in (written, read):
        found = ""
        for word in dict.fromkeys(words[b] for b in operands if b in words):
            more = f"{found}_{word}" if found else word
            found = more if len(more) <= LONGEST else found
        if found:
            return found
    return ""

"""in_place: which temporary a kernel may store over one that it is the last to read."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from lumigen.program import elements
from lumigen.region import Buffer, Read, Role, Store, lookup_sources, walk


def in_place(
    results: tuple[Store, ...],
    overwrites: tuple[Buffer, ...],
    actual: Mapping[Buffer, Buffer],
    dies: Callable[[str], bool],
) -> tuple[str, str] | None:
    """(destination, source) of a temporary whose elements are read only to compute themselves.

    `results` are what a kernel stores, `overwrites` the arguments whose memory its destination may share.
    """
    store, *others = results
    if others:
        return None  # what one store has overwritten the other may still need
    target = actual.get(store.dst)
    if target is None or target.role is not Role.TEMP:
        return None
    for formal, real in actual.items():
        if real.role is not Role.TEMP or formal == store.dst or real.dtype != target.dtype:
            continue
        if elements(real.dims) != elements(target.dims) or not dies(real.name):
            continue
        if sum(b.name == real.name for b in actual.values()) > 1:
            continue
        reads = [e for e in walk([store.value]) if isinstance(e, Read) and e.source == formal]
        looked_up = any(formal in lookup_sources(e) for e in walk([store.value]))
        same_place = real.dims == target.dims and all(e.at == store.at for e in reads)
        if reads and not looked_up and (same_place or formal in overwrites):
            return target.name, real.name
    return None

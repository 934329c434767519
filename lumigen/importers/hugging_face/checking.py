# pyright: reportUnknownVariableType=false, reportUnknownMemberType=false, reportUnknownArgumentType=false
"""checking: a model beside the module of `transformers` that its checkpoint is, on random inputs at several sizes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import torch

from lumigen.graph import Graph
from lumigen.importers.hugging_face.opening import Opened
from lumigen.importers.hugging_face.original import failing, quiet
from lumigen.importers.hugging_face.processed import processed
from lumigen.importers.hugging_face.reports import Compared
from lumigen.index import Dim
from lumigen.interp.graph import ports, step
from lumigen.program import Port
from lumigen.weights import Array

SEED = 0
TEXT = ("prefill", "decode")
PARTS = ((0, 4), (4, 5), (5, 6), (6, 9))  # of a text: where each begins and ends


def compared(opened: Opened) -> tuple[Compared, ...]:
    """The outputs of the interpreter beside those of the module, in f32: at the least sizes and at larger ones."""
    checkpoint = opened.chosen.checkpoint
    module = opened.module
    traced = opened.model.trace()
    graphs = dict(traced.entries)
    weights = {w.name: np.asarray(opened.weights[w.name]) for w in traced.weights}
    why = "the module of transformers does not run on random inputs"
    with torch.no_grad(), quiet(), failing(checkpoint, why, "Leave --check out."):
        if set(TEXT) <= graphs.keys():
            return tuple(_of_text(opened, module, graphs, weights))
        return tuple(_of_calls(opened, module, graphs, weights))


def _of_calls(
    opened: Opened, module: Any, graphs: Mapping[str, Graph], weights: Mapping[str, Array]
) -> Iterator[Compared]:
    """Entries without states, at the sizes of `chosen`."""
    rng = np.random.default_rng(SEED)
    for graph in graphs.values():
        for sizes in chosen(graph.dims()):
            inputs = {p.name: drawn(rng, p, sizes, opened) for p in ports(graph)}
            want = processed(opened, module, inputs)
            got, _ = step(graph, inputs, weights)
            text = ", ".join(f"{d.name}={n}" for d, n in sizes.items())
            yield from (_apart(text, name, x, want[name]) for name, x in got.items())


def _of_text(
    opened: Opened, module: Any, graphs: Mapping[str, Graph], weights: Mapping[str, Array]
) -> Iterator[Compared]:
    """A text in parts: each part over what the ones before have left in the caches; and what is heard before it."""
    rng = np.random.default_rng(SEED)
    states: dict[str, Array] = {}
    heard: dict[str, Array] = {}
    for name in graphs.keys() - set(TEXT):
        heard = {p.name: drawn(rng, p, {}, opened) for p in ports(graphs[name])}
        got, new = step(graphs[name], heard, weights, states)
        states |= new
        want = processed(opened, module, heard)
        yield from (_apart("", key, x, want[key]) for key, x in got.items())
    ids = tokens(rng, opened, PARTS[-1][1])
    for first, last in parts(graphs["prefill"]):
        entry = "decode" if last == first + 1 else "prefill"
        given = {"ids": ids[first:last], "position": np.array(first)}
        got, new = step(graphs[entry], given, weights, states)
        states |= new
        want = processed(opened, module, {**heard, "ids": ids[:last]})
        text = f"{entry}, tokens {first}..{last - 1}"
        yield from (_apart(text, name, x, want[name]) for name, x in got.items())


def parts(prefill: Graph) -> Sequence[tuple[int, int]]:
    """The parts of a text that fits the caches; token after token, where few are read at a time."""
    ((_, most),) = ((p.name, p.range) for p in ports(prefill) if p.name == "position")
    longest = max((d.hi for d in prefill.dims()), default=1)
    end = PARTS[-1][1] if most is None else most[1] + 1
    fitting = [(a, b) for a, b in PARTS if b - a <= longest]
    return [(a, b) for a, b in fitting if b <= end] or [(0, 1)]


def chosen(dims: Sequence[Dim]) -> list[dict[Dim, int]]:
    """The least sizes, and two of each a little larger."""
    out: list[dict[Dim, int]] = []
    for more in (0, 3, 7):
        sizes = {d: min(d.hi, d.lo + more) for d in dims}
        if sizes not in out:
            out.append(sizes)
    return out


def drawn(rng: np.random.Generator, port: Port, sizes: Mapping[Dim, int], opened: Opened) -> Array:
    """Normal floats, tokens, bytes of images, and ones for a mask."""
    shape = [int(e.evaluate(sizes)) for e in port.shape]
    kind = port.dtype.numpy
    if port.dtype.is_float:
        return (rng.standard_normal(shape) * 0.3).astype(kind)
    if port.name.endswith("mask"):
        return np.ones(shape, kind)
    if port.name.endswith("input_ids"):
        return tokens(rng, opened, int(np.prod(shape))).reshape(shape).astype(kind)
    return rng.integers(0, 256 if port.dtype.name == "u8" else 2, shape).astype(kind)


def tokens(rng: np.random.Generator, opened: Opened, count: int) -> Array:
    """Random ones, less the first few, which stand for padding and the like."""
    config = opened.chosen.checkpoint.config
    tables = [config, config.get("text_config") or {}, config.get("decoder") or {}]
    size = next((t["vocab_size"] for t in tables if isinstance(t.get("vocab_size"), int)), 100)
    return rng.integers(min(4, size - 1), size, count)


def _apart(sizes: str, name: str, got: Array, want: Array) -> Compared:
    if got.shape != want.shape:
        return Compared(sizes, name, float("inf"), 0.0)
    a, b = got.astype(np.float64), want.astype(np.float64)
    same = (a == b) | (np.isnan(a) & np.isnan(b))
    with np.errstate(invalid="ignore"):
        apart = np.where(same, 0.0, np.abs(a - b))
    greatest = np.abs(b[~np.isnan(b)])
    difference = float(np.max(apart, initial=0))
    return Compared(sizes, name, difference, float(np.max(greatest, initial=0)))

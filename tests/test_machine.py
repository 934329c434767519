"""Machines as rows of numbers: nobody else has one, all of a row are read, and another row plans otherwise."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator, Mapping
from dataclasses import fields, is_dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

import pytest
from test_activations import in_blocks
from test_written_kernels import PROGRAMS, weight
from tiles import traced

import lumigen as lg
from lumigen import functional as F
from lumigen.activations import rounded
from lumigen.emit.places import TILE
from lumigen.graph import Graph
from lumigen.lower import GRAPH_PASSES, roles
from lumigen.lower.assemble import LoweredKernel, assemble
from lumigen.lower.devices import Device
from lumigen.lower.tile_time import tiles_of, tiles_of_pair
from lumigen.machine import Gpu, Processor
from lumigen.target import TARGETS
from lumigen.targets.cpu import device as cpu
from lumigen.targets.cpu.machines import MACHINES, PLANNED
from lumigen.targets.cuda import device as cuda
from lumigen.targets.cuda.machines import SM_80, SM_90A

Row = TypeVar("Row")
PACKAGE = Path(__file__).parent.parent / "lumigen"

# ---- no number of a machine stands elsewhere ----

# Numbers of modules that are no machine's, each with its reason.
KEPT = {
    "emit/columns.py": {
        "WIDTH": "characters of a line of text",
        "INDENT": "characters of a line of text",
    },
    "emit/counter.py": {
        "BLOCK": "words drawn at a time while a project is written",
        "STREAM": "of the generator of random numbers",
        "COUNTER": "of the generator of random numbers",
        "WORD": "of the generator of random numbers",
        "PAIRS": "of the generator of random numbers",
        "LOW": "of the generator of random numbers",
        "ENDS": "elements that the tests of a project compare",
        "INNER": "elements that the tests of a project compare",
        "FEW_ENDS": "elements that the tests of a project compare",
        "FEW_INNER": "elements that the tests of a project compare",
    },
    "emit/cxx.py": {"LEAST": "the least int64_t, which has no literal"},
    "lower/few.py": {"PRODUCTS": "values that a statement of the header gives"},
    "lower/made.py": {
        "VECTORS": "time of compilation: longer runs are as good as these",
        **dict.fromkeys((f"_is_exact: {n}" for n in (127, 128, 255, 256)), "digits of a dtype"),
    },
    "lower/small_integers.py": {
        "FACTORS": "time of compilation: more are one value",
        "LARGEST": "digits of a dtype",
        "added: 16": "digits of a dtype",
    },
    "emit/entry.py": {"VALUES": "numbers in a line of text"},
    "emit/folds.py": {"TERMS": "time of compilation: more are one value"},
    "lower/built.py": {"LARGEST": "digits of a place: products of two sizes have to be one"},
    "lower/several.py": {
        "COUNTS": "vectors that the headers take together",
        "FEW": "registers that every instruction set has, with two accumulators each",
        "FOLDS": "the same",
        "MANY": "the same, with one accumulator",
        "MOST": "registers that every instruction set has",
        "MUCH": "time of compilation",
        "LIGHT": "vectors of a row that hide what it takes to add up the accumulators",
        "OF_FEW": "points of the narrowest loop that has so many vectors anywhere",
        "OF_FOLD": "rows that a compiler does not write out",
        "STEPS": "as many as an addition takes anywhere",
    },
    "emit/kernel_vectors.py": {"MAX_VALUES": "elements that the tests of a project have"},
    "emit/launches.py": {
        "MAX_LINES": "lines of a model that a comment names",
        "MAX_MODULES": "modules of a model that a comment names",
    },
    "emit/places.py": {
        "MOST": "what an int holds",
        "TILE": "no tile of any row is larger (test_no_tile_is_larger_than_places_assume)",
    },
    "emit/reference.py": {"LONG": "characters of a line of text"},
    "emit/sharing.py": {"READABLE": "nodes of an expression that is read as one"},
    "emit/text.py": dict.fromkeys(
        ("LOOSE", "SUM", "PRODUCT", "TIGHT", "WORD"), "how strongly an operator of C binds"
    ),
    "emit/vectors.py": {
        "MAX_WORK": "what the tests of a project compute at most",
        "ELEMENT": "what the tests of a project compute at most",
        "WEIGHT_STREAM": "of the random numbers of the tests of a project",
        "WEIGHT_SCALE": "of the random numbers of the tests of a project",
        "NOISE_STREAM": "of the random numbers of the tests of a project",
        "SHAKE": "digits of a dtype",
    },
    "emit/weights_file.py": {
        "GOLDEN": "of the hash of weights",
        "BLOCK": "bytes hashed at a time while a project is written",
        "PART": "bytes packed at a time while a project is written",
    },
    "lower/algebra.py": {"MOST_TERMS": "time of compilation: a longer polynomial is one atom"},
    "lower/gathered.py": {
        "VECTOR": "bytes of the longest copy and load, on every GPU",
        "PIECES": "bytes of the copies of gathered operands, and their half",
    },
    "lower/arena.py": {
        "MOVES": "time of compilation",
        "WORSE": "of a search for places in memory, in shares of it",
    },
    "lower/assemble.py": {"to_align: 16": "bytes: what tensor maps are defined on"},
    "lower/canonicalize.py": {"SIGNIFICANDS": "bits of a dtype"},
    "lower/float_states.py": {"EXACT": "digits of a dtype"},
    "lower/join_grids.py": {
        "MOST": "text of a kernel, which grows with its grids",
        "NEAR": "layers that read one value stay apart, however many there are",
    },
    "lower/long_chains.py": {
        "LEFT": "time of compilation: what is stored has to shorten the text",
        "DEEP": "text of a kernel: so few steps are written again",
    },
    "lower/layout.py": {"MAX_RANK": "time of compilation: orders of more axes"},
    "lower/mapped.py": {"_is_fetched: 16": "bytes: what tensor maps are defined on"},
    "lower/measure.py": {
        "LARGEST": "time of compilation, and text of a kernel",
        "DEEPEST": "time of compilation, and text of a kernel",
    },
    "lower/named.py": {
        "DIGITS": "of a double, less those of a whole exponent",
        "FAR": "exponents of doubles",
        "ROUNDED": "digits of a double",
    },
    "lower/operand_names.py": {"LONGEST": "characters of a name"},
    "lower/contract.py": {"in_groups: 8": "bits of a byte"},
    "lower/continuous.py": {
        "AGREE": "digits of a dtype",
        "NOTHING": "digits of a dtype",
        "BITS": "digits of a dtype",
        "TURNS": "time of compilation: a condition turns at fewer places",
        "_MAGNITUDES": "numbers that a dtype has",
        "SAMPLES": "numbers that a dtype has",
    },
    "lower/groups.py": {
        "WORD": "bytes of a word of panels, whose products the headers add up at once",
        "PARTS": "time of compilation: a longer block is no group",
        "RUNS": "bytes of a block's run of bits, in any format",
        "PLANES": "of an integer's bits: a statement has two",
        "LARGEST": "digits: an i32 holds the sum of a larger group, its f32 does not",
        **dict.fromkeys(("unit: 8", "_terms: 8", "_plane: 8", "_planes: 8"), "bits of a byte"),
        "_planes: 128": "the greatest number below which integers of 8 bits begin",
    },
    "lower/panel_columns.py": {"at: 8": "bits of a byte"},
    "lower/order.py": {"LANES": "a width that the headers want and no statement uses"},
    "lower/phases.py": {"MOST": "text of a kernel, which has a load for each phase"},
    "lower/pipeline.py": {"MOST": "what an int holds"},
    "lower/radix.py": {
        "BITS": "bits of a dtype",
        "COUNTERS": "of the headers' struct: the tasks drawn, and two that phases wait for",
    },
    "lower/prepare.py": {"MOST": "bytes of a wider dtype: f32 of 16 bits"},
    "lower/roles.py": dict.fromkeys(("_tile: 100", "time: 100"), "rates are in 100"),
    "lower/simt.py": dict.fromkeys(
        ("_deep: 8", "_is_repeated: 8"), "a share of the work of a task"
    ),
    "lower/split.py": {"MOST_TERMS": "digits: a longer sum in one piece loses some"},
    "lower/stream_roles.py": {"BATCHES": "dimensions of a tensor map's type, which has two"},
    "lower/terms.py": {"MOST_TERMS": "time of compilation: sums of more terms"},
    "lower/tile_time.py": dict.fromkeys(("fastest: 100", "time: 100"), "rates are in 100"),
    "lower/whole.py": dict.fromkeys(("MOST", "ROUNDED"), "digits of a dtype"),
}


def numbers_of(tree: ast.Module) -> Iterator[str]:
    """The names of a module, of its classes and of defaults that have numbers other than 0 and 1."""
    for s in ast.walk(tree):
        match s:
            case ast.Module(body=body) | ast.ClassDef(body=body):
                for x in body:
                    yield from _assigned(x)
            case ast.arguments():
                defaults = [*s.defaults, *(d for d in s.kw_defaults if d is not None)]
                yield from (f"default {ast.unparse(d)}" for d in defaults if _has_number(d))
            case _:
                pass


def _assigned(s: ast.stmt) -> Iterator[str]:
    match s:
        case ast.Assign(targets=targets, value=value) if _has_number(value):
            names = (n for t in targets for n in ast.walk(t))
        case ast.AnnAssign(target=target, value=ast.expr() as value) if _has_number(value):
            names = ast.walk(target)
        case _:
            return
    yield from (n.id for n in names if isinstance(n, ast.Name))


def numbers_in_functions(tree: ast.Module) -> Iterator[str]:
    """The numbers from 8 on that functions say by themselves, less powers of two and bits of a dtype."""
    for s in ast.walk(tree):
        if isinstance(s, ast.FunctionDef):
            inside = [n for x in s.body for n in ast.walk(x)]
            apart = {id(x) for n in inside if _is_of_bits(n) for x in ast.walk(n)}
            own = (n.value for n in inside if isinstance(n, ast.Constant) and id(n) not in apart)
            yield from (f"{s.name}: {c}" for c in own if type(c) in (int, float) and c >= 8)


def _is_of_bits(n: ast.AST) -> bool:
    match n:
        case ast.Compare(left=left):
            return ast.unparse(left).endswith(".bits")
        case ast.BinOp(left=ast.Constant(value=2), op=ast.Pow()):
            return True
        case _:
            return False


def _has_number(value: ast.expr) -> bool:
    constants = (n.value for n in ast.walk(value) if isinstance(n, ast.Constant))
    return any(type(c) in (int, float) and c not in (0, 1) for c in constants)


@pytest.mark.slow
def test_no_number_of_a_machine_stands_outside_of_its_row() -> None:
    found: dict[str, set[str]] = {}
    for folder in ("lower", "emit"):
        for path in sorted((PACKAGE / folder).glob("*.py")):
            tree = ast.parse(path.read_text(encoding="utf-8"))
            names = {*numbers_of(tree), *(numbers_in_functions(tree) if folder == "lower" else ())}
            if names:
                found[path.relative_to(PACKAGE).as_posix()] = names
    kept = {path: set(names) for path, names in KEPT.items()}
    more = {path: names - kept.get(path, set()) for path, names in found.items()}
    assert not {path: names for path, names in more.items() if names}, "it belongs to a machine"
    less = {path: names - found.get(path, set()) for path, names in kept.items()}
    assert not {path: names for path, names in less.items() if names}, "not needed any more"


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("A = 32", {"A"}),
        ("A, B = 3, (1 << 4)", {"A", "B"}),
        ("A: Tile = Tile(128, rate=0.5)", {"A"}),
        ("A = {'rows': (1, 32)}", {"A"}),
        ("class C:\n    rows: int = 64", {"rows"}),
        ("def f(x, most=16): pass", {"default 16"}),
        ("def f(x, *, most=16): pass", {"default 16"}),
        ("def f(x):\n    return 4 * x + 64", {"f: 64"}),
        ("def f(x):\n    return x.bits == 16 and 7 < 2**31", set[str]()),
        ("A = ix(1)\nB = 'of 32'", set[str]()),
    ],
)
def test_every_number_is_seen(text: str, names: set[str]) -> None:
    tree = ast.parse(text)
    assert {*numbers_of(tree), *numbers_in_functions(tree)} == names


def test_no_tile_is_larger_than_places_assume() -> None:
    """The type that counts places assumes how far a tile may reach past the end of its operand."""
    tiles = [
        *(size for t in SM_80.products.matrix + SM_80.products.scalar for size in t[:3]),
        *(size for t in SM_80.products.pair for size in t[:3]),
        *(size for t in SM_80.row_folds.one + SM_80.row_folds.two for size in t[:3]),
        *(size for each in SM_80.streams.scalar.values() for t in each for size in (*t[:2],)),
        *(SM_80.streams.rows, SM_80.streams.step, SM_80.streams.widest),
    ]
    assert max(tiles) <= TILE


# ---- all of a row is read ----

# What no plan asks for, and who reads it.
READ_ELSEWHERE = {
    "name": "the target's row",
    "pairs": "the target's row",
    "band": "the speller of kernels for the copy engine",
}


def watched(row: Row, seen: set[tuple[str, str]]) -> Row:
    """The same row, which notes the fields that are read of it and of its parts."""
    kind = type(row)
    assert is_dataclass(row)
    own = {f.name: getattr(row, f.name) for f in fields(row)}

    class Watched(kind):
        def __getattribute__(self, name: str) -> Any:
            if name in own:
                seen.add((kind.__name__, name))
            return super().__getattribute__(name)

    return Watched(**{n: watched(x, seen) if is_dataclass(x) else x for n, x in own.items()})


def all_fields(row: object) -> set[tuple[str, str]]:
    assert is_dataclass(row)
    out: set[tuple[str, str]] = set()
    for f in fields(row):
        out.add((type(row).__name__, f.name))
        value = getattr(row, f.name)
        out |= all_fields(value) if is_dataclass(value) else set()
    return out


def kernels(
    function: Callable[..., Any],
    inputs: Mapping[str, Any],
    device: Device,
    architectures: tuple[str, ...] = (),
) -> tuple[LoweredKernel, ...]:
    return kernels_of(traced(function, **inputs), device, architectures)


def kernels_of(
    graph: Graph, device: Device, architectures: tuple[str, ...] = ()
) -> tuple[LoweredKernel, ...]:
    for step in GRAPH_PASSES:
        graph = step(graph)
    return assemble((("entry", graph),), device, architectures=architectures).kernels


def halves(*shape: Any) -> Any:
    return lg.spec(*shape, dtype=lg.bf16)


def label(x: Any, w: Any, y: Any) -> Any:
    return F.cross_entropy(x @ w.T, y, reduction="none")


def label_by_weights(x: Any, y: Any) -> Any:
    return label(x, weight(500, 64, dtype=lg.bf16), y)


def of_few_bits(x: Any) -> Any:
    """Products with floats that are made of weights of 8 bits."""
    return x @ (weight(99, 64, dtype=lg.i8).to(lg.f32) * weight(99, 1, name="scale")).T


def gradient(q: Any, k: Any, v: Any, d: Any) -> Any:
    """Two products in one fold."""
    return ((q @ k.mT).exp() * (d @ v.mT)) @ k


def windows_of_bytes(x: Any) -> Any:
    return F.conv2d(x.to(lg.i32), weight(20, 16, 3, 3, dtype=lg.i8).to(lg.i32))


MORE: dict[str, tuple[Callable[..., Any], dict[str, Any]]] = {
    "channels": (lambda x: x.softmax(1), {"x": lg.spec(2, 4096, 64, 64)}),
    "pair": (lambda x, v, w: F.silu(x @ v) * (x @ w), {"x": halves(99, 64), "v": halves(64, 64), "w": halves(64, 64)}),
    "far columns": (lambda x: x.sum(0), {"x": lg.spec(4096, 1024)}),
    "few columns": (lambda x, w: x @ w, {"x": halves(20000, 200), "w": halves(200, 16)}),
    "labels of few": (label, {"x": halves(9, 64), "w": halves(5000, 64), "y": lg.spec(9, dtype=lg.i64)}),
    "scores of one": (lambda x: (x @ weight(5000, 64).T).logsumexp(-1), {"x": lg.spec(64)}),
    "labels by weights": (label_by_weights, {"x": halves(900, 64), "y": lg.spec(900, dtype=lg.i64)}),
    "quants": (
        lambda x, q, s: x @ (q.to(lg.f32) * s).mT,
        {"x": lg.spec(9, 64), "q": lg.spec(99, 64, dtype=lg.i8), "s": lg.spec(99, 1)},
    ),
    "quants of one row": (
        lambda x, q, s: x @ (q.to(lg.f32) * s).mT,
        {"x": lg.spec(1, 64), "q": lg.spec(4096, 64, dtype=lg.i8), "s": lg.spec(4096, 1)},
    ),
    "quants of two rows": (
        lambda x, q, s: x @ (q.to(lg.f32) * s).mT,
        {"x": lg.spec(2, 64), "q": lg.spec(4096, 64, dtype=lg.i8), "s": lg.spec(4096, 1)},
    ),
    "windows of bytes": (windows_of_bytes, {"x": lg.spec(1, 16, 9, 9, dtype=lg.i8)}),
    "weights of few bits": (of_few_bits, {"x": lg.spec(20, 64)}),
    "many long rows": (lambda x: x.sort(-1)[0], {"x": lg.spec(4096, 70000)}),
    "gradient": (gradient, {name: lg.spec(2, 900, 64) for name in "qkvd"}),
    "long heads": (
        F.scaled_dot_product_attention,
        {"query": halves(1, 2, 900, 256), "key": halves(1, 2, 900, 256), "value": halves(1, 2, 900, 256)},
    ),
}  # fmt: skip


@pytest.mark.slow
def test_every_number_of_a_row_is_read() -> None:
    seen: set[tuple[str, str]] = set()
    gpus = [watched(row, seen) for row in (SM_80, replace(SM_80, accumulators=2), SM_90A)]
    devices = [cpu.device_of(watched(PLANNED, seen)), *(cuda.device_of(g, gpus[2]) for g in gpus)]
    for function, inputs in (PROGRAMS | MORE).values():
        for device in devices:
            for kernel in kernels(function, inputs, device, (SM_90A.name,)):
                list(device.space(kernel.region))  # what else it could be
    in_groups = rounded(in_blocks("Q8_0", 1)[0], "i8").traced.entries[0][1]
    for kernel in kernels_of(in_groups, devices[0]):
        list(devices[0].space(kernel.region))
    rows = all_fields(PLANNED) | all_fields(SM_80) | all_fields(SM_90A)
    assert not {(part, name) for part, name in rows - seen if name not in READ_ELSEWHERE}


@pytest.mark.parametrize("name", READ_ELSEWHERE)
def test_what_no_plan_asks_for_is_read_by_a_target(name: str) -> None:
    trees = [ast.parse(p.read_text(encoding="utf-8")) for p in PACKAGE.glob("targets/*/*.py")]
    read = {n.attr for tree in trees for n in ast.walk(tree) if isinstance(n, ast.Attribute)}
    assert name in read


def test_targets_name_their_machines() -> None:
    row = TARGETS["cpu"].target
    assert row.isas == tuple(m.name for m in MACHINES)
    assert row.isas_of == {"bf16": ("avx512_bf16", "amx"), "i8": ("avx512_vnni", "amx")}
    assert {SM_80.name, SM_90A.name} <= set(TARGETS["cuda"].target.architectures)


# ---- another row plans otherwise ----


def on_cpu(machine: Processor) -> Device:
    return cpu.device_of(machine)


def on_gpu(machine: Gpu) -> Device:
    return cuda.device_of(machine, SM_90A)


def chosen(device: Device, name: str) -> list[object]:
    """What is stored between kernels, and the plan and the schedule of each."""
    found = kernels(*(PROGRAMS | MORE)[name], device)
    return [(k.region, str(k.plan), k.schedule) for k in found]


OTHER_PROCESSORS: dict[str, tuple[str, Callable[[Processor], Processor]]] = {
    "more threads share out a sum": (
        "long_sum",
        lambda m: replace(m, division=replace(m.division, lanes=2 * m.division.lanes)),
    ),
    "a smaller cache has fewer rows": (
        "linear_gelu",
        lambda m: replace(m, tiles=replace(m.tiles, floats={**m.tiles.floats, "rows": 48})),
    ),
    "vectors are wider than a row": (
        "row_sums",
        lambda m: replace(m, vectors=replace(m.vectors, least=64)),
    ),
    "scores are stored where fewer threads fold them": (
        "labels",
        lambda m: replace(m, storing=replace(m.storing, rows=1 << 30)),
    ),
    "scores of few rows are stored where parts have fewer columns": (
        "labels of few",
        lambda m: replace(m, storing=replace(m.storing, wide=1 << 30)),
    ),
}
OTHER_GPUS: dict[str, tuple[str, Callable[[Gpu], Gpu]]] = {
    "few multiprocessors share out a product less": (
        "product_deep",
        lambda m: replace(m, multiprocessors=2),
    ),
    "few multiprocessors share out keys less": (
        "one_token_of_many",
        lambda m: replace(m, multiprocessors=4),
    ),
    "less shared memory has smaller tiles": (
        "product_f16",
        lambda m: replace(m, shared_bytes=m.shared_bytes // 2),
    ),
    "smaller blocks share rows": (
        "long_sum",
        lambda m: replace(m, teams=replace(m.teams, threads=128)),
    ),
    "rows are ordered whole where less is kept": (
        "top_k",
        lambda m: replace(m, ordered=4),
    ),
    "a product is one block's where sums take long to add": (
        "product_deep",
        lambda m: replace(m, products=replace(m.products, added=1e9)),
    ),
}


@pytest.mark.parametrize("name", OTHER_PROCESSORS)
def test_another_processor_plans_otherwise(name: str) -> None:
    program, change = OTHER_PROCESSORS[name]
    assert chosen(on_cpu(change(PLANNED)), program) != chosen(on_cpu(PLANNED), program)


@pytest.mark.parametrize("name", OTHER_GPUS)
def test_another_gpu_plans_otherwise(name: str) -> None:
    program, change = OTHER_GPUS[name]
    assert chosen(on_gpu(change(SM_80)), program) != chosen(on_gpu(SM_80), program)


def test_the_same_row_plans_alike() -> None:
    """So that what the tests above see is the row's."""
    assert chosen(on_cpu(replace(PLANNED)), "normed") == chosen(on_cpu(PLANNED), "normed")
    assert chosen(on_gpu(replace(SM_80)), "normed") == chosen(on_gpu(SM_80), "normed")


def test_half_of_the_shared_memory_drops_tiles() -> None:
    half = replace(SM_80, shared_bytes=SM_80.shared_bytes // 2)
    assert 0 < len(tiles_of(lg.f16, half)) < len(tiles_of(lg.f16, SM_80))
    assert len(tiles_of(lg.f16, SM_80)) == len(SM_80.products.matrix)
    assert len(tiles_of_pair(half)) < len(tiles_of_pair(SM_80)) == len(SM_80.products.pair)
    less = replace(SM_90A, shared_bytes=SM_90A.shared_bytes // 2)
    assert SM_90A.copies is not None
    assert 0 < len(roles.tiles_of(less)) < len(roles.tiles_of(SM_90A)) == len(SM_90A.copies.tiles)

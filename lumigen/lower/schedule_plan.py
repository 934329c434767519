"""schedule_plan: tile sizes, places and the skeleton of a plan's kernel. The heuristic; a search would fill the same.

Sites of `panel`: rows and columns of a work tile, `chunk` columns between two epilogues, `depth` of k at a time; where
the kernel packs columns, `deep` of k in a tile and `held` rows of products. A weight of more than `shared` elements
comes from memory: all rows meet some of its columns before others do. Products of bf16 then divide columns, not rows,
and have `near_rows` else. Sites of `simt`: `visits` of elements in a work tile, `lanes` of a lane axis whose elements
each run a reduction.
"""

from __future__ import annotations

from lumigen.dtype import f32
from lumigen.index import extent_of
from lumigen.lower.cascade import find_cascade
from lumigen.lower.chain import find_chain
from lumigen.lower.contract import find_contraction, is_paired
from lumigen.lower.pipeline import multiplied_in
from lumigen.lower.stream import SITES as STREAM_SITES
from lumigen.lower.stream import Streamable, find_streamable, size
from lumigen.lower.tile_time import MULTIPROCESSORS, fastest
from lumigen.plan import RegionPlan
from lumigen.schedule import Layout, Place, Schedule, schedule

PANELS = Place("cache", Layout((("n", 0), ("k", 0), ("n", 16))))
BLOCKS = Place(
    "cache", Layout((("m", 0), ("k", 0), ("m", 0)))
)  # the last factor is the ISA's rows in registers
VECTOR_LOOPS = schedule("simt", {"visits": 8192, "lanes": 128})
FEW_COLUMNS = 8
LONGEST = 1 << 20  # terms of a sum that runs in one piece
# five panels to each of four streams in which a row reads its columns: long streams, and not a power of two apart,
# which is slower (docs/design/0005)
ONE_ROW = {
    "rows": 1,
    "columns": 320,
    "chunk": 320,
    "depth": LONGEST,
    "shared": LONGEST,
    "near_rows": 1,
}


# rows of a block past which tiles stream by, 16 to a warp, and how many points of the folded axis come at a time:
# fewer where rows are so long that their sums fill the registers
STREAM_ROWS, STREAM_WARPS, STREAM_STEP, STREAM_STEP_OF_LONG, LONG = 64, 4, 64, 32, 128
# of f32, for the longest of a row and of the inner contraction: rows, points, warps, from many rows in a block to few.
# 32 rows of a warp read least for a product; no block has more than the 99 KiB of the smallest devices
SCALAR_STREAMS = {
    64: ((128, 32, 4), (64, 32, 4)),
    128: ((128, 16, 4), (64, 16, 4)),
    256: ((32, 16, 2),),
}


def schedule_blocks(plan: RegionPlan) -> Schedule:
    """Of blocks of threads: vector loops, or tiles of a product."""
    *others, store = plan.region.stores
    streamable = find_streamable(plan.region.stores, STREAM_ROWS)
    if streamable is not None:
        return _stream_of_blocks(streamable)
    found = None if others else find_contraction(store)
    if found is None:
        return vector_loops_of_blocks(plan)
    return fastest(found, multiplied_in(found.rows, found.columns))


def _stream_of_blocks(found: Streamable) -> Schedule:
    """Of rows past which tiles stream by."""
    columns, depth = size(found.cascade.rows), size(found.cascade.inner.axes)
    longest = max(columns, depth)
    step = STREAM_STEP_OF_LONG if longest > LONG else STREAM_STEP
    tiles = ((STREAM_ROWS, step, STREAM_WARPS),)
    if found.element is f32:
        tiles = next(t for most, t in SCALAR_STREAMS.items() if longest <= most)
    m, batch = (extent_of(axes).estimate() for axes in (found.m_axes, found.grid))
    busy = (t for t in tiles if -(-m // t[0]) * batch >= MULTIPROCESSORS)
    rows, step, warps = next(busy, tiles[-1])
    sizes = (rows, columns, depth, step, warps)
    return schedule("cascade", dict(zip(STREAM_SITES, sizes, strict=True)))


def vector_loops_of_blocks(plan: RegionPlan) -> Schedule:
    """Vector loops of a block of threads, each of which moves 16 bytes of the narrowest float that is there."""
    stored = (s.dst for s in plan.region.stores)
    floats = [b.dtype for b in (*plan.region.reads(), *stored) if b.dtype.is_float]
    width = 16 // min((d.itemsize for d in floats), default=4)
    return schedule("simt", {"threads": 256, "width": max(2, width), "vectors": 2, "repeated": 8})


def schedule_plan(plan: RegionPlan) -> Schedule:
    *others, store = plan.region.stores
    places = {"a": BLOCKS, "b": PANELS, "acc": Place("cache")}
    found = None if others else find_contraction(store, one_row=True)
    if found is not None and not found.m_axes:
        # a vector streams the panels past: each to its end, and so few of them that every thread has its share
        return schedule("panel", {**ONE_ROW}, places)
    if found is not None and is_paired(found):
        # a matrix unit is so fast that packing rows and bringing columns have to serve many products: 256 rows of 2048
        # stay in the second cache. Columns of more than 1 MiB come once for all rows that there are. Others stay beside
        # them, and then 32 rows are better: they stay in the first cache, with the products that wait to be rounded
        tile = {
            "rows": 256,
            "columns": 1024,
            "chunk": 64,
            "depth": 2048,
            "shared": 512 * 1024,
            "near_rows": 32,
        }
        return schedule("panel", tile, places)
    if found is not None:
        # 96 rows of 384 and a panel that deep fill half of a 512 KiB second cache; 128 columns between epilogues
        # keep the products of a tile there as well
        tile = {
            "rows": 96,
            "columns": 512,
            "chunk": 128,
            "depth": 384,
            "shared": 256 * 1024,
            # columns that the kernel packs: 144 to a row of a tile, 256 of k, beside 256 rows of products
            "deep": 256,
            "held": 256,
        }
        return schedule("panel", tile, places)
    chain = None if others else find_chain(store)
    if chain is not None and is_paired(chain.outer):
        # a part is as deep as makes up for bringing the sums in, and enough rows share what the weights take to come
        tile = {"rows": 256, "least_rows": 64, "part": 512, "depth": 1024}
        return schedule("panel", tile, places)
    if chain is not None:
        # fewer than 8 rows would read weights faster than multiply them
        return schedule("panel", {"rows": 96, "least_rows": 8, "part": 128, "depth": 384}, places)
    fold = find_cascade(plan.region.stores, one_row=True)
    if fold is not None:
        # few columns would leave most lanes idle, so they run one by one, over so many scores that memory is read in
        # long streams; else scores and weights of 64 x 64 and accumulators stay in the first two caches
        most = extent_of(fold.columns).bounds()[1]
        if most is not None and most <= FEW_COLUMNS:
            return schedule("panel", {"columns": 1, "depth": 256}, places)
        return schedule("panel", {"columns": 64, "depth": 64}, places)
    return VECTOR_LOOPS

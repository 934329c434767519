"""schedule_plan: builders, tile sizes and places for the kernels of a plan, the heuristic's choice.

Sites of `panel`: rows and columns of a work tile, `chunk` columns between two epilogues, `depth` of k at a time; of
`windows`, which packs columns, `deep` of k in a tile and `held` rows of products. A weight of more than `shared`
elements comes from memory and is `streamed`: all rows meet some of its columns before others do. Products of bf16 then
divide columns, not rows, and have `near_rows` else.
"""

from __future__ import annotations

from lumigen.dtype import f32
from lumigen.index import extent_of
from lumigen.lower.block_fold import schedule_of_rows
from lumigen.lower.cascade import Cascade
from lumigen.lower.contract import Columns, Contraction, Products, find_products, is_paired
from lumigen.lower.contractions import EXPANSION
from lumigen.lower.pipeline import multiplied_in
from lumigen.lower.row_fold import RowFold
from lumigen.lower.scope import kernel_reductions
from lumigen.lower.stream import SITES as STREAM_SITES
from lumigen.lower.stream import Streamable, size
from lumigen.lower.tile_time import MULTIPROCESSORS, fastest, of_pair
from lumigen.ops import TRANSCENDENTALS
from lumigen.plan import KernelPlan, Loop, Native, Product
from lumigen.region import Prim, Region, Scan, free_axes, walk
from lumigen.schedule import Schedule, schedule

FEW_COLUMNS = 8
COMPUTED_AGAIN = 4  # times that rows may be: once for each tile of columns
LEAST_COLUMNS = 64  # between two epilogues: four panels, which a tile of sums in registers may have
LONGEST = 1 << 20  # terms of a sum that runs in one piece
PANELS = {"b": "panels"}
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
# a matrix unit is so fast that packing rows and bringing columns have to serve many products: 256 rows of 2048 stay in
# the second cache. Columns of more than 1 MiB come once for all rows that there are. Others stay there with them, and
# then 32 rows are better: they stay in the first cache, with the products that wait to be rounded
OF_PAIRS = {
    "rows": 256,
    "columns": 1024,
    "chunk": 64,
    "depth": 2048,
    "shared": 512 * 1024,
    "near_rows": 32,
}
# 96 rows of 384 and a panel that deep fill half of a 512 KiB second cache; 128 columns between epilogues keep the
# products of a tile there as well
OF_FLOATS = {
    "rows": 96,
    "columns": 512,
    "chunk": 128,
    "depth": 384,
    "shared": 256 * 1024,
    "near_rows": 96,
}
# columns that the kernel packs: 144 to a row of a tile, 256 of k, with 256 rows of products
WINDOWS = {"rows": 96, "chunk": 128, "deep": 256, "held": 256}
# a part is as deep as makes up for bringing the sums in, and enough rows share what the weights take to come
ROWS_OF_PAIRS = {"rows": 256, "least_rows": 64, "part": 512, "depth": 1024}
# fewer than 8 rows would read weights faster than multiply them
ROWS_OF_FLOATS = {"rows": 96, "least_rows": 8, "part": 128, "depth": 384}
# a vector streams panels past as in a product of one row
ROW_OF_PRODUCT = {"rows": 1, "least_rows": 1, "part": 320, "depth": 1024}
# a row of its own for each work tile, and so much of it that it stays in the first cache between levels
ROWS_OF_NUMBERS = {"rows": 1, "least_rows": 1, "part": 4096, "depth": 1}
# few columns would leave most lanes idle, so they run one by one, over so many scores that memory is read in long
# streams; else scores and weights of 64 x 64 and accumulators stay in the first two caches
ROW_OF_FOLD = {"depth": 256}
FOLD = {"columns": 64, "depth": 64}
# points that a thread folds at least where several share those of a fold, in whole steps, for all threads of a large
# machine
POINTS_OF_THREAD, STEP_OF_PARTS, THREADS = 512, 64, 64
VISITS = {"visits": 8192, "lanes": 128}

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
# where a warp has all rows, the points that come at a time, for the longest of a row of 16 bits, and of f32, of which
# a warp brings no line of more than 128: little, so that many blocks are on a multiprocessor
FEW_ROWS = 16
FEW_STEPS = {
    False: {16: 32, 32: 32, 64: 32, 128: 32, 256: 16},
    True: {16: 32, 32: 32, 64: 32, 128: 16},
}
# of the parts that a fold is split into: warps on each multiprocessor, the least steps of one, and of a fold for it,
# which should take several times as long as the launch of the merge; it takes a result from all parts in turn
WARPS_OF_PARTS, STEPS_OF_PART, STEPS_TO_SPLIT = 4, 2, 16
LEAST_PARTS, MOST_PARTS = 4, 32
BLOCK = 256  # threads: kThreads of the device's headers


def schedule_of_thread(plan: KernelPlan) -> Schedule:
    """Of a kernel whose task is one thread's."""
    match _main(plan):
        case Loop(body=(Product() as inner, *_)) as loop if inner.n == loop.axes:
            return _of_rows(RowFold.of(plan))
        case Loop(body=(Product() as inner, *_)):
            most = extent_of(inner.n).bounds()[1]
            few = most is not None and most <= FEW_COLUMNS
            return schedule("cascade_row", ROW_OF_FOLD) if few else schedule("cascade", FOLD)
        case Loop(kind="seq", carries=carries) if any(c.correct is not None for c in carries):
            return _of_rows(RowFold.of(plan))
        case Native():
            return schedule("order", {"threads": 1})
        case _ if _scans(plan):
            return schedule("scan", VISITS)
        case _:
            return schedule("simt", {**VISITS, "stretches": 4})


def _of_rows(found: RowFold) -> Schedule:
    """Of a fold of rows: products with weights in panels, other columns in a tile for each part."""

    def place(*products: Contraction) -> str:
        in_panels = all(Columns.of(c).once is not None for c in products)
        return ("panels" if in_panels else "tile") if products else "none"

    first, second = found.first, found.second
    if first is None:
        return schedule("row_fold", ROWS_OF_NUMBERS, {"inner": "none", "outer": "none"})
    pairs = is_paired(second[0] if second else first)
    sizes = ROWS_OF_PAIRS if pairs else ROWS_OF_FLOATS
    if not second and extent_of(found.m) == 1:
        sizes = ROW_OF_PRODUCT
    return schedule("row_fold", sizes, {"inner": place(first), "outer": place(*second)})


def schedule_of_windows(rows: str) -> Schedule:
    """Of a product whose columns the kernel packs; its rows are at this place."""
    return schedule("windows", WINDOWS, {"a": rows, "b": "windows"})


def schedule_of_panels(found: Products) -> Schedule:
    """Of products whose columns lie in panels."""
    once = [Columns.of(c).once for c in found.each]
    pairs, number = any(map(is_paired, found.each)), len(found.each)
    given = OF_PAIRS if pairs else OF_FLOATS
    if not found.each[0].m_axes:
        # a vector streams the panels past: each to its end, and so few of them that every thread has its share
        given = ONE_ROW
    sizes = dict(given)
    shared, near_rows = sizes.pop("shared"), sizes.pop("near_rows")
    large = any(c is not None and c[1].n * c[1].k > shared for c in once)
    streamed = large and None not in once
    if pairs and not streamed:
        sizes["rows"] = near_rows
    if found.each[0].m_axes and number > 1:
        # they share what one has in the caches: its columns, and the sums that wait for the epilogue
        for site in ("columns", "chunk"):
            least = min(sizes[site], LEAST_COLUMNS)
            sizes[site] = max(least, sizes[site] // number // LEAST_COLUMNS * LEAST_COLUMNS)
    return schedule("panel", sizes | {"streamed": int(streamed)}, PANELS)


def maps_rows(region: Region) -> bool:
    """Whether a product of computed rows, with statistics of each, takes no longer than if they were stored before.

    Each tile of columns computes them again: two passes over a row, as against its products with all columns of the
    tile, which is up to a twenty-fifth of the time. A launch less makes up for it while tiles are few. Not where a
    matrix unit has so many rows in a tile that what waits to be packed does not stay in a cache. One row is nothing
    beside the weights that stream past it.
    """
    (store,) = region.stores
    found = find_products(store, one_row=True, statistics=True)
    one, *others = found.each if found is not None else (None,)
    if found is None or one is None or others or not kernel_reductions([one.rows]):
        return False
    costly = (e for e in walk([one.rows]) if isinstance(e, Prim) and e.op in TRANSCENDENTALS)
    if any(free_axes(e) & set(one.reduce.axes) for e in costly):
        return False
    sizes = schedule_of_panels(found)
    if not one.m_axes:
        return True
    tiles = -(-extent_of(one.n_axes).estimate() // sizes["columns"])
    return tiles <= COMPUTED_AGAIN and not (is_paired(one) and sizes["streamed"])


def _main(plan: KernelPlan) -> object:
    """The first step inside the grid, which says what kind of kernel it is."""
    return plan.root[-1].body[0]


def _scans(plan: KernelPlan) -> bool:
    return any(isinstance(s.value, Scan) for s in plan.region.stores)


def schedule_of_block(plan: KernelPlan) -> Schedule:
    """Of a kernel whose task is a block's: vector loops, or tiles of a product."""
    match _main(plan):
        case Product():
            several, _ = Products.of(plan)
            found, *others = several.each
            if others:
                return of_pair(found)
            return fastest(found, multiplied_in(found.rows, found.columns))
        case Loop(body=(Product(), *_)) as loop if not any(c.product for c in loop.carries):
            return schedule_of_rows(plan)
        case Loop(body=(Product(), *_)):
            return _stream(Streamable.of(Cascade.of(plan), plan.stores, STREAM_ROWS))
        case Native():
            return schedule("order", {"threads": BLOCK})
        case _ if _scans(plan):
            return schedule("scan", {"threads": BLOCK, "width": _width(plan)})
        case _:
            joined = plan.then is not None
            # left to itself the compiler spills registers so that more than two blocks of a multiprocessor have some
            sizes = {"vectors": 2, "repeated": 8, "hold": int(not joined), "blocks": 2 * joined}
            return schedule("simt", sizes | {"threads": BLOCK, "width": _width(plan)})


def _width(plan: KernelPlan) -> int:
    """Lanes of a thread, each of which moves 16 bytes of the narrowest float that is there."""
    stored = (s.dst for s in plan.region.stores)
    floats = [b.dtype for b in (*plan.region.reads(), *stored) if b.dtype.is_float]
    return max(2, 16 // min((d.itemsize for d in floats), default=4))


def _stream(found: Streamable) -> Schedule:
    """Of rows past which tiles stream by."""
    columns, depth = size(found.cascade.rows), size(found.cascade.inner.axes)
    longest = max(columns, depth)
    step = STREAM_STEP_OF_LONG if longest > LONG else STREAM_STEP
    tiles = ((STREAM_ROWS, step, STREAM_WARPS),)
    if found.element is f32:
        tiles = next(t for most, t in SCALAR_STREAMS.items() if longest <= most)
    m, batch = (extent_of(axes).estimate() for axes in (found.m_axes, found.grid))
    few = FEW_STEPS[found.element is f32]
    if m <= FEW_ROWS and longest in few:
        tiles = ((FEW_ROWS, few[longest], 1),)
    busy = (t for t in tiles if -(-m // t[0]) * batch >= MULTIPROCESSORS)
    rows, step, warps = next(busy, tiles[-1])
    sizes = (rows, columns, depth, step, warps)
    return schedule("stream", dict(zip(STREAM_SITES, sizes, strict=True)))


def parts_of_threads(plan: KernelPlan, sizes: Schedule) -> int:
    """Into how many parts to split a fold that threads share; 1 where they have enough to do as it is."""
    loop = _main(plan)
    assert isinstance(loop, Loop)
    grid, (inner,) = plan.root[-1].axes, (s for s in loop.body if isinstance(s, Product))
    of_inner = {*inner.m, *inner.n}
    own = {a for c in loop.carries if c.product for a in (*c.product.m, *c.product.n)}
    rows = extent_of(a for a in grid if a in of_inner).estimate()
    others = extent_of(a for a in grid if a not in of_inner | own).estimate()
    tasks = others * -(-rows // sizes.get("least_rows", 1))
    points = extent_of(loop.axes).estimate()
    return max(1, min(THREADS // tasks, points // POINTS_OF_THREAD))


def is_of_numbers(plan: KernelPlan) -> bool:
    """Whether a fold carries numbers of its rows alone, which its parts merge in no time."""
    loop = _main(plan)
    return isinstance(loop, Loop) and not any(c.product for c in loop.carries)


def parts_of_blocks(found: Streamable, sizes: Schedule) -> int:
    """Into how many parts to split a fold; 1 where blocks that have all of its points do as well.

    Only of so few rows that scores are hardly more than what they are made of: others keep the device busy, or should
    meet what streams by in large tiles.
    """
    rows, step = sizes["rows"], sizes["step"]
    m, batch = (extent_of(axes).estimate() for axes in (found.m_axes, found.grid))
    points = extent_of(found.cascade.fold.axes).estimate()
    is_large = m >= EXPANSION * extent_of(found.cascade.inner.axes).estimate()
    if is_large or points < STEPS_TO_SPLIT * step:
        return 1
    blocks = MULTIPROCESSORS * WARPS_OF_PARTS // sizes["warps"]
    parts = min(blocks // (-(-m // rows) * batch), points // (STEPS_OF_PART * step), MOST_PARTS)
    return parts if parts >= LEAST_PARTS else 1

"""machines: processors as rows of numbers, one for each instruction set.

A kernel is compiled for all of them, and weights are packed once, so `PLANNED` is what kernels are planned for: the
row with the widest vectors and the matrix unit. Tiles that fill these are whole numbers of narrower vectors, while
tiles for narrower ones would leave wide ones partly empty. Its caches are those of a core of 512 KiB.
"""

from __future__ import annotations

from dataclasses import replace

from lumigen.lower.several import EACH
from lumigen.machine import (
    Division,
    Grain,
    Processor,
    ScanParts,
    Steps,
    Storing,
    Streams,
    ThreadTiles,
    Vectors,
)

WHOLE = 1 << 20  # terms of a sum that runs in one piece
THREADS = 64  # of a large machine
LOOPS = {"visits": 8192, "lanes": 128}

TILES = ThreadTiles(
    loops={**LOOPS, "stretches": 4, "kept": 8192, "together": EACH},
    scans=LOOPS,
    # five panels to each of four streams in which a row reads its columns: long streams, and not a power of two apart,
    # which is slower (docs/design/0005)
    one_row={
        "rows": 1,
        "columns": 320,
        "chunk": 320,
        "depth": WHOLE,
        "shared": WHOLE,
        "near_rows": 1,
    },
    # 96 rows of 384 and a panel that deep fill half of a 512 KiB second cache; 128 columns between epilogues keep the
    # products of a tile there as well
    floats={
        "rows": 96,
        "columns": 512,
        "chunk": 128,
        "depth": 384,
        "shared": 256 * 1024,
        "near_rows": 96,
    },
    # so many rows that to unpack a column takes little beside its products; they stay in the second cache in part
    unpacked={"rows": 256, "columns": 512, "chunk": 64, "depth": 384},
    # memory is read in long streams: few columns at a time, each to its end or nearly so
    unpacked_for_few={"rows": 16, "columns": 512, "chunk": 16, "depth": 2048},
    # a run of one k has so many rows that to begin it takes little beside its copy
    runs_of_bytes={"rows": 128, "columns": 1024, "chunk": 64, "depth": 2048},
    # integers in groups: rows of bytes and 64 columns of them stay in the second cache, however deep
    groups={"rows": 128, "columns": 512, "chunk": 64, "depth": 16384},
    # a matrix unit is so fast that packing rows and bringing columns have to serve many products: 256 rows of 2048
    # stay in the second cache. Columns of more than 1 MiB come once for all rows that there are. Others stay there with
    # them, and then 32 rows are better: they stay in the first cache, with the products that wait to be rounded
    pairs={
        "rows": 256,
        "columns": 1024,
        "chunk": 64,
        "depth": 2048,
        "shared": 512 * 1024,
        "near_rows": 32,
    },
    # columns that the kernel packs: 144 to a row of a tile, 256 of k, with 256 rows of products
    windows={"rows": 96, "chunk": 128, "deep": 256, "held": 256},
    # rows of an image stay in the first cache; eight accumulators do not wait for each other, and what is read of the
    # image serves as many of them as windows have rows
    sliding={"visits": 16384, "rows": 16, "columns": 256, "held": 8},
    # fewer than 8 rows would read weights faster than multiply them
    rows_of_floats={"rows": 96, "least_rows": 8, "part": 128, "depth": 384, "together": EACH},
    # a part is as deep as makes up for bringing the sums in, and enough rows share what the weights take to come
    rows_of_pairs={"rows": 256, "least_rows": 64, "part": 512, "depth": 1024, "together": EACH},
    # a vector streams panels past as in a product of one row
    row_of_product={"rows": 1, "least_rows": 1, "part": 320, "depth": 1024, "together": EACH},
    # a row of its own for each work tile, and so much of it that it stays in the first cache between levels
    rows_of_numbers={"rows": 1, "least_rows": 1, "part": 4096, "depth": 1, "together": EACH},
    # scores and weights of 64 x 64 and accumulators stay in the first two caches
    fold={"columns": 64, "depth": 64},
    # few columns would leave most lanes idle, so they run one by one, over so many scores that memory is read in long
    # streams
    fold_of_few={"depth": 256},
    # as many sums as hide the time that one takes, and streams of memory that a processor follows
    held=4,
    held_lanes=6,
    ahead=1,
    stretches=32,
    few_columns=8,
    least_columns=64,  # four panels, which a tile of sums in registers may have
    least_rows=32,
    computed_again=4,
    points_of_part=512,
    step_of_parts=64,
    rows_alike=4,  # to work out a run takes as long as two or three copies
    window_points=1024,
)
# hundredths of a cycle of one core, as measured with AVX-512
STEPS = Steps(
    vector=10,
    function=100,
    alone=70,
    function_alone=3000,
    product=5,
    near=15,
    far=60,
    stored=60,
    launch=4_000_000,
    cache=256 * 1024,
    tile=64,
    lanes=16,
    worth=16,
    worth_of_largest=4,
)
BASELINE = Processor(
    name="baseline",
    accumulators=8,
    storing=Storing(
        table=8,
        few_columns=16,
        long_row=128,
        many_terms=1 << 20,
        short=0,
        rows=64,  # eight threads with eight rows each
        wide=4096,  # eight parts of as many points as a thread folds at least
        expansion=2,
        maps=4,
        few_reads=4,
        few_steps=12,
        integers=True,
        unpacked=64,
        after=0,
        row=256,
        row_of_weights=1024,
        row_of_fold=512,
        bytes=True,
        panels=True,
        steps=STEPS,
    ),
    division=Division(
        lanes=64 * 128,  # results, 128 to a task, for every core of a large machine
        row=Grain(128, 1 << 15),  # parts of 128 KiB
        column=Grain(1, 256),
        again=1 << 17,
        line=64,
        repeated=8,
        idle=2,
        worth=8,
        streams=Streams(page=2048, far=4 << 20, terms=128, turn=8, lanes=1024, rows=4),
    ),
    vectors=Vectors(
        window=8,
        least=4,
        divided=16,
        written=4,
        scanned=32,
        integers=True,
        pieces=64,
        doubles=True,
    ),
    scans=ScanParts(workers=THREADS, least=1 << 15, whole=256, fewest=4),
    runs=None,
    teams=None,
    pairs=False,
    threads=THREADS,
    scratch=1 << 26,  # a row of a million terms with its products is 8 MB
    tiles=TILES,
)
AVX2 = replace(BASELINE, name="avx2")
AVX512 = replace(AVX2, name="avx512")
AVX512_VNNI = replace(AVX512, name="avx512_vnni")
AVX512_BF16 = replace(AVX512_VNNI, name="avx512_bf16", pairs=True)
AMX = replace(AVX512_BF16, name="amx")
MACHINES = (
    BASELINE,
    AVX2,
    AVX512,
    AVX512_VNNI,
    AVX512_BF16,
    AMX,
)  # each has all that those before it have
PLANNED = AMX

"""machines: Apple's GPUs as rows of numbers, by family.

Kernels are planned for `APPLE7`, the GPU of an M1 Pro, which has the least of all that run them. Counts come from
Apple's tables of features by family (32 KiB of threadgroup memory, simdgroups of 32) and of its products (16 cores).
None of the times was measured: they order tiles as matrices of 8 by 8 ask for, until a first run on a Mac fits them.
"""

from __future__ import annotations

from dataclasses import dataclass

from lumigen.machine import (
    Division,
    Grain,
    ProductTile,
    ProductTiles,
    RowFoldTiles,
    ScanParts,
    Storing,
    StreamingGpu,
    StreamTile,
    StreamTiles,
    Teams,
    Vectors,
)

CORES = 16
NEVER = 1 << 30
PRODUCTS = ProductTiles(
    matrix=(
        ProductTile(64, 64, 16, 1, 4, 100, warps=(2, 2)),
        ProductTile(32, 64, 16, 1, 6, 75, warps=(1, 4)),
        ProductTile(32, 32, 16, 1, 8, 60, warps=(2, 2)),
        ProductTile(8, 64, 32, 1, 8, 25, warps=(1, 2)),
    ),
    scalar=(),
    small=(),
    few=(),
    fewest=0,
    narrow=0,
    tall=NEVER,
    pair=(
        ProductTile(32, 64, 16, 1, 4, 75, warps=(1, 4)),
        ProductTile(8, 64, 32, 1, 8, 25, warps=(1, 2)),
    ),
    stored=1,
    line=128,
    most_parts=1,  # threadgroups cannot read what others of the launch have stored: see SplitDepth
    long_part=NEVER,
    least_steps=4,
    read=0.5,
    read_again=0.2,
    in_flight=2e5,
    alone=0.75,
    beginning=4e5,
    added=NEVER,
)


@dataclass(frozen=True)
class SplitDepth:
    """Deep products of few tiles, whose depth is cut into parts."""

    tile: int  # rows and columns, by which tiles are counted
    least: int  # elements of the depth of a part: fewer are no worth another launch
    most: int  # parts


SPLIT_DEPTH = SplitDepth(tile=32, least=512, most=16)
STREAMS = (
    StreamTiles(  # a simdgroup has 8 rows; rows and what streams past them fill 32 KiB at most
        rows=32,
        warps=4,
        step=32,
        step_of_long=16,
        long=128,
        slots=1,
        scalar={
            64: (StreamTile(32, 32, 4, 1), StreamTile(16, 32, 2, 1)),
            128: (StreamTile(32, 16, 4, 1), StreamTile(16, 16, 2, 1)),
            256: (StreamTile(16, 8, 2, 1), StreamTile(8, 8, 1, 1)),
        },
        scalar_of_two={64: (StreamTile(16, 16, 2, 1),), 128: (StreamTile(8, 8, 1, 1),)},
        few={
            64: StreamTile(8, 32, 1, 1),
            128: StreamTile(8, 32, 1, 1),
            256: StreamTile(8, 16, 1, 1),
        },
        few_of_floats={
            64: StreamTile(8, 32, 1, 1),
            128: StreamTile(8, 16, 1, 1),
            256: StreamTile(8, 8, 1, 1),
        },
        widest=256,
        widest_of_two=128,
        registers=96,
        narrowest=8,
        neighbours=1,
        warps_of_parts=4,
        steps_of_part=2,
        steps_to_split=16,
        least_parts=4,
        most_parts=32,
        alone=8,
        most_alone=1 << 30,
    )
)
ROW_FOLDS = RowFoldTiles(
    one=((64, 64, 16, 1, 4), (32, 64, 16, 1, 4)),
    two=((32, 64, 16, 1, 4), (32, 32, 16, 1, 4)),
    blocks=4,
    deepest=512,
    least_tiles=4,
    most_alone=NEVER,
)
TEAMS = Teams(
    threads=256,
    warp=32,
    lane_bytes=2,  # one element of any float
    least_lanes=1,
    vectors=4,
    repeated=8,
    merged=0,  # the parts of a reduction are merged by a launch of its own
    joined_blocks=1,
    warp_vectors=4,
    rows_of_warps=NEVER,
    registers=0,  # nobody says how many: rows are read again, from a cache
    granted=8,
    turn=0,
    held=0,
    blocks=8,
    spare=8,
    addresses=16,
    idle=0,
    transposed=None,
    between=16,
    stretch=0,
    together=1,
    threads_together=0,
    blocks_together=0,
    blocks_of_several=0,
    strips=None,
)
APPLE7 = StreamingGpu(
    name="apple7",
    accumulators=1,
    storing=Storing(
        table=8,
        few_columns=16,
        long_row=128,
        many_terms=1 << 20,
        short=1 << 20,
        rows=0,
        wide=0,
        expansion=2,
        maps=4,
        few_reads=4,
        few_steps=12,
        integers=False,
        unpacked=0,
        after=8,
        row=256,
        row_of_weights=1024,
        row_of_fold=512,
        bytes=False,
        panels=False,
        steps=None,
    ),
    division=Division(
        lanes=CORES * 1024,
        row=Grain(1024, 1 << 13, 4),
        column=Grain(1, 64, 1024),
        again=1 << 20,
        line=32,
        repeated=8,
        idle=2,
        worth=8,
    ),
    vectors=Vectors(
        window=8, least=4, divided=256, written=0, scanned=32, integers=False, pieces=0
    ),
    scans=ScanParts(workers=CORES, least=1 << 13, whole=256, fewest=4),
    runs=None,
    teams=TEAMS,
    multiprocessors=CORES,
    shared_bytes=32 * 1024,
    radix=None,
    ordered=NEVER,  # a row is ordered by counting, however long it is
    selection=None,
    products=PRODUCTS,
    streams=STREAMS,
    row_folds=ROW_FOLDS,
    copies=None,
)

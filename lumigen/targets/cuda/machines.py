"""machines: NVIDIA's GPUs as rows of numbers, by architecture.

Kernels without a guard run on all of them: `SM_80` is what they are planned for, with the least shared memory that any
of them has. Times were fitted on an H200, whose number of multiprocessors both rows have.
"""

from __future__ import annotations

from dataclasses import replace

from lumigen.machine import (
    ClusterTile,
    CopiedRuns,
    Copies,
    Division,
    FewTile,
    FlowTile,
    Grain,
    PartsApart,
    ProductTile,
    ProductTiles,
    RadixTiles,
    RowFoldTiles,
    ScanParts,
    Selection,
    Storing,
    StreamingGpu,
    StreamTile,
    StreamTiles,
    Strips,
    Teams,
    TransposedTiles,
    Vectors,
    WindowCopies,
)

MULTIPROCESSORS = 132

# Times were fitted to those of each tile with 1 to 16 parts, over 1 to 4096 rows of matrices of a Llama of 8 billion
# weights.
PRODUCTS = ProductTiles(
    matrix=(  # a warp of 64 x 64 reads least for a product
        ProductTile(128, 256, 64, 2, 1, 100, warps=(2, 4)),
        ProductTile(128, 128, 32, 4, 2, 97, warps=(2, 2)),
        ProductTile(64, 128, 64, 4, 2, 89, warps=(2, 2)),
        ProductTile(64, 64, 64, 4, 3, 72, warps=(2, 2)),
        ProductTile(256, 64, 32, 4, 2, 72, warps=(8, 1)),
        ProductTile(256, 32, 32, 4, 2, 46, warps=(8, 1)),
        ProductTile(128, 16, 64, 4, 3, 25, warps=(4, 1)),
        ProductTile(32, 64, 64, 4, 4, 52, warps=(1, 4)),
        ProductTile(16, 64, 128, 4, 2, 35, warps=(1, 4)),
    ),
    scalar=(
        ProductTile(128, 128, 32, 2, 2, 10, each=(8, 8)),
        ProductTile(64, 128, 16, 3, 1, 10.6, each=(8, 8)),
        ProductTile(64, 64, 16, 3, 3, 8, each=(4, 4)),
        ProductTile(32, 64, 16, 3, 6, 6.5, each=(4, 4)),
        ProductTile(16, 64, 32, 3, 6, 4.7, each=(4, 4)),
    ),
    pair=(
        ProductTile(64, 64, 64, 4, 2, 80, warps=(2, 2)),
        ProductTile(32, 64, 64, 4, 2, 52, warps=(1, 4)),
        ProductTile(16, 64, 128, 2, 2, 35, warps=(1, 4)),
    ),
    small=(  # rings as short as the products, so that a multiprocessor holds many; or they stream past
        (64, ProductTile(256, 16, 32, 2, 4, 35, warps=(8, 1))),
        (64, ProductTile(256, 32, 32, 2, 4, 35, warps=(8, 1))),
        (64, ProductTile(256, 64, 32, 2, 3, 72, warps=(8, 1))),
        (128, ProductTile(128, 16, 32, 3, 8, 35, warps=(4, 1))),
        (512, ProductTile(128, 16, 64, 4, 3, 35, warps=(4, 1))),
        (512, ProductTile(128, 32, 32, 4, 4, 35, warps=(4, 1))),
        (64, ProductTile(64, 64, 64, 2, 5, 72, warps=(2, 2))),
        (512, ProductTile(64, 64, 64, 3, 4, 72, warps=(2, 2))),
        (64, ProductTile(32, 64, 64, 2, 8, 52, warps=(1, 4))),
        (512, ProductTile(32, 64, 64, 3, 6, 52, warps=(1, 4))),
        (32, ProductTile(32, 32, 32, 2, 12, 35, warps=(2, 1))),
        (512, ProductTile(32, 32, 64, 3, 8, 35, warps=(2, 1))),
        (16, ProductTile(16, 16, 16, 2, 24, 35, warps=(1, 1))),
        (512, ProductTile(16, 16, 32, 3, 16, 35, warps=(1, 1))),
    ),
    bytes=(  # as many bytes as those of 16 bits have, and twice the rate that these were seen to have
        ProductTile(128, 256, 128, 2, 1, 200, warps=(2, 4)),
        ProductTile(128, 128, 64, 4, 2, 194, warps=(2, 2)),
        ProductTile(64, 128, 128, 4, 2, 178, warps=(2, 2)),
        ProductTile(64, 64, 128, 4, 3, 144, warps=(2, 2)),
        ProductTile(32, 64, 128, 4, 4, 104, warps=(1, 4)),
        ProductTile(16, 64, 128, 4, 2, 70, warps=(1, 4)),
    ),
    few=(
        FewTile(2, 16, 128, 2, 8, 2, 1, 0),
        FewTile(2, 16, 128, 2, 8, 2, 0, 0),
        FewTile(8, 16, 128, 2, 8, 2, 1, 0),
        FewTile(8, 16, 128, 1, 8, 4, 0, 0),
        FewTile(16, 16, 128, 1, 8, 2, 0, 0),
    ),
    fewest=1,
    narrow=32,
    tall=256,
    hollow=8,
    stored=4,
    line=128,
    most_parts=16,
    long_part=1 << 13,
    least_steps=4,
    read=0.26,
    read_again=0.13,
    in_flight=2.7e6,
    alone=0.75,
    beginning=8e6,
    added=320,
    apart=PartsApart(rows=128, columns=128, depth=512, step=64, worth=2),
)
STREAMS = StreamTiles(
    rows=64,  # 16 to a warp
    warps=4,
    step=64,
    step_of_long=32,
    long=128,
    slots=2,
    scalar={  # from many rows in a block to few; 32 rows of a warp read least for a product
        64: (StreamTile(128, 32, 4, 1), StreamTile(64, 32, 4, 1)),
        128: (StreamTile(128, 32, 4, 1), StreamTile(64, 32, 4, 1)),
        256: (StreamTile(32, 16, 2, 2),),
    },
    scalar_of_two={64: (StreamTile(64, 32, 4, 2),), 128: (StreamTile(32, 16, 2, 2),)},
    few={
        64: StreamTile(16, 32, 1, 2),
        128: StreamTile(16, 32, 1, 2),
        256: StreamTile(16, 16, 1, 2),
    },
    # a warp brings no line of more than 128: little, so that many blocks are on a multiprocessor
    few_of_floats={64: StreamTile(16, 32, 1, 2), 128: StreamTile(16, 16, 1, 2)},
    widest=256,
    widest_of_two=128,
    registers=192,
    narrowest=16,
    neighbours=2,
    warps_of_parts=4,
    steps_of_part=2,
    steps_to_split=16,
    least_parts=4,
    most_parts=32,
    alone=8,
    most_alone=1 << 18,
)
ROW_FOLDS = RowFoldTiles(
    one=((128, 128, 32, 4, 4), (64, 128, 64, 3, 4)),  # 32 rows of a warp read least for a product
    two=((128, 64, 64, 3, 4), (64, 64, 64, 4, 4)),  # half as many fit the registers
    blocks=2,
    deepest=512,
    least_tiles=4,
    most_alone=1 << 24,  # some 10 us
)
TEAMS = Teams(
    threads=256,
    warp=32,
    lane_bytes=16,
    least_lanes=2,
    vectors=2,
    repeated=8,
    merged=1 << 14,
    # left to itself the compiler spills registers so that more than two blocks of a multiprocessor have some
    joined_blocks=2,
    warp_vectors=4,
    rows_of_warps=1 << 14,
    registers=65536,
    granted=8,
    turn=8,
    held=64,
    blocks=6,
    spare=8,
    addresses=16,
    idle=8,
    transposed=TransposedTiles(side=64, least=16, bytes=48 * 1024),
    between=16,
    stretch=32,  # of a line of memory what moves by itself
    together=4,
    threads_together=128,
    blocks_together=8,
    blocks_of_several=3,
    strips=Strips(points=(8, 4, 2), shown=16, lanes=4, threads=256, threads_alone=1024),
)
SM_80 = StreamingGpu(
    name="sm_80",
    accumulators=1,  # no kernel with more was seen to be faster than a launch for each
    storing=Storing(
        table=8,
        few_columns=4,
        long_row=128,
        many_terms=1 << 20,
        short=1 << 20,  # blocks share long loops, as against the launches that storing takes
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
        waits=True,
        # 16 MB that caches need not read as well: it took 4% of a token of 8B on an H100
        normed=1 << 22,
    ),
    division=Division(
        lanes=MULTIPROCESSORS * 4096,  # four to each of a thousand threads of every multiprocessor
        row=Grain(1024, 1 << 13, 4),  # a row is a block's
        column=Grain(1, 64, 1024),
        again=1 << 20,
        line=64,
        repeated=8,
        idle=2,
        worth=8,
    ),
    vectors=Vectors(
        window=8,
        least=4,
        divided=256,
        written=0,
        scanned=32,
        integers=False,
        pieces=0,
        estimates=True,
        beside=4,
        wholes=True,
    ),
    scans=ScanParts(workers=MULTIPROCESSORS, least=1 << 13, whole=256, fewest=4),
    runs=CopiedRuns(itemsize=2, bytes=8, vector=16, scattered=16, across=1, again=4),
    teams=TEAMS,
    multiprocessors=MULTIPROCESSORS,
    shared_bytes=99 * 1024,  # of the GPUs for consumers, on which kernels for sm_80 run too
    ordered=2048,
    radix=RadixTiles(
        digit=9,
        tile=2048,
        parts=1024,
        wide=2048,
        piece=2048,
        share=8192,
        placing=4,
        counting=6,
        long=1 << 15,
        longest=1 << 30,
    ),
    selection=Selection(held=32, by_warp=32, by_block=1024, rows=512),
    products=PRODUCTS,
    streams=STREAMS,
    row_folds=ROW_FOLDS,
    copies=None,
)
SM_90A = replace(
    SM_80,
    name="sm_90a",
    shared_bytes=227 * 1024,
    copies=Copies(
        tiles=(
            ClusterTile(128, 256, 4, 2, 0, 1, False, 100),
            ClusterTile(128, 224, 4, 2, 0, 1, False, 99),
            ClusterTile(128, 192, 4, 2, 0, 1, False, 97),
            ClusterTile(128, 160, 5, 2, 0, 1, False, 95),
            ClusterTile(128, 128, 6, 2, 0, 1, False, 92),
            ClusterTile(128, 128, 6, 1, 0, 1, False, 84),
            ClusterTile(64, 256, 4, 1, 0, 1, False, 72),
            ClusterTile(64, 128, 6, 1, 0, 1, False, 60),
            ClusterTile(128, 64, 8, 1, 0, 1, False, 60),
            ClusterTile(128, 256, 4, 1, 2, 1, False, 100),
            ClusterTile(64, 128, 4, 1, 1, 2, False, 60),
            ClusterTile(64, 96, 10, 1, 2, 1, False, 55),
            *(ClusterTile(64, 64, 12, 1, split, 1, False, 45) for split in (2, 4)),
            ClusterTile(128, 64, 4, 1, 1, 2, True, 55),
            ClusterTile(128, 64, 8, 1, 2, 1, True, 50),
            *(
                ClusterTile(128, columns, stages, 1, split, 2, True, 50)
                for columns, stages in ((32, 5), (16, 6), (8, 6))
                for split in (1, 2)
            ),
            *(
                ClusterTile(64, columns, stages, 1, split, 2, True, 45)
                for columns, stages in ((32, 9), (16, 10))
                for split in (1, 2)
            ),
        ),
        # What fills the registers and shared memory. Rows of 64 leave them to three warpgroups.
        streams=(
            FlowTile(192, 64, 64, 128, 2, 1, overlap=True, turns=False),
            FlowTile(128, 64, 64, 128, 2, 1, overlap=True, turns=False),
            FlowTile(128, 128, 128, 128, 2, 1, overlap=True, turns=False),
            FlowTile(128, 256, 256, 64, 1, 1, overlap=True, turns=False),
        ),
        behind=8,
        rounds=4,
        feeding=24,
        most=240,
        places=32,
        maps=32,
        widest=256,
        aligned=1024,
        rows=((16, 8), (256, 128), (None, 2048)),
        box=64,
        warpgroup=128,
        warpgroup_rows=64,
        exchange=1024,
        in_flight=5e6,
        element=233,
        again=0.05,
        narrow=0.93,
        alone=1.2,
        empty=0.5,
        leaving=170,
        beginning=9e6,
        windows=WindowCopies(first=128, last=127, apart=255, step=8, channels=32, together=0.85),
        band=2048,
    ),
)

"""machine: what is known of a kind of processor or GPU, as a row of numbers.

Promises that no module below `targets` has such a number: whoever chooses tiles, parts, or what is stored is given a
row. The rows stand in `targets`, one for each instruction set or architecture. Counts are of elements where nothing
else is said; times are in products of a multiprocessor.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

Sizes = Mapping[str, int]  # at the sites of a schedule


# ---- of all machines ----


@dataclass(frozen=True)
class Steps:
    """What an element takes in loops, in one unit of time."""

    vector: int  # a sum, product, comparison or choice, computed in vectors
    function: int  # the same of a root, a reciprocal or a transcendental function
    alone: int  # a step that has no vector form
    function_alone: int
    product: int  # a multiply-add of a product of matrices
    near: int  # to read what stays in the caches
    far: int
    stored: int
    launch: int  # a launch
    cache: int  # bytes that stay near
    tile: int  # points of a side of a tile of products
    lanes: int  # points of a vector
    worth: int  # a launch is to save one of so many parts of the time at least: less is within the error
    worth_of_largest: (
        int  # the same of a value that is larger than all that its regions read and store
    )


@dataclass(frozen=True)
class Storing:
    """What decides whether a value is stored, or computed where it is read."""

    table: int  # elements of a region for each one of a value: then it is a table
    few_columns: int  # side by side: fewer leave a tile of products with gaps
    long_row: int  # scores of a row: fewer are no more than to store and read them
    many_terms: int  # of all elements of a reduction: more than it takes to store and read them
    short: int  # points of a loop over tiles that takes no longer than to store them
    rows: int  # of a product that is reduced to numbers of them, for which it is not stored; 0: always
    wide: (
        int  # columns of one of fewer rows, which is not stored either: parts of a fold share them
    )
    expansion: int  # an expanding factor is at least so many times larger than what it is made of or made into
    maps: int  # of the same elements that one loop stores: each has registers of its own
    few_reads: int  # of a value that costs hardly more than what it is made of
    few_steps: int  # the same
    integers: bool  # whether products of weights of 8 bits have kernels that add up integers
    unpacked: int  # steps in which a product makes floats of weights of fewer bytes, at most; 0: it never does
    after: int  # terms of a sum that each element of a product computes for itself; 0: a row does, any number
    row: int  # the longest row of accumulators, and of an inner operand, that stays on the chip
    row_of_weights: int  # the same where one side is weights, which stream past while the other stays in the caches
    row_of_fold: int  # the same of a fold around a product that needs no place for its scores
    bytes: bool  # whether products make floats of a state's bytes as they bring them in: these are not stored before
    panels: bool  # whether weights lie in panels, and a fold around products of them is planned for that
    steps: (
        Steps | None
    )  # with which repeated values are weighed; none where no figures say that it pays
    waits: bool = False  # whether a sum of what memory holds computes costly maps while it waits
    # terms of all sums of one row, from which on they read it normalised; 0: each normalises it by itself
    normed: int = 0


@dataclass(frozen=True)
class Grain:
    """One way of running a reduction: `lanes` work at each result, and a part should have `terms` at least.

    A block merges the parts of up to so many `results` in a time that does not count.
    """

    lanes: int
    terms: int
    results: int = 0


@dataclass(frozen=True)
class Streams:
    """Columns whose elements lie at least a `page` apart, of more than `far` bytes: so many `terms` in a part.

    All columns of a part take a few terms in each `turn`: memory is then read along as many rows at a time as a
    processor follows. The sums of so many `lanes` stay in the nearest cache, of as many `rows` as one loop folds.
    """

    page: int  # bytes
    far: int  # bytes
    terms: int
    turn: int
    lanes: int
    rows: int


@dataclass(frozen=True)
class Division:
    """When long reductions run in parts.

    `row`: lanes share the terms of a result. `column`: each lane has results of its own.
    """

    lanes: int  # that keep the machine busy
    row: Grain
    column: Grain
    again: int  # terms: to add up more of them another time takes longer than a launch
    line: int  # of a line of memory, at which parts of many begin
    repeated: int  # times as much as it reduces does a task after a fold that other tasks repeat
    idle: int  # times as many lanes as are at work: then most of the machine is idle
    worth: int  # the least parts that a reduction has terms for, if it is to be split
    streams: Streams | None = None


@dataclass(frozen=True)
class Vectors:
    """Vector loops."""

    window: int  # points of an axis: fewer fill no vector
    least: int  # points of a reduced axis: fewer are not worth a loop over lanes
    divided: int  # points of a factor of a reduced axis: fewer leave lanes of a loop over it idle
    written: int  # points of a short factor that conditions ask for: up to so many are written out
    scanned: int  # of a row that is scanned one element after the other; longer ones by vectors
    integers: bool  # whether they store floats as integers, and make floats of sums of integers
    pieces: int  # points of an axis that a kernel may have a store for each of; 0: none
    mapped: int = 16  # times as many points as terms of its folds: then a map takes the vectors
    doubles: bool = False  # whether lanes have numbers of f64 beside those of f32
    folded: int = 16  # rows that one loop folds together, at most: each has statements of its own
    estimates: bool = False  # whether quotients that are rounded to 16 bits are estimates
    beside: int = 0  # points along windows that share nothing which folds have as lanes; 0: none
    wholes: bool = False  # whether they store floats as integers of 32 bits and of 64


@dataclass(frozen=True)
class CopiedRuns:
    """Operands of products that are read through windows: copied in runs along memory, or element by element."""

    itemsize: int  # bytes of an element that is multiplied as memory has it
    bytes: int  # of the shortest run that is copied; others are a multiple
    vector: int  # bytes that a thread moves at once where neighbours lie side by side
    scattered: int  # times as long as to copy an operand does it take to gather its elements
    across: int  # the same of a map whose neighbours store neighbours, and read none
    again: int  # times that such a map reads an input, from which on a copy of it pays


@dataclass(frozen=True)
class ScanParts:
    """Scans of long rows in parts."""

    workers: int  # threads or multiprocessors, which should all have something to do
    least: int  # elements of a part
    whole: int  # elements, of which a part has a multiple
    fewest: int  # parts of a row, if it is to be in parts


@dataclass(frozen=True)
class TransposedTiles:
    """Tiles of a map that reads along one axis and stores along another."""

    side: int  # elements
    least: int  # points of either axis: fewer are gathered as well
    bytes: int  # of all tiles of a block


@dataclass(frozen=True)
class Strips:
    """Neighbouring points of an image, whose windows overlap, that a thread folds together."""

    points: tuple[int, ...]  # of a strip at most, the longest first
    shown: int  # elements of the image along a strip, at most
    lanes: int  # of a thread, where they are vectors of memory
    threads: int  # of a multiprocessor that should have a strip
    threads_alone: int  # the same where each lane is read by itself, which takes longer


@dataclass(frozen=True)
class Teams:
    """Threads that share a task. Registers are of 32 bits."""

    threads: int  # of a block: kThreads of the headers
    warp: int  # threads that exchange values without memory
    lane_bytes: int  # that a thread moves at a time
    least_lanes: int  # that a thread takes: 2 where floats of 16 bits move in pairs
    vectors: int  # of a thread in a row of a map
    repeated: int  # the same where each task computes what its row reduces to
    merged: int  # parts that one block does not take long to merge
    joined_blocks: int  # of a multiprocessor, where the block that ends last goes on
    warp_vectors: int  # of a thread: rows of more are a block's
    rows_of_warps: int  # that fill a device with a warp for each
    registers: int  # of a multiprocessor
    granted: int  # registers that a thread is given at a time
    turn: int  # vectors of a thread that a fold with corrections takes in at a time; 0: there are none
    held: int  # registers of a thread for what it reads of a row, and as many for what it computes
    blocks: int  # of a multiprocessor: more are more than some GPUs run at one time
    spare: int  # registers for what is about to be used
    addresses: (
        int  # registers for places in a row, where the threads of a block have different rows
    )
    transposed: TransposedTiles | None
    idle: int  # one in so many threads of a row may have nothing to do; 0: any
    between: (
        int  # registers where parts of a row are code of their own, since not all threads have them
    )
    stretch: int  # bytes of lanes that a task has at least whose teams share out a fold; 0: none do
    together: int  # rows that a team folds at a time where what they share takes more bytes than theirs; 1: no more
    threads_together: int  # of a block that does
    blocks_together: (
        int  # of a multiprocessor, of such teams: while some of them load, others compute
    )
    blocks_of_several: (
        int  # the same of several rows with each of those, for which registers are to suffice
    )
    strips: Strips | None  # none where a thread folds one window at a time


@dataclass(frozen=True, eq=False)
class Machine:
    """What all rows have. One is the same as itself alone, so that what was found for it is soon found again."""

    name: str  # of the instruction set or architecture
    accumulators: int  # of products that a tile should have; more are elements of the space
    storing: Storing
    division: Division
    vectors: Vectors
    scans: ScanParts
    runs: CopiedRuns | None  # none where products gather windows as fast
    teams: Teams | None  # none where a task is one thread's


# ---- processors ----


@dataclass(frozen=True)
class ThreadTiles:
    """Sizes at the sites of builders whose tasks are one thread's, and when which of them are taken."""

    loops: Sizes
    scans: Sizes
    one_row: Sizes  # of a product; with `shared` and `near_rows`, as the next two
    floats: Sizes
    unpacked: Sizes  # where tasks make floats of weights of fewer bytes
    unpacked_for_few: Sizes  # the same for as many rows as these have, or fewer
    runs_of_bytes: Sizes  # rows of bytes that tasks pack in runs, as windows
    groups: Sizes  # where integers have scales in groups of k
    pairs: Sizes  # of bf16, for a matrix unit
    windows: Sizes
    sliding: Sizes
    rows_of_floats: Sizes  # of a fold of rows
    rows_of_pairs: Sizes
    row_of_product: Sizes  # of a fold of one row to numbers
    rows_of_numbers: Sizes  # without a product
    fold: Sizes  # around a product
    fold_of_few: Sizes  # with up to `few_columns`
    held: int  # rows that are folded in one loop if they read something in common
    held_lanes: int  # the same of rows that share vectors, in a loop over lanes
    ahead: int  # such loops, after which is read what memory is asked for
    stretches: int  # of a map, whose loops are short: at most so many for each row
    few_columns: int
    least_columns: int  # between two epilogues of several products
    least_rows: int  # of a product's rows that threads share out
    computed_again: int  # times that rows of a product may be, once for each tile of columns
    points_of_part: int  # that a thread folds at least where several share those of a fold
    step_of_parts: int  # points, of which a part has whole steps
    rows_alike: int  # of windows, for which it pays to work out their runs once
    window_points: (
        int  # of k inside one of its outermost axis: more windows would not stay in the caches
    )


@dataclass(frozen=True, eq=False)
class Processor(Machine):
    """A processor, by its instruction set."""

    pairs: bool  # whether an instruction multiplies pairs of bf16
    threads: int  # of a large machine, all of which should have something to do
    scratch: int  # bytes of a task's own tiles, at most: every thread has as many
    tiles: ThreadTiles


# ---- GPUs ----


class ProductTile(NamedTuple):
    """How a block divides a product: `warps` of rows and columns, or `each` products of a thread that has its own.

    So many `blocks` are on a multiprocessor at one time, and reach so much of the greatest `rate`, in 100.
    """

    rows: int
    columns: int
    depth: int
    stages: int
    blocks: int
    rate: float
    warps: tuple[int, int] = (0, 0)
    each: tuple[int, int] = (0, 0)


class FewTile(NamedTuple):
    """Few rows, and columns that warps make in registers (`few`): `depth` at a time, `ahead` times as much is read."""

    rows: int
    columns: int
    depth: int
    ahead: int
    warps: int
    blocks: int  # of a multiprocessor at one time
    spread: int  # 1: no more of them, so that blocks which are all there at once lie on all multiprocessors
    fetch: int  # 1: a block asks for all of its columns in memory before it waits for anything


class PartsApart(NamedTuple):
    """Parts of a product's depth as a batch, for tiles of so many `rows` and `columns`, that a launch after it adds up.

    A part has at least so much of the `depth`, in whole steps, and operands have `worth` times as many bytes as parts
    store and read.
    """

    rows: int
    columns: int
    depth: int
    step: int
    worth: int


@dataclass(frozen=True)
class ProductTiles:
    """Tiles of products, and what they take; times are in products of a multiprocessor."""

    matrix: tuple[
        ProductTile, ...
    ]  # by matrix instructions: of 16 bits, and of f32 if none are `scalar`
    scalar: tuple[ProductTile, ...]  # of f32, by threads that multiply by themselves
    pair: tuple[ProductTile, ...]  # of two products of the same rows, with so many columns of each
    small: tuple[tuple[int, ProductTile], ...]  # of 16 bits: for up to so deep a product
    few: tuple[
        FewTile, ...
    ]  # of up to so many rows, the fewest first; none where threads make no columns
    fewest: int  # rows of them at least: loops read the columns of fewer as fast
    narrow: int  # columns that a small tile has of a matrix with any number of rows
    tall: int  # rows of one with more columns, of such a matrix
    stored: int  # neighbours of a row that one thread stores
    line: int  # bytes of memory that move together
    most_parts: int
    long_part: int  # of depth: parts of more than this are divided further
    least_steps: int  # of a part: it should fill its ring
    read: float  # of a byte of the operands, while all that memory gives is used
    read_again: float  # of each byte that a block brings in: it comes from the cache
    in_flight: float  # bytes that are on their way where all that memory gives is used
    alone: float  # of the time of a full round that blocks take which have more of a multiprocessor to themselves
    beginning: float  # while a block begins and ends
    added: float  # of an element that another part has, too
    apart: PartsApart | None = None  # where a product has hardly any tiles, and a long depth
    hollow: int = 0  # rows or columns of a group: fewer leave tiles so empty that loops over windows are faster
    bytes: tuple[ProductTile, ...] = ()  # by matrix instructions, of integers of 8 bits


class StreamTile(NamedTuple):
    """Rows of a block, points that stream past them at a time, and how many tiles of these have a place."""

    rows: int
    step: int
    warps: int
    slots: int


@dataclass(frozen=True)
class StreamTiles:
    """Folds around a product: rows of a block, past which tiles of so many points (a `step`) stream."""

    rows: int
    warps: int
    step: int
    step_of_long: int  # of rows longer than `long`, whose sums fill the registers
    long: int
    slots: int
    scalar: Mapping[int, tuple[StreamTile, ...]]  # f32: by longest row, many rows first
    scalar_of_two: Mapping[int, tuple[StreamTile, ...]]  # of two inner products, twice as much
    few: Mapping[int, StreamTile]  # of rows that one warp has by itself: for the longest row
    few_of_floats: Mapping[int, StreamTile]
    widest: int  # of what a warp has in registers for each of its rows: its depth, and its sums
    widest_of_two: int  # where it has those of two inner products
    registers: int  # of a thread for fragments: the rest is for operands and places
    narrowest: int  # the depth of a matrix instruction
    neighbours: int  # of a row that one thread has
    warps_of_parts: int  # on each multiprocessor, where a fold is split
    steps_of_part: int  # at least
    steps_to_split: int  # of a fold that takes several times as long as the launch of the merge
    least_parts: int
    most_parts: int  # since the merge takes a result from all of them in turn
    alone: int  # f32: of so many multiprocessors a block is alone
    most_alone: int  # products that it has then at most, before what is inside of it is stored


class FlowTile(NamedTuple):
    """A fold around a product whose tiles a tensor copy engine brings: `blocks` of these share a multiprocessor.

    With `overlap` the outer product of a step is under way while the inner one of the next is computed; with `turns`
    warpgroups begin products one after the other.
    """

    rows: int
    columns: int
    depth: int
    step: int
    slots: int
    blocks: int
    overlap: bool
    turns: bool


@dataclass(frozen=True)
class RowFoldTiles:
    """Folds of a product's rows. Sites: rows, step, depth, stages, warps, for many rows and for few."""

    one: tuple[tuple[int, ...], tuple[int, ...]]
    two: tuple[tuple[int, ...], tuple[int, ...]]  # with a map of the scores beside them
    blocks: int  # of a multiprocessor
    deepest: int  # of a product: to store and read an element takes as long as its products
    least_tiles: int  # of columns in a part: its states should cost little compared with them
    most_alone: int  # products of a block that may be one of few, before what it folds is stored


class ClusterTile(NamedTuple):
    """How a cluster divides a product, and how much of the instruction's rate it reaches, in 100.

    Larger tiles read less for a product. Where `split` is 0 the blocks stay; others end with their tile.
    """

    rows: int
    columns: int
    stages: int
    cluster: int
    split: int
    blocks: int
    turned: bool
    rate: int


@dataclass(frozen=True)
class WindowCopies:
    """What windows of images a tensor copy engine walks by itself."""

    first: int  # elements that a window may begin before an image
    last: int  # or behind it
    apart: int  # elements between the first tap of a window and the last one
    step: int  # from a window to the next one
    channels: int  # of a pixel: fewer leave boxes mostly empty
    together: float  # how fast blocks of a cluster multiply, which wait for each other's windows


@dataclass(frozen=True)
class Copies:
    """A tensor copy engine and warpgroups: tiles that the headers have; times are in products of a multiprocessor."""

    tiles: tuple[ClusterTile, ...]
    streams: tuple[FlowTile, ...]  # for longer and longer rows, the best first
    behind: int  # which part of a fold's rows behind the end another tile is to save at least
    rounds: int  # of blocks of a fold, up to which those with the longest loops begin first, of whatever batch
    feeding: int  # registers of a thread that brings tiles
    most: int  # registers that a thread of the others takes at most
    places: int  # registers for states and places, besides the fragments of a fold
    maps: int  # registers for maps of the scores that read memory
    widest: int  # columns of a matrix instruction
    aligned: int  # bytes: of slots, and of what is lost before the first
    rows: tuple[
        tuple[int | None, int], ...
    ]  # up to how many a kernel is for, and for how many its tile is chosen
    box: int  # elements of a line that a copy moves; lines, where lines run along the depth
    warpgroup: int  # threads that multiply together
    warpgroup_rows: int  # of a product that they have
    exchange: int  # of depth, that could be multiplied while the parts of a tile are added
    in_flight: float  # elements that are on their way where all that memory gives is used
    element: float  # while a multiprocessor's share of memory gives an element
    again: float  # what an element costs that another tile has read, too: it comes from the cache
    narrow: float  # how fast tiles with the rows of one warpgroup read, compared with those of two
    alone: float  # how much more than its share a multiprocessor takes in while others have nothing to do
    empty: float  # how much slower tiles read that hold next to nothing
    leaving: float  # while an element of the result is on its way out
    beginning: float  # while a block begins and ends
    windows: WindowCopies
    band: (
        int  # rows that blocks walk down before the next columns: what they read stays in the cache
    )


@dataclass(frozen=True)
class RadixTiles:
    """Rows that many blocks put in order: constants of the headers, and who shares a row."""

    digit: int  # bits of a digit at most: kDigitBits
    tile: int  # elements that a block places at a time: kTile
    parts: int  # partitions of a row by groups, at most: kParts
    wide: int  # groups of a partition at most: kWide
    piece: int  # elements of a row that are partitioned at a time: kPiece
    share: int  # of a partition's elements that one block adds up: kShare
    placing: int  # blocks of a multiprocessor that move elements
    counting: int  # the same of those that only count them
    long: int  # elements of a row for which this pays, however many rows there are
    longest: int  # places of a row that its headers count


@dataclass(frozen=True)
class Selection:
    """Teams that hold a row in registers and select the first of its elements."""

    held: int  # elements of a thread at most
    by_warp: int  # that a warp selects at most, one after the other
    by_block: int  # the same of a block: kTaken of the headers
    rows: int  # elements of a row that a warp has rather than a block, at most


@dataclass(frozen=True, eq=False)
class Gpu(Machine):
    """A GPU, by its architecture."""

    teams: Teams
    multiprocessors: int  # that should all have something to do
    shared_bytes: int  # that a block has at most
    ordered: int  # elements that a block orders at a time: kOrdered of the headers
    radix: RadixTiles | None  # none where each row is one block's
    selection: Selection | None  # none where a row is ordered by counting
    products: ProductTiles

    @property
    def multiplies_floats(self) -> bool:
        """Whether matrix instructions multiply f32, too."""
        return not self.products.scalar


@dataclass(frozen=True, eq=False)
class StreamingGpu(Gpu):
    """A GPU whose kernels fold around products: tiles stream past the rows of a block."""

    streams: StreamTiles
    row_folds: RowFoldTiles
    copies: Copies | None

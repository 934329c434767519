"""Tile programs: a plan with its schedule, as typed statements that templates arrange and devices spell.

One program computes one work tile, `task`, of a launch. Expressions in it are region expressions over the axes of
the enclosing loops; whatever is used twice or leaves a loop has a name (`Local`). A loop over *lanes* runs a
vector of consecutive values of its axis at a time, the last one partly filled.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Union

from lumigen.block_tile import BlockTile
from lumigen.condition import Cmp
from lumigen.dtype import DType, f32, i32, i64
from lumigen.index import Axis, Dim, Ix
from lumigen.ops import Op
from lumigen.region import Buffer, Expr, Gather, Local, Monoid, Prim, buffers_of, walk


@dataclass(frozen=True)
class Bind:
    """An axis that follows from others: its value in this scope."""

    axis: Axis
    value: Ix


@dataclass(frozen=True)
class Let:
    """`name = value`, computed here once; over lanes where it varies with the lane axis."""

    name: Local
    value: Expr
    lanes: Axis | None


@dataclass(frozen=True)
class Accumulator:
    """A running total, one for each lane if `lanes`; it starts at `start`, or at the monoid's neutral element.

    `dealt`: one for each thread of a team, of those points of a dealt loop that are the thread's.
    """

    name: Local
    monoid: Monoid
    lanes: Axis | None
    start: Expr | None = None
    dealt: bool = False


@dataclass(frozen=True)
class Accumulate:
    """`into = monoid(into, value)`; lanes past the end of the loop contribute nothing."""

    into: Local
    monoid: Monoid
    value: Expr
    lanes: Axis | None


@dataclass(frozen=True)
class Finish:
    """`name` is the monoid over the lanes of the accumulator `source`, or over the threads it is dealt to."""

    name: Local
    source: Local
    monoid: Monoid


@dataclass(frozen=True)
class ScanCarry:
    """A value that a scan carries, one for each lane if `lanes`; `value` is the first one.

    `sums`: it is a sum of floats, with what its roundings take from it.
    """

    name: Local
    value: Expr
    lanes: Axis | None
    sums: bool = False


@dataclass(frozen=True)
class Advance:
    """What is carried becomes `value`, which is made of what it was."""

    name: Local
    value: Expr
    lanes: Axis | None


@dataclass(frozen=True)
class ScanLanes:
    """`name` has in each lane what is carried up to its element, and `carry` goes on from the last of them.

    `value` is the elements; `body` and `result` combine two values, `left` and `right`, by an associative and
    commutative operation: of vectors where a thread runs alone, else of numbers, which threads exchange.
    """

    name: Local
    carry: Local
    value: Expr
    lanes: Axis
    left: Local
    right: Local
    body: tuple[Stmt, ...]
    result: Expr


@dataclass(frozen=True)
class For:
    """`for axis in lo .. hi - 1`, in order; by `step`s (the body covers the rest of a step), or over lanes.

    A loop is *dealt* where the threads of a block share its points: the outermost one among their teams, one inside
    it among the threads of a team. Every other loop is run by all threads alike. A loop over lanes in `parts` has so
    many vectors of each thread, and may read and keep what the row holds. One that takes several vectors `together` has
    an accumulator for each of them: of its own folds they take turns, those inside it run side by side. So many turns
    of a loop are `unrolled`: each has its own text in what is compiled.
    """

    axis: Axis
    lo: Ix
    hi: Ix
    lanes: bool
    body: tuple[Stmt, ...]
    step: int = 1
    dealt: bool = False
    parts: int = 0
    together: int = 1
    unrolled: int = 1


@dataclass(frozen=True)
class StoreTile:
    """`dst[at] = value`, a vector at a time if `lanes`; only where the conditions hold, which all lanes share."""

    dst: Buffer
    at: tuple[Ix, ...]
    value: Expr
    lanes: Axis | None
    where: tuple[Cmp, ...] = ()


@dataclass(frozen=True)
class Ahead:
    """Memory is asked for what is at a place, before it is read; nothing is there behind the last element."""

    source: Buffer
    at: Ix


@dataclass(frozen=True)
class Transposed:
    """Tiles of values that threads compute along their columns, then use along their rows.

    For each row, over lanes of `column`, `before` and then each value of `tiles` into its tile; when all threads of the
    block have come, for each column, over lanes of `row`, each tile's element under its name and then `body`.
    """

    tiles: tuple[tuple[Buffer, Local, Expr], ...]
    row: Axis
    row_lo: Ix
    row_hi: Ix
    column: Axis
    column_lo: Ix
    column_hi: Ix
    before: tuple[Stmt, ...]
    body: tuple[Stmt, ...]


@dataclass(frozen=True)
class Operand:
    """A matrix operand as memory holds it: element (major, k) is at `base + major * stride + k * k_stride`.

    `major` counts rows of A or columns of B. Strides None: no such strides exist, `value` is evaluated per element.
    `panels`: B lies packed in panels of 16 columns, `stride` elements from one panel to the next; `side` k lie side by
    side, as program.Panels has it. Elements of f16 and bf16 are widened as they are read.
    """

    source: Buffer | None
    base: Ix
    stride: Ix | None
    k_stride: Ix | None
    value: Expr | None
    panels: bool = False
    side: int = 1


@dataclass(frozen=True)
class Pack:
    """Rows `row_lo .. row_hi - 1` by `k_lo .. k_hi - 1` of A into row blocks in scratch, from `at` on.

    `element`: what they are rounded to. What is packed as bf16 is multiplied with columns of bf16, and `at` counts as
    if rows came in sixteens: an instruction set may pack whole tiles. `groups`: integers stay as they are, and after
    them lie the sums of each row's groups of so many k; 0 of what is multiplied otherwise. `run`: so many k lie side
    by side where A is read; 0 of what is not known to lie so.
    """

    dst: Buffer
    at: Ix
    operand: Operand
    row: Axis
    row_lo: Ix
    row_hi: Ix
    k: Axis
    k_lo: Ix
    k_hi: Ix
    element: DType = f32
    groups: int = 0
    run: int = 0


@dataclass(frozen=True)
class PackColumns:
    """Columns `lo .. hi - 1` of B by all of k into panels of 16 columns in scratch, zeros past the end.

    `element`: what they are rounded to, and rows are that they are multiplied with.
    """

    dst: Buffer
    operand: Operand
    column: Axis
    lo: Ix
    hi: Ix
    k: Axis
    k_hi: Ix
    element: DType = f32


@dataclass(frozen=True)
class PackRuns:
    """dst[at + c - lo] = the value of column c for lo <= c < hi: one row of B; zeros up to a multiple of 16.

    Column c is point c % run.extent of `run` and c // run.extent of `outer`. The value is `source` at
    `(base + run * stride) // repeat` where all of `where` hold, else `fill`; strides and what the conditions have of
    `run` are constants, so that neighbours are moved together. What is repeated has stride 1.

    With `rows`, an axis and its ends, there is a row for each of its points: `at` and `base` have multiples of it,
    and no condition asks for it, so that the runs are worked out once. If columns are `apart`, column c is at
    `at + (c - lo) * apart`, and there are no zeros after the last one.
    """

    dst: Buffer
    at: Ix
    source: Buffer
    base: Ix
    stride: int
    where: tuple[Cmp, ...]
    outer: Axis
    run: Axis
    lo: Ix
    hi: Ix
    fill: float = 0.0
    repeat: int = 1
    rows: tuple[Axis, Ix, Ix] | None = None
    apart: int = 0

    def steps(self, row: Axis) -> tuple[Ix, Ix] | None:
        """From a row to the next, elements of `dst` and of `source`; None where these or the runs differ."""
        asked = any(row in i.axes for i in (self.run.extent, *(c.slack for c in self.where)))
        at, base = self.at.coefficient(row), self.base.coefficient(row)
        if asked or at is None or base is None or base % self.repeat != 0:
            return None
        return None if base.axes & {self.outer, self.run} else (at, base // self.repeat)


@dataclass(frozen=True)
class Transpose:
    """dst[j, i] = src[i, j] for i < rows and j < cols, both scratch tiles with rows as long as their dims say."""

    dst: Buffer
    src: Buffer
    rows: Ix
    cols: Ix


@dataclass(frozen=True)
class BitPlane:
    """Some bits of small integers of B, in panels of bytes with four side by side.

    Byte r of a run has those of k = r, r + run, r + 2 run, ..., lowest bits first, worth `1 << place` each. `bits` of 8
    are integers with a sign.
    """

    operand: Operand
    bits: int
    run: int
    place: int


@dataclass(frozen=True)
class GroupNumbers:
    """Numbers of columns in panels, at k // span, times a factor."""

    operand: Operand
    span: int
    factor: float = 1.0


@dataclass(frozen=True)
class GroupScales:
    """What sums of integers are multiplied by: of `size` k each by a number of their row and one of their column.

    B is the sum of `planes`, less `zero`. A number of a row is at `base + row * stride + k // row_span` of `rows`, that
    of a column the product of `scales`; the product of `least`, if there are any, is added to each element of B after
    that.
    """

    size: int
    planes: tuple[BitPlane, ...]
    zero: int
    rows: Operand
    row_span: int
    scales: tuple[GroupNumbers, ...]
    least: tuple[GroupNumbers, ...]


@dataclass(frozen=True)
class Mma:
    """acc[rows, cols] (+)= A[rows, k] * B[k, cols] in f32.

    acc starts at `acc_at` with `acc_stride` floats a row; A was packed into scratch from `a_at` on, where one row is as
    it was stored; B is read as its operand says, from column 0 and k 0 of its base: panels, rows that are contiguous,
    or columns that are, which one row is multiplied with from zero. With `a_stride`, A is a weight in panels of 16
    rows, so many elements from one to the next. `whole`: acc and B have columns up to a multiple of 16, whatever
    these hold. `element`: what both operands are rounded to, so that an instruction set may multiply it: A was packed
    so, B too, or is a weight in pairs, or rows of floats that were rounded when they were stored. A weight in pairs is
    multiplied as f32 by one row. `streamed`: such a weight comes from memory, and the columns after these are
    read next. `groups`: A and B are integers of 8 bits in groups with scales, and what they add up to is of f32.
    """

    acc: Buffer
    acc_at: Ix
    acc_stride: Ix
    a: Buffer
    a_at: Ix
    b: Operand
    rows: Ix
    cols: Ix
    k: Ix
    accumulate: Ix  # 0 starts from zero, anything else adds
    a_stride: Ix | None = None
    whole: bool = False
    element: DType = f32
    streamed: bool = False
    groups: GroupScales | None = None

    @property
    def is_row(self) -> bool:
        """Whether A is one row, which is packed as it lies."""
        return self.rows == 1 and self.a_stride is None and self.element is f32


@dataclass(frozen=True)
class Hold:
    """Registers for `parts` vectors of a row in each thread; loops in parts name the one of theirs `name`.

    `element`: what the registers hold, f32 or the floats of 16 bits that memory has, which are widened at each use.
    `anew`: by each loop again, since there are no registers for the floats from one loop to the next.
    """

    name: Local
    parts: int
    element: DType = f32
    anew: bool = False


@dataclass(frozen=True)
class Keep:
    """`name`, which is held, becomes `value` over lanes."""

    name: Local
    value: Expr
    lanes: Axis


@dataclass(frozen=True)
class Contract:
    """acc = A[m_lo .., :] B[n_lo .., :] over k in k_lo .. k_hi - 1, by a block of threads that share a ring of stages.

    acc is a fragment: each thread holds some of its elements in registers. Operands are zero past the extents of
    `m`, `n` and `k`; what is not held in `element` is rounded to it. Each of `more` is a fragment of the same rows by
    columns of its own. Where a copy engine brings the operands, `maps` names their tensor maps; `masks` are then the
    conditions without which an element of A, and one of B, is zero whatever memory holds, and all of them hold for
    the points of k in `whole`, from the first to the one after the last. Where columns are `fetched`, the block asks
    the device's cache for all of memory that they are made of before it waits for anything.
    """

    acc: Buffer
    a: Operand
    b: Operand
    m: Axis
    n: Axis
    k: Axis
    m_lo: Ix
    n_lo: Ix
    k_lo: Ix
    k_hi: Ix
    element: DType
    more: tuple[tuple[Buffer, Operand], ...] = ()
    maps: tuple[str, ...] = ()
    masks: tuple[tuple[Cmp, ...], ...] = ()
    whole: tuple[Ix, ...] = ()
    fetched: bool = False


@dataclass(frozen=True)
class ForTile:
    """`for m, n` over the elements of a fragment that lie below `m_hi` and `n_hi`, each by the thread that has it.

    The fragment begins at (m_lo, n_lo). `n` runs over lanes, and `value` is the element; each of `rows` names the
    number that a tile of one number for each row has for its row, each of `more` the element of another fragment.
    """

    acc: Buffer
    m: Axis
    n: Axis
    m_lo: Ix
    n_lo: Ix
    m_hi: Ix
    n_hi: Ix
    value: Local
    body: tuple[Stmt, ...]
    rows: tuple[tuple[Local, Buffer], ...] = ()
    more: tuple[tuple[Local, Buffer], ...] = ()


@dataclass(frozen=True)
class Streamed:
    """A tile of a matrix operand in `dst`: (majors, depth) from (major_lo, depth_lo) on, zero past the extents.

    Where a copy engine brings it, `map` names its tensor map, and `batch` says where in it, slowest first.
    """

    dst: Buffer
    operand: Operand
    major: Axis
    major_lo: Ix
    depth: Axis
    depth_lo: Ix
    map: str = ""
    batch: tuple[Ix, ...] = ()


@dataclass(frozen=True)
class Stream:
    """`for axis in lo .. hi - 1` by `step`s, by a block of threads, with tiles that are there when the body runs.

    `rows`, one tile for each of `inner`, are the same in each turn and stay in registers; the tiles of `inner` and
    `outer` come through a ring of slots, ahead of the body; those of `outer` are zero from `hi` on, unless a copy
    engine brings them. What is not held in the element type of a tile is rounded to it.
    """

    axis: Axis
    lo: Ix
    hi: Ix
    step: int
    rows: tuple[Streamed, ...]
    inner: tuple[Streamed, ...]
    outer: tuple[Streamed, ...]
    body: tuple[Stmt, ...]

    @property
    def tiles(self) -> tuple[Streamed, ...]:
        return (*self.rows, *self.inner, *self.outer)


@dataclass(frozen=True)
class Multiply:
    """acc = a b^T, or acc += a b^T if `add`: a fragment from tiles of a stream.

    Where `a` is itself a fragment it is rounded to the element type of `b`.
    """

    acc: Buffer
    a: Buffer
    b: Buffer
    add: bool


@dataclass(frozen=True)
class MapTile:
    """`dst[m, n] = result` for the elements of a fragment, as ForTile visits them; the others are `otherwise`.

    `dst` may be `src`, or one of `more`, whose elements at the same place have names too. `body` computes what `result`
    names. None otherwise: all elements are mapped, and `body` and `result` read no memory.
    """

    dst: Buffer
    src: Buffer
    m: Axis
    n: Axis
    m_lo: Ix
    n_lo: Ix
    m_hi: Ix
    n_hi: Ix
    value: Local
    rows: tuple[tuple[Local, Buffer], ...]
    body: tuple[Stmt, ...]
    result: Expr
    otherwise: float | None
    more: tuple[tuple[Local, Buffer], ...] = ()


@dataclass(frozen=True)
class FoldRows:
    """`dst[row] = monoid(dst[row], the elements of the row)` of a fragment."""

    dst: Buffer
    src: Buffer
    monoid: Monoid


@dataclass(frozen=True)
class MapRows:
    """For each row: the numbers of `rows` get names, then each tile of `results` its value, all of them at once."""

    rows: tuple[tuple[Local, Buffer], ...]
    body: tuple[Stmt, ...]
    results: tuple[tuple[Buffer, Expr], ...]


@dataclass(frozen=True)
class ForRows:
    """`for m` over the rows from `m_lo` on that lie below `m_hi`, each by one thread; numbers of `rows` get names."""

    m: Axis
    m_lo: Ix
    m_hi: Ix
    rows: tuple[tuple[Local, Buffer], ...]
    body: tuple[Stmt, ...]


@dataclass(frozen=True)
class ScaleRows:
    """Each row of a fragment times its number."""

    acc: Buffer
    by: Buffer


@dataclass(frozen=True)
class When:
    """`body` where all conditions hold, else `otherwise`. They do so for all threads of a block, or lanes, alike."""

    conditions: tuple[Cmp, ...]
    body: tuple[Stmt, ...]
    otherwise: tuple[Stmt, ...]


@dataclass(frozen=True)
class WhenLast:
    """`body` in the last of `tasks` to come here: all that they have stored can be read.

    `arrived` counts those that came; the last one makes it 0 again.
    """

    arrived: Buffer
    tasks: Ix
    body: tuple[Stmt, ...]


@dataclass(frozen=True)
class WhenSummed:
    """`body` in the last of `parts` tasks to come here that have a tile together; `acc` is the sum of theirs then.

    It is added up in the order of the parts, whichever was last. Each task keeps what it has at `sums[tile, part]`,
    (rows, columns) of the fragment, of which only so many rows are used. `arrived[tile]` counts those that came; the
    last one makes it 0 again. Of one part nothing is kept nor counted.
    """

    acc: Buffer
    sums: Buffer
    arrived: Buffer
    tile: Ix
    part: Ix
    parts: Ix
    body: tuple[Stmt, ...]


@dataclass(frozen=True)
class Window:
    """One dimension of images that are read through windows.

    There are `points` of them, `step` elements apart, which begin from `first` on and at most `last` behind the last
    element of the image. Each has `taps`, which are `apart`.
    """

    points: Ix
    first: int
    last: int
    step: int
    taps: Ix
    apart: int


@dataclass(frozen=True)
class TensorMap:
    """What a tensor copy engine knows of an operand: (groups, batches, lines, elements) of `source` from `base` on.

    Elements are contiguous. `share` successive batches of the product read the same one. One copy moves
    `box_lines` lines. With `windows`, of rows and of columns, the tensor is (images, rows, columns, channels), and a
    line of the operand is the channels of a window's tap.
    """

    name: str
    source: Buffer
    base: Ix
    groups: Ix
    batches: Ix
    lines: Ix
    elements: Ix
    group_stride: Ix
    batch_stride: Ix
    line_stride: Ix
    share: Ix
    box_lines: int
    windows: tuple[Window, Window] | None = None


@dataclass(frozen=True)
class Order:
    """`dst[at ..]` = `shown` of the first `kept` of `place`'s points below `count` in the order of `value`.

    From the least on with NaN after all numbers, or `descending`, from the greatest on with NaN before them. Equal
    values stand by place. `at` counts to the first element of the row in `dst`. With `held`, each thread of a team
    holds so many elements in registers, the team all of the row; `elements` are stored too, over `rank` from 0 up to
    `kept` and the place of that rank.
    """

    dst: Buffer
    at: tuple[Ix, ...]
    kept: Ix
    place: Axis
    count: Ix
    value: Expr
    shown: Ix
    descending: bool
    held: int
    rank: Axis
    elements: tuple[StoreTile, ...]


@dataclass(frozen=True)
class GroupPlaces:
    """`dst[at ..]` = of `place`'s points by `value`, an integer: how many are below each group, then they by group.

    The groups are 0, .., `groups` - 1; the first `groups` + 1 elements are counts, then come as many places as there
    are, if they are `placed`. Points of no group come before the first one or after the last one, equal ones by place.
    If values are `summed`, `dst` has instead the sum of each group.
    """

    dst: Buffer
    at: tuple[Ix, ...]
    groups: Ix
    place: Axis
    value: Expr
    placed: bool = True
    summed: Expr | None = None


@dataclass(frozen=True)
class GroupRows:
    """The same of all rows, by all tasks together: row `row` of `dst`, of `place`'s points by `value`.

    Tasks share the chunks of each row. What they leave each other is in `shared`: keys (rows, places), pairs of keys
    and places between passes, and counts of digits; or, if places are not `placed`, counts of groups and
    of chunks; or, of sums, elements by partition and their values, where those of each lie, how many they are, and sums
    of their parts.
    The last one counts their tasks, and is 0 after all of them.
    """

    dst: Buffer
    groups: Ix
    row: Axis
    place: Axis
    value: Expr
    chunks: Ix
    shared: tuple[Buffer, ...]
    placed: bool = True
    summed: Expr | None = None

    @property
    def drawn(self) -> Buffer:
        """The counter."""
        return self.shared[-1]


@dataclass(frozen=True)
class OrderRows:
    """The same as Order of all rows, by all tasks together: row `row` of `dst`, of all of `place`'s points by `value`.

    `bits` tell values from each other. `shared` is what the tasks leave each other, as of GroupRows: pairs of keys and
    places between passes, counts of digits, and the counter.
    """

    dst: Buffer
    row: Axis
    place: Axis
    value: Expr
    descending: bool
    bits: int
    chunks: Ix
    shared: tuple[Buffer, ...]

    @property
    def drawn(self) -> Buffer:
        """The counter."""
        return self.shared[-1]


@dataclass(frozen=True)
class Fill:
    """Every element of a scratch tile."""

    dst: Buffer
    value: float


Stmt = Union[
    Bind,
    Let,
    Accumulator,
    Accumulate,
    Finish,
    For,
    StoreTile,
    Ahead,
    Pack,
    PackColumns,
    PackRuns,
    Mma,
    Transpose,
    Fill,
    Contract,
    ForTile,
    Stream,
    Multiply,
    MapTile,
    FoldRows,
    MapRows,
    ForRows,
    ScaleRows,
    Transposed,
    When,
    WhenLast,
    WhenSummed,
    Hold,
    Keep,
    Order,
    GroupPlaces,
    GroupRows,
    OrderRows,
    ScanCarry,
    Advance,
    ScanLanes,
]

LOOPS = (
    For
    | ForTile
    | ForRows
    | Stream
    | MapTile
    | MapRows
    | WhenLast
    | WhenSummed
    | ScanLanes
    | Transposed
)  # with a `body`


@dataclass(frozen=True)
class TileProgram:
    """The body of a kernel. `task` is its work tile's number, below `tasks`; scratch buffers belong to the thread.

    Where a task is the work of several threads, `team` says how many of them share a row, `width` how many lanes
    each of them takes at a time.
    """

    skeleton: str
    args: tuple[Buffer, ...]
    dims: tuple[Dim, ...]
    task: Axis
    tasks: Ix
    scratch: tuple[Buffer, ...]
    body: tuple[Stmt, ...]
    overwrites: tuple[Buffer, ...] = ()  # arguments whose memory the destination may share
    numbers: tuple[tuple[Dim, Ix], ...] = ()  # that a launch works out once and passes in, in order
    threads: int = 1
    team: int = 1
    width: int = 0  # as the device has it
    tile: BlockTile | None = None  # of a product of a block of threads
    maps: tuple[TensorMap, ...] = ()  # that a launch makes and passes in after the numbers
    blocks: int = 0  # that a multiprocessor should have registers for at one time; 0: as it comes
    most: int = 0  # blocks that a multiprocessor takes at one time, where kernels overlap; 0: as many as fit
    one_of: tuple[tuple[Buffer, ...], ...] = ()  # a task uses one of these groups of scratch

    @property
    def dim_arguments(self) -> tuple[Dim, ...]:
        """The numbers that a launch passes in, in order: dims, then what it works out from them."""
        return (*self.dims, *(d for d, _ in self.numbers))

    def statements(self) -> Iterator[Stmt]:
        """Every statement, outer ones first."""
        stack = list(reversed(self.body))
        while stack:
            s = stack.pop()
            yield s
            if isinstance(s, LOOPS):
                stack.extend(reversed(s.body))
            if isinstance(s, Transposed):
                stack.extend(reversed(s.before))
            if isinstance(s, When):
                stack.extend(reversed((*s.body, *s.otherwise)))


def whole_of(value: Expr, dtype: DType) -> Expr | None:
    """The integers of 32 bits that vectors store as `dtype`, which has them all; None of others."""
    if dtype is i64 and isinstance(value, Prim) and value.op is Op.CONTIGUOUS:
        (value,) = value.args
    return value if value.dtype is i32 and dtype in (i32, i64) else None


def has_gathers(program: TileProgram) -> bool:
    """Whether the program reads memory at places that it computes."""
    values = (getattr(s, "value", None) for s in program.statements())
    return any(isinstance(e, Gather) for e in walk(v for v in values if isinstance(v, Expr)))


def nodes_of(body: Iterable[Stmt | Expr]) -> list[Expr]:
    """Every expression node that names and values of a map are made of."""
    return walk([s.value if isinstance(s, Let) else s for s in body if isinstance(s, Let | Expr)])


def reads_memory(body: Iterable[Stmt | Expr]) -> bool:
    """Whether the statements and values of a map do anything but compute: names are all that it may make."""
    body = list(body)
    only_names = all(isinstance(s, Let | Expr) for s in body)
    return not only_names or any(True for e in nodes_of(body) for _ in buffers_of(e))

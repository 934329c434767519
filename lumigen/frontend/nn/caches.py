"""Caches of keys and values whose rows are not in the order of the text: rings, and pages of a pool.

Both are states, and what they do is spelled with plain operations: a comparison says which rows change, a gather what
stands there. The compiler proves that only these are touched.
"""

from __future__ import annotations

from collections.abc import Sequence

from lumigen.dtype import DType, f32, i64
from lumigen.errors import BadArgument
from lumigen.frontend.functions import arange, where
from lumigen.frontend.operand import is_tensor
from lumigen.frontend.state import State
from lumigen.frontend.symbolic import Size
from lumigen.frontend.tensor import Tensor
from lumigen.frontend.trace import fail
from lumigen.index import ix


class RingCache(State):
    """The latest rows of a text, (.., rows, features): position p stands at row p mod rows, over the one before it.

    For attention that looks back over a sliding window: queries at p see p - window + 1 to p, `window` being as many as
    there are rows unless it is given. A chunk of n positions is written before its first query looks back, so that
    `rows` is at least window + n - 1 for the longest chunk.

        keys = nn.RingCache("keys", (groups, 4096 + 64 - 1, width), window=4096)
        keys.write(k, position)  # k: (groups, n, width)
        scores = (q @ keys.transpose(-1, -2)).masked_fill(~keys.seen(position, n), float("-inf"))

    BadArgument for windows and chunks that do not fit.
    """

    __slots__ = ("window",)

    def __init__(
        self, name: str, shape: Sequence[int], dtype: DType = f32, *, window: int | None = None
    ) -> None:
        super().__init__(name, shape, dtype)
        if len(shape) < 2:
            raise _bad(self, f"the shape {tuple(shape)}", "rows and features, (.., rows, features)")
        self.window = self.rows if window is None else window
        if not 1 <= self.window <= self.rows:
            raise _bad(self, f"the window {window}", f"1 to {self.rows}, the rows that there are")

    @property
    def rows(self) -> int:
        """How many positions are kept."""
        return self.extents[-2].const

    def write(self, x: Tensor, position: Tensor) -> None:
        """Put x (.., n, features) at `position`, an integer from 0, and those after it; cast to the cache's dtype.

        Rows at positions below 0 are left out.
        """
        self._check(x)
        n, start = self._chunk(x.shape[-2]), _scalar(self, position)
        ahead = (arange(self.rows) - start % self.rows) % self.rows
        here = (ahead < n) & (-1 - start < ahead)  # which no position makes wrap around
        taken = x.to(self.dtype).index_select(-2, ahead)
        self[...] = where(here.unsqueeze(-1), taken, self)

    def seen(self, position: Tensor, n: Size) -> Tensor:
        """bool (n, rows): what queries at `position` and the n - 1 after it see, after those are written."""
        start, more = _scalar(self, position), self._chunk(n) - 1
        row = arange(self.rows)
        behind = arange(n).unsqueeze(-1) - more + (start % self.rows + more - row) % self.rows
        # a row holds the last position that has its remainder, and none before the text comes to it
        return (row - more <= start) & (behind >= 0) & (behind < self.window)

    def _check(self, x: Tensor) -> None:
        """All axes but that of the rows are the cache's, or 1 for all of it."""
        features = (*self.extents[:-2], self.extents[-1])
        given = (*x.extents[:-2], *x.extents[-1:])
        fits = 2 <= x.ndim <= self.ndim
        tail = features[len(features) - len(given) :]
        if not fits or any(e is not f and e != 1 for e, f in zip(given, tail, strict=True)):
            wanted = (*features[:-1], "n", features[-1])
            raise _unfit(self, x, f"{_text(wanted)}, n rows of the cache")

    def _chunk(self, n: Size) -> Size:
        most = _most(n)
        if most is None or self.window + most - 1 > self.rows:
            expected = f"window + n - 1 rows at most, of which there are {self.rows}"
            raise _bad(self, f"a chunk of {most} for a window of {self.window}", expected)
        return n


class PagedCache(State):
    """Rows of several texts in pages of one pool, (pages, page_size, ..): a table says which pages a text has.

    Position p of a text stands in page `table[p // page_size]`, at row p mod page_size. A table, integers (length,) of
    a fixed length, is an input with a `range` from 0 to pages - 1: its caller gives pages to texts, each of up to
    length * page_size positions.

        keys = nn.PagedCache("keys", (256, 16, groups, width))
        keys.write(k, position, table)  # k: (n, groups, width)
        rows = keys.read(table)         # (length * 16, groups, width), of which the text has the first

    Attention that masks what comes after the position reads no further in the table, and copies nothing.
    """

    __slots__ = ()

    def __init__(self, name: str, shape: Sequence[int], dtype: DType = f32) -> None:
        super().__init__(name, shape, dtype)
        if len(shape) < 2:
            raise _bad(self, f"the shape {tuple(shape)}", "pages and rows, (pages, page_size, ..)")

    @property
    def page_size(self) -> int:
        """Positions in a page."""
        return self.extents[1].const

    def read(self, table: Tensor) -> Tensor:
        """(length * page_size, ..): the rows of a text, in order."""
        return self[self._table(table)].flatten(0, 1)

    def write(self, x: Tensor, position: Tensor, table: Tensor) -> None:
        """Put x (n, ..) at `position`, an integer from 0, and those after it; cast to the cache's dtype.

        Rows at positions that the table has not, below 0 too, are left out. A chunk touches as many pages as it may at
        most, one after the other.
        """
        self._check(x)
        n, size, start = x.shape[0], self.page_size, _scalar(self, position)
        most = _most(n)
        if most is None:
            raise _bad(self, f"a chunk of {n}", "one of a bounded length, such as a Dim")
        pages, length = self.extents[0].const, self._table(table).extents[0].const * size
        page_of = table.to(i64).unsqueeze(1).expand(-1, size).flatten()  # of each position
        into = start % size
        given = x.to(self.dtype)
        features = (1,) * (self.ndim - 2)
        for k in range((most - 2) // size + 2):
            page = page_of[(start % length + k * size) % length]
            ahead = arange(size) + k * size - into
            here = (ahead >= 0) & (ahead < n) & (-1 - start < ahead) & (start < length - ahead)
            here = (arange(pages) == page).unsqueeze(-1) & here
            self[...] = where(
                here.reshape(pages, size, *features), given.index_select(0, ahead), self
            )

    def _check(self, x: Tensor) -> None:
        """All axes but the first are those of a row, or 1 for all of it."""
        features = self.extents[2:]
        fits = x.ndim == 1 + len(features)
        if not fits or any(
            e is not f and e != 1 for e, f in zip(x.extents[1:], features, strict=True)
        ):
            raise _unfit(self, x, f"{_text(('n', *features))}, n rows of a text")

    def _table(self, table: Tensor) -> Tensor:
        if table.ndim != 1 or not table.dtype.is_int or not table.extents[0].is_const:
            raise _bad(
                self, f"a table of {table.dtype}{list(table.shape)}", "integers of a fixed number"
            )
        return table


def _most(n: Size) -> int | None:
    """The longest that a chunk may be."""
    return ix(n).bounds()[1]


def _scalar(cache: State, position: Tensor) -> Tensor:
    if not is_tensor(position) or position.ndim or not position.dtype.is_int:
        raise _bad(cache, f"the position {position!r}", "a tensor of one integer, without axes")
    return position.to(i64)


def _unfit(cache: State, x: Tensor, expected: str) -> Exception:
    return _bad(cache, f"written from x of shape {_text(x.extents)}", expected)


def _text(shape: Sequence[object]) -> str:
    return f"({', '.join(map(str, shape))})"


def _bad(cache: State, value: str, expected: str) -> Exception:
    return fail(
        BadArgument, op=type(cache).__name__, name=cache.name, value=value, expected=expected
    )

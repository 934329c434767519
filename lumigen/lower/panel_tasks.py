"""panel_tasks: what each task of a product with columns in panels multiplies.

Before: the axes of rows and columns, and sizes.  After: shares of both, in a scope that binds their ends.
"""

from __future__ import annotations

from dataclasses import dataclass

from lumigen.index import Axis, Dim, Ix, ceildiv, extent_of, ix, minimum
from lumigen.lower.contract import WIDTH, number, threads_of, tiles
from lumigen.lower.scope import Names, Scope
from lumigen.lower.simt import dims_of
from lumigen.region import Region
from lumigen.schedule import Schedule


@dataclass(frozen=True)
class Tasks:
    """What each task multiplies: its first row and column and the ones after its last, bound in its scope."""

    axis: Axis
    count: Ix
    scope: Scope
    rows: tuple[Axis, Axis]
    columns: tuple[Axis, Axis]
    most_rows: int
    numbers: tuple[tuple[Dim, Ix], ...]


def tasks_of(
    region: Region,
    grid: tuple[Axis, ...],
    axes: tuple[Axis, Axis],
    whole: tuple[bool, int],
    streamed: bool,
    sizes: Schedule,
    least: tuple[int, int],
) -> Tasks:
    """Rows and columns in equal shares of so many at least, columns of whole panel pairs, for each point of the grid.

    `whole`: whether columns lie for a matrix unit, and of how many rows a share has a multiple, but for the last one.
    """
    m, n = axes
    dims, grid_size = dims_of(region), extent_of(grid)
    most_rows = min(sizes["rows"], m.extent.bounds()[1] or sizes["rows"])
    for_unit, together = whole
    most_rows = -(-most_rows // together) * together
    shares, numbers = threads_of(grid_size, dims)
    in_common = (streamed and for_unit) or sizes.where("b") == "tile"  # what rows need, in one task
    m_tiles = tiles(m.extent, most_rows, least[0], ix(1) if in_common else shares)
    n_tiles = tiles(n.extent, sizes["columns"], least[1], ceildiv(shares, m_tiles))
    task = Axis("task", grid_size * m_tiles * n_tiles)
    top = Scope(Names(), frozenset({task}))
    row_tiles = number("row_tiles", m_tiles, dims)
    column_tiles = number("column_tiles", n_tiles, dims)

    rows_each = ceildiv(ceildiv(m.extent, row_tiles), together) * together
    cols_each = Axis("columns_each", n.extent + 2 * WIDTH)
    top.bind(cols_each, ceildiv(ceildiv(n.extent, column_tiles), 2 * WIDTH) * (2 * WIDTH))
    m_part, n_part = Axis("row_tile", ix(row_tiles)), Axis("column_tile", ix(column_tiles))
    # all rows meet columns that come from memory while these are in a cache
    inner, outer = (m_part, n_part) if streamed else (n_part, m_part)
    inner_tiles, outer_tiles = (row_tiles, column_tiles) if streamed else (column_tiles, row_tiles)
    top.bind(inner, ix(task) % inner_tiles)
    top.bind(outer, ix(task) // inner_tiles % outer_tiles)
    each = Axis("rows_each", m.extent + together)
    top.bind(each, rows_each)
    top.spread(ix(task) // column_tiles // row_tiles, grid)
    m0, m1 = Axis("m0", m.extent), Axis("m1", m.extent + 1)
    n0, n1 = Axis("n0", n.extent), Axis("n1", n.extent + 1)
    top.bind(m0, minimum(ix(m_part) * each, m.extent))
    top.bind(m1, minimum(ix(m0) + each, m.extent))
    top.bind(n0, minimum(ix(n_part) * cols_each, n.extent))
    top.bind(n1, minimum(ix(n0) + cols_each, n.extent))
    columns = tiles(n.extent, sizes["columns"], least[1], ceildiv(shares, row_tiles))
    return Tasks(
        task,
        grid_size * row_tiles * column_tiles,
        top,
        (m0, m1),
        (n0, n1),
        most_rows,
        (*numbers, (row_tiles, m_tiles), (column_tiles, columns)),
    )

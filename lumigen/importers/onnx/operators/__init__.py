"""operators: a file for each kind, each a table of rows and the functions in them."""

from lumigen.importers.onnx.node import Row
from lumigen.importers.onnx.operators import (
    attention,
    contrib,
    control,
    convolutions,
    elementwise,
    gathering,
    movement,
    norms,
    pools,
    products,
    quantised,
    recurrent,
    reductions,
    resampling,
    sequences,
    signals,
    sources,
)

ROWS: tuple[Row, ...] = (
    *elementwise.ROWS,
    *reductions.ROWS,
    *movement.ROWS,
    *gathering.ROWS,
    *sources.ROWS,
    *products.ROWS,
    *convolutions.ROWS,
    *pools.ROWS,
    *norms.ROWS,
    *resampling.ROWS,
    *recurrent.ROWS,
    *control.ROWS,
    *sequences.ROWS,
    *quantised.ROWS,
    *attention.ROWS,
    *signals.ROWS,
    *contrib.ROWS,
)

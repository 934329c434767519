from lumigen.importers.onnx.node import Row
ROWS: tuple[Row, ...] = ()

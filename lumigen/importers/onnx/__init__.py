"""onnx: models of ONNX files as models of the frontend; the names and sizes of inputs and outputs stay."""

from lumigen.importers.onnx.explaining import Explained as Explained
from lumigen.importers.onnx.explaining import explained as explained
from lumigen.importers.onnx.importing import from_onnx as from_onnx
from lumigen.importers.onnx.inspecting import Inspected as Inspected
from lumigen.importers.onnx.inspecting import inspected as inspected

__all__ = ["Explained", "Inspected", "explained", "from_onnx", "inspected"]

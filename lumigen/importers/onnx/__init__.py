"""onnx: models of ONNX files as models of the frontend; the names and sizes of inputs and outputs stay."""

from lumigen.importers.onnx.explaining import Explained as Explained
from lumigen.importers.onnx.explaining import explained as explained
from lumigen.importers.onnx.importing import from_onnx as from_onnx

__all__ = ["Explained", "explained", "from_onnx"]

"""importers: models of other programs as models of the frontend, whose functions they call."""

from lumigen.importers.onnx import Checked as Checked
from lumigen.importers.onnx import Explained as Explained
from lumigen.importers.onnx import checked as checked
from lumigen.importers.onnx import explained as explained
from lumigen.importers.onnx import from_onnx as from_onnx

__all__ = ["Checked", "Explained", "checked", "explained", "from_onnx"]

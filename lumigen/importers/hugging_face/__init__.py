"""hugging_face: directories of Hugging Face as models: of an example where one computes them, else by transformers."""

from lumigen.importers.hugging_face.checkpoint import is_checkpoint as is_checkpoint
from lumigen.importers.hugging_face.opening import Opened as Opened
from lumigen.importers.hugging_face.opening import checked as checked
from lumigen.importers.hugging_face.opening import explained as explained
from lumigen.importers.hugging_face.opening import from_hugging_face as from_hugging_face
from lumigen.importers.hugging_face.opening import open_checkpoint as open_checkpoint
from lumigen.importers.hugging_face.opening import transformers_version as transformers_version

__all__ = [
    "Opened",
    "checked",
    "explained",
    "from_hugging_face",
    "is_checkpoint",
    "open_checkpoint",
    "transformers_version",
]

"""The namespace torch.signal, which has windows."""

from lumigen.frontend import window as windows
from lumigen.frontend.offered import lacks

__all__ = ["windows"]


def __getattr__(name: str) -> object:
    raise lacks(name, list(__all__), __name__)

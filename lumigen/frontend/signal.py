"""The namespace torch.signal, which has windows."""

from lumigen.frontend import window as windows
from lumigen.frontend.offered import namespace

__all__ = ["windows"]


__getattr__, __dir__ = namespace(globals())

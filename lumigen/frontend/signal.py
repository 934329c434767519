"""The namespace torch.signal, which has windows."""

from lumigen.frontend import window as windows

__all__ = ["windows"]

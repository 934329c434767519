"""utils: PyTorch's place of `rnn`, so that a model that packs its sequences is written alike."""

from lumigen.frontend.nn import packed as rnn

__all__ = ["rnn"]

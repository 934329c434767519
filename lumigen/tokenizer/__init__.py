"""Tokenizers: plain data, and what they mean as two functions in Python.

Promises the ids that the model was trained with. `weights` makes the data from GGUF or tokenizer.json.
"""

from lumigen.tokenizer.data import Added, TextStep, Tokenizer
from lumigen.tokenizer.decode import TextStream, decode, piece
from lumigen.tokenizer.encode import encode
from lumigen.tokenizer.patterns import GPT2, LLAMA3, QWEN2

__all__ = [
    "GPT2",
    "LLAMA3",
    "QWEN2",
    "Added",
    "TextStep",
    "TextStream",
    "Tokenizer",
    "decode",
    "encode",
    "piece",
]

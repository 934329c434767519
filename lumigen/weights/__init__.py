"""Files of weights: safetensors, GGUF, PyTorch's state_dicts and npz, sharded or in a directory.

Promises that a truncated, lying or hostile file is a BadWeightsFile: never a crash, never code that is
run, and never memory beyond a small multiple of the file's own size. Tensors are views of the mapped
file, not copies, but for those that are stored quantised.
"""

from lumigen.weights.json_text import config_beside, config_in
from lumigen.weights.opened import (
    CONVERTED,
    Alias,
    Weights,
    check_fit,
    check_named,
    fitted,
    missing,
    rounded,
)
from lumigen.weights.opening import open_weights
from lumigen.weights.safetensors import OURS, read_header
from lumigen.weights.stored import COMPARE, Array, StoredTensor, as_array, named_array

__all__ = [
    "COMPARE",
    "CONVERTED",
    "OURS",
    "Alias",
    "Array",
    "StoredTensor",
    "Weights",
    "as_array",
    "check_fit",
    "check_named",
    "config_beside",
    "config_in",
    "fitted",
    "missing",
    "named_array",
    "open_weights",
    "read_header",
    "rounded",
]

"""Lumigen compiles a deep-learning model into a standalone C++ project: its public names."""

import sys

from lumigen import (
    errors,
    interrupt,  # noqa: F401  # pyright: ignore[reportUnusedImport]  # before what takes time
)
from lumigen.compile import compile, load
from lumigen.compilers import CPUCompiler, GenericCompiler
from lumigen.dtype import DType, bf16, boolean, f16, f32, f64, i8, i32, i64, u8
from lumigen.errors import InternalError, LumigenError, UserError
from lumigen.frontend import Context as Graph
from lumigen.frontend import (
    Dim,
    Model,
    Tensor,
    Traced,
    arange,
    cat,
    eye,
    full,
    functional,
    gather,
    index_select,
    load_model_file,
    matmul,
    maximum,
    minimum,
    nn,
    ones,
    spec,
    stack,
    take_along_dim,
    tril,
    triu,
    where,
    zeros,
)
from lumigen.resources import lumigen_version
from lumigen.weights import Weights, open_weights

__version__ = lumigen_version()

# `import lumigen.nn as nn` works like `from lumigen import nn`.
sys.modules[f"{__name__}.nn"] = nn
sys.modules[f"{__name__}.functional"] = functional

__all__ = [
    "CPUCompiler",
    "DType",
    "Dim",
    "GenericCompiler",
    "Graph",
    "InternalError",
    "LumigenError",
    "Model",
    "Tensor",
    "Traced",
    "UserError",
    "Weights",
    "arange",
    "bf16",
    "boolean",
    "cat",
    "compile",
    "errors",
    "eye",
    "f16",
    "f32",
    "f64",
    "full",
    "functional",
    "gather",
    "i8",
    "i32",
    "i64",
    "index_select",
    "load",
    "load_model_file",
    "matmul",
    "maximum",
    "minimum",
    "nn",
    "ones",
    "open_weights",
    "spec",
    "stack",
    "take_along_dim",
    "tril",
    "triu",
    "u8",
    "where",
    "zeros",
]

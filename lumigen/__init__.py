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
    TextGeneration,
    Traced,
    fft,
    functional,
    functions,
    linalg,
    load_model_file,
    masked,
    nn,
    random,
    signal,
    spec,
    special,
)
from lumigen.frontend.functions import *  # noqa: F403  # the names that it lists
from lumigen.resources import lumigen_version
from lumigen.weights import Weights, open_weights

__version__ = lumigen_version()

# `import lumigen.nn as nn` works like `from lumigen import nn`.
for module in (fft, functional, linalg, masked, nn, random, signal, special):
    sys.modules[f"{__name__}.{module.__name__.rpartition('.')[2]}"] = module

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
    "TextGeneration",
    "Traced",
    "UserError",
    "Weights",
    "bf16",
    "boolean",
    "compile",
    "errors",
    "f16",
    "f32",
    "f64",
    "fft",
    "functional",
    "i8",
    "i32",
    "i64",
    "linalg",
    "load",
    "load_model_file",
    "masked",
    "nn",
    "open_weights",
    "random",
    "signal",
    "spec",
    "special",
    "u8",
]
__all__ += functions.__all__

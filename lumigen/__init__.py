"""Lumigen compiles a deep-learning model into a standalone C++ project: its public names."""

import sys

from lumigen import (
    errors,
    interrupt,  # noqa: F401  # pyright: ignore[reportUnusedImport]  # before what takes time
    ir,
)
from lumigen.compile import compile, load
from lumigen.compilers import CPUCompiler, CUDACompiler, GenericCompiler, HalfCompiler
from lumigen.context import Context as Graph
from lumigen.dtype import (
    DType,
    bf16,
    bfloat16,
    boolean,
    double,
    f16,
    f32,
    f64,
    float16,
    float32,
    float64,
    half,
    i8,
    i32,
    i64,
    int8,
    int32,
    int64,
    long,
    u8,
    uint8,
)
from lumigen.errors import InternalError, LumigenError, UserError
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
from lumigen.frontend.offered import lacks
from lumigen.importers.hugging_face import from_hugging_face
from lumigen.importers.onnx import from_onnx
from lumigen.importers.torch import from_torch
from lumigen.original import check
from lumigen.resources import lumigen_version
from lumigen.weights import Weights, open_weights

__version__ = lumigen_version()

# `import lumigen.nn as nn` works like `from lumigen import nn`.
for module in (fft, functional, linalg, masked, nn, random, signal, special):
    sys.modules[f"{__name__}.{module.__name__.rpartition('.')[2]}"] = module
for name, module in (
    ("nn.functional", functional),
    ("nn.utils", nn.utils),
    ("nn.utils.rnn", nn.utils.rnn),
    ("signal.windows", signal.windows),
):
    sys.modules[f"{__name__}.{name}"] = module

__all__ = [
    "CPUCompiler",
    "CUDACompiler",
    "DType",
    "Dim",
    "GenericCompiler",
    "Graph",
    "HalfCompiler",
    "InternalError",
    "LumigenError",
    "Model",
    "Tensor",
    "TextGeneration",
    "Traced",
    "UserError",
    "Weights",
    "bf16",
    "bfloat16",
    "boolean",
    "check",
    "compile",
    "double",
    "errors",
    "f16",
    "f32",
    "f64",
    "fft",
    "float16",
    "float32",
    "float64",
    "from_hugging_face",
    "from_onnx",
    "from_torch",
    "functional",
    "half",
    "i8",
    "i32",
    "i64",
    "int8",
    "int32",
    "int64",
    "ir",
    "linalg",
    "load",
    "load_model_file",
    "long",
    "masked",
    "nn",
    "open_weights",
    "random",
    "signal",
    "spec",
    "special",
    "u8",
    "uint8",
]
__all__ += functions.__all__

# PyTorch's names of dtypes that are Python's own too, which `import *` leaves alone.
_PYTHONS = {"float": f32, "int": i32, "bool": boolean}


def __getattr__(name: str) -> object:
    if name in _PYTHONS:
        return _PYTHONS[name]
    raise lacks(name, __all__, __name__)

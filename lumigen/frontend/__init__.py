"""What users write: tensors, functions, modules, models. It knows nothing of kernels."""

from lumigen.frontend import functional as functional
from lumigen.frontend import nn as nn
from lumigen.frontend.context import Backend, Context
from lumigen.frontend.creation import arange, eye, full, ones, tril, triu, zeros
from lumigen.frontend.functional import (
    cat,
    gather,
    index_select,
    matmul,
    maximum,
    minimum,
    stack,
    take_along_dim,
    where,
)
from lumigen.frontend.load import load_model_file
from lumigen.frontend.model import Entry, Model, Traced, WeightSpec, trace_entry
from lumigen.frontend.spec import Spec, spec
from lumigen.frontend.symbolic import Dim
from lumigen.frontend.tensor import Tensor

__all__ = [
    "Backend",
    "Context",
    "Dim",
    "Entry",
    "Model",
    "Spec",
    "Tensor",
    "Traced",
    "WeightSpec",
    "arange",
    "cat",
    "eye",
    "full",
    "functional",
    "gather",
    "index_select",
    "load_model_file",
    "matmul",
    "maximum",
    "minimum",
    "nn",
    "ones",
    "spec",
    "stack",
    "take_along_dim",
    "trace_entry",
    "tril",
    "triu",
    "where",
    "zeros",
]

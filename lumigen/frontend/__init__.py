"""What users write: tensors, functions, modules, models. It knows nothing of kernels."""

from lumigen.frontend import fft as fft
from lumigen.frontend import functional as functional
from lumigen.frontend import functions
from lumigen.frontend import linalg as linalg
from lumigen.frontend import masked as masked
from lumigen.frontend import nn as nn
from lumigen.frontend import random as random
from lumigen.frontend import signal as signal
from lumigen.frontend import special as special
from lumigen.frontend.application import TextGeneration
from lumigen.frontend.functions import *  # noqa: F403  # the names that it lists
from lumigen.frontend.load import load_model_file
from lumigen.frontend.model import Entry, Model, Traced, WeightSpec, trace_entry
from lumigen.frontend.spec import Spec, spec
from lumigen.frontend.symbolic import Dim
from lumigen.frontend.tensor import Tensor

__all__ = [
    "Dim",
    "Entry",
    "Model",
    "Spec",
    "Tensor",
    "TextGeneration",
    "Traced",
    "WeightSpec",
    "fft",
    "functional",
    "linalg",
    "load_model_file",
    "masked",
    "nn",
    "random",
    "signal",
    "spec",
    "special",
    "trace_entry",
]
__all__ += functions.__all__

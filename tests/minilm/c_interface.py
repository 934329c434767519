"""include/minilm.h through ctypes: every pointer and every number as a C caller would set it."""

from __future__ import annotations

import ctypes
from ctypes import POINTER, Structure, byref, c_char_p, c_int32, c_int64, c_size_t, c_void_p
from pathlib import Path

import numpy as np

OK, BAD_ARGUMENT, BAD_DTYPE, BAD_SHAPE = 0, 1, 2, 3
BAD_WEIGHTS = 5

CODES = {"i": 0, "u": 1, "f": 2}


class Tensor(Structure):
    _fields_ = (
        ("data", c_void_p),
        ("device_type", c_int32),
        ("device_id", c_int32),
        ("ndim", c_int32),
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
        ("shape", POINTER(c_int64)),
        ("strides", POINTER(c_int64)),
        ("byte_offset", ctypes.c_uint64),
    )


class ModelOptions(Structure):
    _fields_ = (
        ("struct_size", c_size_t),
        ("weights_path", c_char_p),
        ("weights", c_void_p),
        ("weights_bytes", c_size_t),
        ("device_id", c_int32),
        ("log_level", c_int32),
        ("user", c_void_p),
        ("allocate", c_void_p),
        ("release", c_void_p),
        ("log", c_void_p),
    )


class ContextOptions(Structure):
    _fields_ = (
        ("struct_size", c_size_t),
        ("threads", c_int32),
        ("stream", c_void_p),
        ("workspace", c_void_p),
        ("workspace_bytes", c_size_t),
        ("user", c_void_p),
        ("parallel_for", c_void_p),
    )


class Dims(Structure):
    _fields_ = (("batch", c_int64), ("sequence", c_int64))


def tensor(array: np.ndarray, byte_offset: int = 0) -> Tensor:
    """A tensor over the memory of an array, which must outlive it."""
    return Tensor(
        data=array.ctypes.data,
        device_type=1,
        ndim=array.ndim,
        code=CODES[array.dtype.kind],
        bits=array.dtype.itemsize * 8,
        lanes=1,
        shape=(c_int64 * array.ndim)(*array.shape),
        byte_offset=byte_offset,
    )


class Library:
    """A model with its weights, and a context of one thread."""

    def __init__(self, path: Path, weights: Path) -> None:
        self.handle = ctypes.CDLL(str(path))
        self.handle.minilm_last_error.restype = c_char_p
        self.model, self.context = c_void_p(), c_void_p()
        assert self.open(weights, self.model) == OK, self.last_error()
        options = ContextOptions(struct_size=ctypes.sizeof(ContextOptions), threads=1)
        opened = self.handle.minilm_context_open(self.model, byref(options), byref(self.context))
        assert opened == OK, self.last_error()

    def last_error(self) -> str:
        return self.handle.minilm_last_error().decode()

    def open(self, weights: Path, model: c_void_p) -> int:
        path = str(weights).encode()
        options = ModelOptions(struct_size=ctypes.sizeof(ModelOptions), weights_path=path)
        return self.handle.minilm_model_open(byref(options), byref(model))

    def workspace(self, batch: int, sequence: int) -> int:
        found = c_size_t()
        dims = Dims(batch, sequence)
        status = self.handle.minilm_embed_workspace(self.model, byref(dims), byref(found))
        assert status == OK, self.last_error()
        return found.value

    def embed(self, ids: Tensor | None, mask: Tensor | None, out: Tensor | None) -> int:
        tensors = [byref(t) if t is not None else None for t in (ids, mask, out)]
        return self.handle.minilm_embed(self.context, *tensors)

"""Arrays in the memory of native/fake_cuda.cpp, and what they say through DLPack."""

from __future__ import annotations

import ctypes

import numpy as np

FLOAT = 2
GPU = 2


class Managed(ctypes.Structure):
    """DLPack's DLManagedTensor."""

    _fields_ = (
        ("data", ctypes.c_void_p),
        ("device_type", ctypes.c_int32),
        ("device_id", ctypes.c_int32),
        ("ndim", ctypes.c_int32),
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
        ("manager", ctypes.c_void_p),
        ("deleter", ctypes.c_void_p),
    )


new_capsule = ctypes.pythonapi.PyCapsule_New
new_capsule.restype = ctypes.py_object
new_capsule.argtypes = (ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p)
pointer_of = ctypes.pythonapi.PyCapsule_GetPointer
pointer_of.restype = ctypes.c_void_p
pointer_of.argtypes = (ctypes.py_object, ctypes.c_char_p)


def copy(cuda: ctypes.CDLL, to: int, source: int, size: int, *, to_gpu: bool) -> None:
    """The fake ends the process where a side is not what it is said to be."""
    code = cuda.cudaMemcpy(
        ctypes.c_void_p(to), ctypes.c_void_p(source), ctypes.c_size_t(size), 1 if to_gpu else 2
    )
    assert code == 0


class GpuArray:
    """A float32 array of "the GPU's"; `streams` are those that it was told."""

    def __init__(self, cuda: ctypes.CDLL, array: np.ndarray, *, transposed: bool = False) -> None:
        self.cuda, self.array, self.streams = cuda, np.ascontiguousarray(array), []
        self.transposed = transposed
        memory = ctypes.c_void_p()
        assert cuda.cudaMalloc(ctypes.byref(memory), ctypes.c_size_t(self.array.nbytes)) == 0
        self.data = memory.value
        copy(cuda, self.data, self.array.ctypes.data, self.array.nbytes, to_gpu=True)

    def __dlpack_device__(self) -> tuple[int, int]:
        return GPU, 0

    def __dlpack__(self, *, stream: int | None = None) -> object:
        self.streams.append(stream)
        order = reversed(self.array.shape) if self.transposed else self.array.shape
        shape = (ctypes.c_int64 * self.array.ndim)(*order)
        strides = (ctypes.c_int64 * 2)(1, self.array.shape[-1])
        self.parts = Managed(self.data, GPU, 0, self.array.ndim, FLOAT, 32, 1, shape)
        if self.transposed:
            self.parts.strides = strides
        self.alive = (shape, strides)
        return new_capsule(ctypes.addressof(self.parts), b"dltensor", None)

    def copy(self) -> GpuArray:
        return GpuArray(self.cuda, self.array.T if self.transposed else self.array)

    def fetch(self) -> np.ndarray:
        out = np.empty_like(self.array)
        copy(self.cuda, out.ctypes.data, self.data, out.nbytes, to_gpu=False)
        return out


def taken(cuda: ctypes.CDLL, capsule: object) -> np.ndarray:
    """What a capsule holds, on the host."""
    tensor = Managed.from_address(pointer_of(capsule, b"dltensor"))
    assert tensor.device_type == GPU
    out = np.empty(tuple(tensor.shape[i] for i in range(tensor.ndim)), np.float32)
    copy(cuda, out.ctypes.data, tensor.data + tensor.byte_offset, out.nbytes, to_gpu=False)
    return out

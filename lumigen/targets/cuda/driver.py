"""driver: CUDA's driver, called without the toolkit: memory, modules, launches, events of one GPU.

A call that fails raises; after a kernel that faults all of them do, and the process has to end.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from ctypes import byref, c_char_p, c_float, c_int, c_size_t, c_uint, c_uint64, c_void_p
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]

# Numbers of cuda.h.
DYNAMIC_SHARED = 8  # CUfunction_attribute
WAIT_AT_LEAST = 0  # CU_STREAM_WAIT_VALUE_GEQ
NON_BLOCKING = 1  # CU_STREAM_NON_BLOCKING
HOST_MAPPED = 2  # CU_MEMHOSTALLOC_DEVICEMAP
CLUSTER, OVERLAP = 4, 6  # CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION, _PROGRAMMATIC_STREAM_SERIALIZATION
L2_BYTES = 38  # CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE
HELD_BYTES = 81  # CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR
MAP_TYPES = {"f16": 6, "f32": 7, "bf16": 9}  # CUtensorMapDataType
SWIZZLE_128, PROMOTE_256 = 3, 3


class DriverFailed(Exception):
    """What was called, and the name of the error."""


@dataclass(frozen=True)
class DeviceKernel:
    """A kernel of a module: what it is launched with, and how many clusters of one that stays run at a time.

    One that is not `early` begins after the launch before.
    """

    handle: c_void_p
    threads: int
    shared: int
    cluster: int
    most: int | None
    early: bool

    def blocks(self, tasks: int) -> int:
        """The grid for so many work tiles."""
        tasks = tasks if self.most is None else min(tasks, self.most)
        return tasks * max(1, self.cluster)


class _Attribute(ctypes.Structure):
    _fields_ = [("id", c_uint), ("pad", c_uint), ("value", c_uint * 16)]


class _Config(ctypes.Structure):
    _fields_ = [
        ("grid", c_uint * 3),
        ("block", c_uint * 3),
        ("shared", c_uint),
        ("stream", c_void_p),
        ("attributes", c_void_p),
        ("count", c_uint),
    ]


def launched_bytes(shared: int, most: int, held: int) -> int:
    """As in runtime/cuda/kernel.h: `held` bytes of a multiprocessor are filled by `most` blocks, if that is not 0."""
    return max(shared, held // (most + 1) // 1024 * 1024) if most else shared


class Driver:
    """A GPU by its number, current in this thread, and one stream of it."""

    def __init__(self, number: int = 0) -> None:
        self.library = ctypes.CDLL("libcuda.so.1")
        self.call("cuInit", c_uint(0))
        device, context, stream = c_int(0), c_void_p(), c_void_p()
        self.call("cuDeviceGet", byref(device), c_int(number))
        self.call("cuDevicePrimaryCtxRetain", byref(context), device)
        self.call("cuCtxSetCurrent", context)
        self.call("cuStreamCreate", byref(stream), c_uint(NON_BLOCKING))
        self.stream = stream
        self.cache, self.held = (self._attribute(device, a) for a in (L2_BYTES, HELD_BYTES))
        self.gate, self.opened = self._gate(), 0

    def call(self, name: str, *arguments: Any) -> None:
        """A function of the driver; DriverFailed unless it succeeds."""
        code = int(getattr(self.library, name)(*arguments))
        if code != 0:
            text = c_char_p()
            self.library.cuGetErrorName(c_int(code), byref(text))
            raise DriverFailed(f"{name}: {(text.value or b'?').decode()} ({code})")

    def _attribute(self, device: c_int, number: int) -> int:
        found = c_int(0)
        self.call("cuDeviceGetAttribute", byref(found), c_int(number), device)
        return found.value

    def allocate(self, size: int) -> int:
        """The address of so many bytes."""
        found = c_uint64(0)
        self.call("cuMemAlloc_v2", byref(found), c_size_t(max(1, size)))
        return found.value

    def release(self, address: int) -> None:
        self.call("cuMemFree_v2", c_uint64(address))

    def upload(self, address: int, array: Array) -> None:
        if array.nbytes:
            source = c_void_p(array.ctypes.data)
            self.call("cuMemcpyHtoD_v2", c_uint64(address), source, c_size_t(array.nbytes))
            self.call("cuCtxSynchronize")  # our stream does not wait for it

    def download(self, array: Array, address: int) -> None:
        if array.nbytes:
            to = c_void_p(array.ctypes.data)
            self.call("cuMemcpyDtoH_v2", to, c_uint64(address), c_size_t(array.nbytes))

    def fill(self, address: int, byte: int, size: int) -> None:
        """In the order of the stream."""
        if size:
            where = c_uint64(address)
            self.call("cuMemsetD8Async", where, c_uint(byte), c_size_t(size), self.stream)

    def wait(self) -> None:
        """Until the stream has done all that it was given."""
        self.call("cuStreamSynchronize", self.stream)

    # ---- kernels ----

    def function(self, image: bytes, row: str) -> DeviceKernel:
        """The one kernel of a module; `row` is its threads, shared bytes, cluster, stays, early, most blocks."""
        module, handle = c_void_p(), c_void_p()
        self.call("cuModuleLoadData", byref(module), image)
        self.call("cuModuleEnumerateFunctions", byref(handle), c_uint(1), module)
        address, size = c_uint64(0), c_size_t(0)
        self.call("cuModuleGetGlobal_v2", byref(address), byref(size), module, row.encode())
        said = np.zeros(6, np.int32)
        self.download(said, address.value)
        threads, shared, cluster, stays, early, apart = map(int, said)
        shared = launched_bytes(shared, apart, self.held)
        self.call("cuFuncSetAttribute", handle, c_int(DYNAMIC_SHARED), c_int(shared))
        most = self._clusters(handle, threads, shared, cluster) if stays else None
        return DeviceKernel(handle, threads, shared, cluster, most, bool(early))

    def _clusters(self, handle: c_void_p, threads: int, shared: int, cluster: int) -> int:
        """How many of them run at one time."""
        attribute = _Attribute(CLUSTER, 0, (c_uint * 16)(cluster, 1, 1))
        sizes = (c_uint * 3)(cluster, 1, 1), (c_uint * 3)(threads, 1, 1)
        config = _Config(*sizes, shared, None, ctypes.addressof(attribute), 1)
        found = c_int(0)
        self.call("cuOccupancyMaxActiveClusters", byref(found), handle, byref(config))
        return max(1, found.value)

    def launch(self, function: DeviceKernel, tasks: int, arguments: Any, *, overlaps: bool) -> None:
        """A block, or a cluster of them, for each task; `arguments` is an array of pointers to them.

        Where it `overlaps` it may begin as soon as all blocks of the launch before have let it.
        """
        if tasks <= 0:
            return
        attribute = _Attribute(OVERLAP, 0, (c_uint * 16)(1))
        grid, block = (function.blocks(tasks), 1, 1), (function.threads, 1, 1)
        config = _Config(
            (c_uint * 3)(*grid),
            (c_uint * 3)(*block),
            function.shared,
            self.stream,
            ctypes.addressof(attribute),
            int(overlaps and function.early),
        )
        self.call("cuLaunchKernelEx", byref(config), function.handle, arguments, None)

    def tensor_map(
        self,
        to: int,
        dtype: str,
        address: int,
        sizes: Sequence[int],
        strides: Sequence[int],
        windows: Sequence[tuple[int, int, int]] = (),
    ) -> None:
        """As make_tensor_map of runtime/cuda/tensor_map.h: `sizes` groups, batches, lines, elements, lines of a box.

        With windows these are images, rows, columns, channels, pixels: of rows and columns where windows begin.
        """
        groups, batches, lines, elements, box_lines = sizes
        item = 4 if dtype == "f32" else 2
        line = strides[2] * item
        batch = line * lines if batches == 1 else strides[1] * item
        group = batch * batches if groups == 1 else strides[0] * item
        layout = (
            c_void_p(to),
            c_int(MAP_TYPES[dtype]),
            c_uint(4),
            c_void_p(address),
            (c_uint64 * 4)(elements, lines, batches, groups),
            (c_uint64 * 3)(line, batch, group),
        )
        settings = (c_int(0), c_int(SWIZZLE_128), c_int(PROMOTE_256), c_int(0))
        if not windows:
            box = (c_uint * 4)(128 // item, box_lines, 1, 1)
            self.call("cuTensorMapEncodeTiled", *layout, box, (c_uint * 4)(1, 1, 1, 1), *settings)
            return
        down, across = windows
        self.call(
            "cuTensorMapEncodeIm2col",
            *layout,
            (c_int * 2)(across[0], down[0]),
            (c_int * 2)(across[1], down[1]),
            c_uint(128 // item),
            c_uint(box_lines),
            (c_uint * 4)(1, across[2], down[2], 1),
            *settings,
        )

    # ---- time ----

    def _gate(self) -> Any:
        """A number that both the host and the stream see."""
        at, seen = c_void_p(), c_uint64(0)
        self.call("cuMemHostAlloc", byref(at), c_size_t(4), c_uint(HOST_MAPPED))
        self.call("cuMemHostGetDevicePointer_v2", byref(seen), at, c_uint(0))
        value = c_uint.from_address(at.value or 0)
        value.value = 0
        return value, seen

    def close_gate(self) -> None:
        """What the stream is given from now on waits until the gate is opened: no launch waits for the host then."""
        self.opened += 1
        seen = self.gate[1]
        self.call(
            "cuStreamWaitValue32_v2", self.stream, seen, c_uint(self.opened), c_uint(WAIT_AT_LEAST)
        )

    def open_gate(self) -> None:
        self.gate[0].value = self.opened

    def event(self) -> c_void_p:
        found = c_void_p()
        self.call("cuEventCreate", byref(found), c_uint(0))
        return found

    def forget(self, event: c_void_p) -> None:
        self.call("cuEventDestroy_v2", event)

    def record(self, event: c_void_p) -> None:
        self.call("cuEventRecord", event, self.stream)

    def seconds(self, start: c_void_p, end: c_void_p) -> float:
        """Between two events that have happened."""
        found = c_float(0)
        self.call("cuEventElapsedTime", byref(found), start, end)
        return found.value * 1e-3

"""QLinearConv, one thread: kernels of a CPU beside onnxruntime, in alternation, and whether all numbers are equal.

PYTHONPATH=. python3 benchmarks/onnx_quantised.py [--rounds 15]

Times are processor time, the least of the rounds; the ratio is the median of the rounds, above 1 where ours are faster.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import onnxruntime
from onnx import ModelProto, TensorProto, helper, numpy_helper

import lumigen as lg
from lumigen import fast_lane
from lumigen.pipeline import lower_model
from lumigen.target import parse_target

# channels, filters, size of the image and of a window, distance of windows, padding
CASES = {
    "1 x 1, 64 to 256, 56 x 56": (64, 256, 56, 1, 1, 0),
    "3 x 3, 64 to 64, 56 x 56": (64, 64, 56, 3, 1, 1),
    "3 x 3 by two, 128 to 128, 56 x 56": (128, 128, 56, 3, 2, 1),
    "1 x 1, 512 to 2048, 7 x 7": (512, 2048, 7, 1, 1, 0),
    "3 x 3, 512 to 512, 7 x 7": (512, 512, 7, 3, 1, 1),
    "7 x 7 by two, 3 to 64, 224 x 224": (3, 64, 224, 7, 2, 3),
}


def model_of(sizes: tuple[int, ...], rng: np.random.Generator) -> ModelProto:
    """u8 images, i8 filters with a scale each, a bias."""
    channels, filters, size, window, step, padding = sizes
    spread = 0.02 * 0.01 * 73 * window * channels**0.5  # of the sums, in a third of what u8 holds
    given = {
        "xs": np.float32(0.02),
        "xz": np.uint8(121),
        "w": rng.integers(-127, 128, (filters, channels, window, window)).astype(np.int8),
        "ws": (0.005 + 0.01 * rng.random(filters)).astype(np.float32),
        "wz": np.zeros(filters, np.int8),
        "ys": np.float32(spread),
        "yz": np.uint8(128),
        "b": rng.integers(-5000, 5000, filters).astype(np.int32),
    }
    names = {"kernel_shape": [window] * 2, "pads": [padding] * 4, "strides": [step] * 2}
    node = helper.make_node("QLinearConv", ["x", *given], ["y"], **names)
    ports = [
        helper.make_tensor_value_info(name, TensorProto.UINT8, shape)
        for name, shape in (("x", [1, channels, size, size]), ("y", None))
    ]
    tensors = [numpy_helper.from_array(np.asarray(a), name) for name, a in given.items()]
    graph = helper.make_graph([node], "conv", ports[:1], ports[1:], tensors)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)


def ours(proto: ModelProto, x: np.ndarray[Any, Any]) -> tuple[Callable[[], None], Any]:
    """(a call, its outputs)."""
    made = lg.from_onnx(proto)
    traced = made.trace()
    lowered = lower_model(traced, {}, target=parse_target("cpu")).lowered
    kernels = fast_lane.load(lowered, "-O3")
    call = kernels.prepare(traced.entries[0][0], {"x": x}, kernels.packed(made.values()))
    return call.run, call.outputs


def seconds(call: Callable[[], Any]) -> float:
    begin = time.process_time()
    call()
    return time.process_time() - begin


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=15)
    rounds = parser.parse_args().rounds
    one = onnxruntime.SessionOptions()
    one.intra_op_num_threads = one.inter_op_num_threads = 1
    print("| QLinearConv | ours, us | onnxruntime, us | onnxruntime / ours | equal |")
    print("| --- | --- | --- | --- | --- |")
    for name, sizes in CASES.items():
        rng = np.random.default_rng(0)
        proto = model_of(sizes, rng)
        x = rng.integers(0, 256, (1, sizes[0], sizes[2], sizes[2])).astype(np.uint8)
        session = onnxruntime.InferenceSession(proto.SerializeToString(), one)
        call, outputs = ours(proto, x)
        (wanted,) = session.run(None, {"x": x})
        call()
        (got,) = dict(outputs).values()
        mine, theirs = np.array(
            [(seconds(call), seconds(lambda: session.run(None, {"x": x}))) for _ in range(rounds)]  # noqa: B023
        ).T
        line = (
            name,
            f"{mine.min() * 1e6:.0f}",
            f"{theirs.min() * 1e6:.0f}",
            f"{np.median(theirs / mine):.2f}",
        )
        print(f"| {' | '.join(line)} | {np.mean(wanted == got):.0%} |", flush=True)


if __name__ == "__main__":
    main()

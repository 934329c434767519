"""Quantised ONNX operators, one thread: kernels of a CPU beside onnxruntime, in alternation, and how equal results are.

PYTHONPATH=. python3 benchmarks/onnx_quantised.py [--rounds 15] [--only depthwise,4 bits]

Times are processor time, the least of the rounds; the ratio is the median of the rounds, above 1 where ours are faster.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import onnxruntime
from onnx import ModelProto, TensorProto, helper, numpy_helper

import lumigen as lg
from lumigen import fast_lane
from lumigen.activations import rounded
from lumigen.pipeline import lower_model
from lumigen.target import parse_target

Array = np.ndarray[Any, Any]
Options = onnxruntime.SessionOptions
ZERO = 121  # of inputs in u8


class Case(NamedTuple):
    """A model, its inputs, and how `lg.from_onnx` reads it."""

    proto: ModelProto
    inputs: dict[str, Array]
    activations: str | None = None  # what rows of products are rounded to


class Window(NamedTuple):
    """A convolution: channels, filters, size of the image and of a window, distance of windows, padding, groups."""

    channels: int
    filters: int
    size: int
    window: int
    step: int
    padding: int
    groups: int = 1


WINDOWS = {
    "1 x 1, 64 to 256, 56 x 56": Window(64, 256, 56, 1, 1, 0),
    "1 x 1, 256 to 64, 56 x 56": Window(256, 64, 56, 1, 1, 0),
    "3 x 3, 64 to 64, 56 x 56": Window(64, 64, 56, 3, 1, 1),
    "3 x 3 by two, 128 to 128, 56 x 56": Window(128, 128, 56, 3, 2, 1),
    "1 x 1 by two, 256 to 512, 56 x 56": Window(256, 512, 56, 1, 2, 0),
    "1 x 1, 512 to 2048, 7 x 7": Window(512, 2048, 7, 1, 1, 0),
    "3 x 3, 512 to 512, 7 x 7": Window(512, 512, 7, 3, 1, 1),
    "7 x 7 by two, 3 to 64, 224 x 224": Window(3, 64, 224, 7, 2, 3),
    "depthwise 3 x 3, 144, 56 x 56": Window(144, 144, 56, 3, 1, 1, 144),
    "depthwise 5 x 5 by two, 240, 28 x 28": Window(240, 240, 28, 5, 2, 2, 240),
}


def model(
    nodes: Sequence[Any], given: dict[str, Array], x: Array, out: int, *, fixed: bool = True
) -> ModelProto:
    """A model of one input `x` and one output `y`; of a dynamic number of rows unless it is fixed."""
    shape: list[Any] = list(x.shape) if fixed else ["rows", *x.shape[1:]]
    ports = [
        helper.make_tensor_value_info("x", helper.np_dtype_to_tensor_dtype(x.dtype), shape),
        helper.make_tensor_value_info("y", out, None),
    ]
    tensors = [numpy_helper.from_array(np.asarray(a), name) for name, a in given.items()]
    graph = helper.make_graph(nodes, "case", ports[:1], ports[1:], tensors)
    domains = [helper.make_opsetid("", 13), helper.make_opsetid("com.microsoft", 1)]
    return helper.make_model(graph, opset_imports=domains, ir_version=8)


def filters_of(
    w: Window, rng: np.random.Generator, stem: str, zero: int = ZERO
) -> tuple[dict[str, Array], Callable[[str, str], Any]]:
    """What a convolution of u8 images and i8 filters with a scale each is given, and its node."""
    inside = w.channels // w.groups
    # of the sums, in a third of what u8 holds
    spread = 0.02 * 0.01 * 73 * w.window * inside**0.5
    filters = rng.integers(-127, 128, (w.filters, inside, w.window, w.window)).astype(np.int8)
    given: dict[str, Array] = {
        f"{stem}xs": np.float32(0.02),
        f"{stem}xz": np.uint8(ZERO),
        f"{stem}w": filters,
        f"{stem}ws": (0.005 + 0.01 * rng.random(w.filters)).astype(np.float32),
        f"{stem}wz": np.zeros(w.filters, np.int8),
        f"{stem}ys": np.float32(spread),
        f"{stem}yz": np.uint8(zero),
        f"{stem}b": rng.integers(-5000, 5000, w.filters).astype(np.int32),
    }
    names = {
        "kernel_shape": [w.window] * 2,
        "pads": [w.padding] * 4,
        "strides": [w.step] * 2,
        "group": w.groups,
    }
    return given, lambda x, y: helper.make_node("QLinearConv", [x, *given], [y], **names)


def image_of(w: Window, rng: np.random.Generator) -> Array:
    return rng.integers(0, 256, (1, w.channels, w.size, w.size)).astype(np.uint8)


def convolution(w: Window) -> Case:
    """u8 images, i8 filters with a scale each, a bias."""
    rng = np.random.default_rng(0)
    given, node = filters_of(w, rng, "", 128)
    x = image_of(w, rng)
    return Case(model([node("x", "y")], given, x, TensorProto.UINT8), {"x": x})


def blocks(*windows: Window) -> Case:
    """Three times these convolutions in a row, with what goes into them added to what comes out."""
    rng = np.random.default_rng(0)
    nodes, given, last = list[Any](), dict[str, Array](), "x"
    given |= {"s": np.float32(0.02), "z": np.uint8(ZERO)}
    for i in range(3):
        inside = last
        for j, w in enumerate(windows):
            more, node = filters_of(w, rng, f"b{i}{j}")
            given |= more
            nodes.append(node(inside, f"c{i}{j}"))
            inside = f"c{i}{j}"
        names = [last, "s", "z", inside, "s", "z", "s", "z"]
        last = "y" if i == 2 else f"y{i}"
        nodes.append(helper.make_node("QLinearAdd", names, [last], domain="com.microsoft"))
    x = image_of(windows[0], rng)
    return Case(model(nodes, given, x, TensorProto.UINT8), {"x": x})


def product(rows: int, depth: int, columns: int) -> Case:
    """u8 rows, i8 columns with a scale each."""
    rng = np.random.default_rng(0)
    given = {
        "xs": np.float32(0.02),
        "xz": np.uint8(ZERO),
        "w": rng.integers(-127, 128, (depth, columns)).astype(np.int8),
        "ws": (0.005 + 0.01 * rng.random(columns)).astype(np.float32),
        "wz": np.zeros(columns, np.int8),
        "ys": np.float32(0.02 * 0.01 * 73 * depth**0.5),
        "yz": np.uint8(128),
    }
    x = rng.integers(0, 256, (rows, depth)).astype(np.uint8)
    node = helper.make_node("QLinearMatMul", ["x", *given], ["y"])
    return Case(model([node], given, x, TensorProto.UINT8), {"x": x})


def dynamic(rows: int, depth: int, columns: int) -> Case:
    """Rows of floats that are rounded to u8 as they come, i8 columns with one scale."""
    rng = np.random.default_rng(0)
    given = {
        "w": rng.integers(-127, 128, (depth, columns)).astype(np.int8),
        "wz": np.int8(0),
        "ws": np.float32(0.01),
    }
    x = rng.standard_normal((rows, depth)).astype(np.float32)
    nodes = [
        helper.make_node("DynamicQuantizeLinear", ["x"], ["q", "qs", "qz"]),
        helper.make_node("MatMulInteger", ["q", "w", "qz", "wz"], ["sum"]),
        helper.make_node("Cast", ["sum"], ["float"], to=TensorProto.FLOAT),
        helper.make_node("Mul", ["qs", "ws"], ["scale"]),
        helper.make_node("Mul", ["float", "scale"], ["y"]),
    ]
    return Case(model(nodes, given, x, TensorProto.FLOAT), {"x": x})


def in_blocks(rows: int, depth: int, columns: int, block: int, level: int) -> Case:
    """Rows of floats, columns of 4 bits with a scale for each block; level 4 rounds rows to 8 bits."""
    rng = np.random.default_rng(0)
    blocks = depth // block
    given = {
        "w": rng.integers(0, 256, (columns, blocks, block // 2)).astype(np.uint8),
        "ws": (0.005 + 0.01 * rng.random(columns * blocks)).astype(np.float32),
    }
    sizes = {"K": depth, "N": columns, "bits": 4, "block_size": block, "accuracy_level": level}
    x = rng.standard_normal((rows, depth)).astype(np.float32)
    node = helper.make_node("MatMulNBits", ["x", *given], ["y"], domain="com.microsoft", **sizes)
    rounded = "i8" if level == 4 else None
    return Case(model([node], given, x, TensorProto.FLOAT), {"x": x}, rounded)


CASES: dict[str, Callable[[], Case]] = {
    **{f"QLinearConv, {name}": lambda w=w: convolution(w) for name, w in WINDOWS.items()},
    "three blocks of 256, 64, 64 and 256 channels, 56 x 56": lambda: blocks(
        Window(256, 64, 56, 1, 1, 0), Window(64, 64, 56, 3, 1, 1), Window(64, 256, 56, 1, 1, 0)
    ),
    "three blocks of 32 and 192 channels, depthwise, 28 x 28": lambda: blocks(
        Window(32, 192, 28, 1, 1, 0),
        Window(192, 192, 28, 3, 1, 1, 192),
        Window(192, 32, 28, 1, 1, 0),
    ),
    "QLinearMatMul, 128 x 768 by 3072": lambda: product(128, 768, 3072),
    "QLinearMatMul, 1 x 2048 by 2048": lambda: product(1, 2048, 2048),
    "DynamicQuantizeLinear, MatMulInteger, 128 x 768 by 3072": lambda: dynamic(128, 768, 3072),
    "DynamicQuantizeLinear, MatMulInteger, 1 x 2048 by 2048": lambda: dynamic(1, 2048, 2048),
    **{
        f"MatMulNBits, 4 bits, blocks of {block}, {rows} x 2048 by 2048, level {level}": (
            lambda rows=rows, block=block, level=level: in_blocks(rows, 2048, 2048, block, level)
        )
        for block in (32, 128)
        for rows in (1, 128)
        for level in (0, 4)
    },
}


def ours(case: Case) -> tuple[Callable[[], None], Any]:
    """(a call, its outputs)."""
    made = lg.from_onnx(case.proto)
    traced = made.trace()
    traced = rounded(traced, case.activations).traced
    lowered = lower_model(traced, {}, target=parse_target("cpu")).lowered
    kernels = fast_lane.load(lowered, "-O3")
    call = kernels.prepare(traced.entries[0][0], case.inputs, kernels.packed(made.values()))
    return call.run, call.outputs


def seconds(call: Callable[[], Any]) -> float:
    begin = time.process_time()
    call()
    return time.process_time() - begin


def near(wanted: Array, got: Array) -> str:
    """How many integers are equal, or how far floats are by norm."""
    if wanted.dtype.kind != "f":
        return f"{np.mean(wanted == got):.0%} equal"
    return f"{np.linalg.norm(got - wanted) / np.linalg.norm(wanted):.1e} apart"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--only", default="", help="parts of names, with commas between them")
    given = parser.parse_args()
    one = Options()
    one.intra_op_num_threads = one.inter_op_num_threads = 1
    print("| model | ours, us | onnxruntime, us | onnxruntime / ours | results |")
    print("| --- | --- | --- | --- | --- |")
    for name, make in CASES.items():
        if not any(part in name for part in given.only.split(",")):
            continue
        case = make()
        session = onnxruntime.InferenceSession(case.proto.SerializeToString(), one)
        call, outputs = ours(case)
        (wanted,) = session.run(None, case.inputs)
        call()
        (got,) = dict(outputs).values()
        mine, theirs = np.array(
            [
                (seconds(call), seconds(lambda: session.run(None, case.inputs)))  # noqa: B023
                for _ in range(given.rounds)
            ]
        ).T
        line = (
            name,
            f"{mine.min() * 1e6:.0f}",
            f"{theirs.min() * 1e6:.0f}",
            f"{np.median(theirs / mine):.2f}",
        )
        print(f"| {' | '.join(line)} | {near(wanted, got)} |", flush=True)


if __name__ == "__main__":
    main()

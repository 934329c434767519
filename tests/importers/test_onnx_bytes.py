"""Models of several quantised operators: bytes lie between kernels, each of which is a product with all after it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from onnx_models import model, node

import lumigen as lg
from lumigen import fast_lane
from lumigen.pipeline import lower_model
from lumigen.program import SlotArg
from lumigen.target import parse_target

Array = np.ndarray[Any, Any]
SCALE, ZERO = (
    np.float32(2.0**-6),
    np.uint8(121),
)  # powers of two: no number depends on how floats are rounded


def convolution(
    rng: Any, given: dict[str, Array], x: str, y: str, sizes: tuple[int, int, int, int]
) -> Any:
    """A node, whose operands are noted: channels, filters, size of windows, groups."""
    channels, filters, window, groups = sizes
    own = {
        "w": rng.integers(-128, 128, (filters, channels // groups, window, window), np.int8),
        "ws": np.float32(2.0**-9) * rng.choice(np.array([1, 2, 4], np.float32), filters),
        "wz": np.zeros(filters, np.int8),
        "b": rng.integers(-5000, 5000, filters).astype(np.int32),
    }
    given |= {f"{y}_{name}": value for name, value in own.items()}
    names = f"{x} s z {y}_w {y}_ws {y}_wz s z {y}_b"
    pads = [window // 2] * 4
    return node("QLinearConv", names, y, kernel_shape=[window] * 2, pads=pads, group=groups)


def summed(x: Array, w: Array, b: Array, groups: int) -> Array:
    """Exact sums over windows, in numpy."""
    far = w.shape[-1] // 2
    wide = np.pad(x.astype(np.int64) - int(ZERO), ((0, 0), (0, 0), (far, far), (far, far)))
    out = np.zeros((len(x), len(w), *x.shape[2:]), np.int64) + b.reshape(-1, 1, 1)
    for i, filters in enumerate(np.split(w.astype(np.int64), groups)):
        inside = np.split(wide, groups, 1)[i]
        each = slice(i * len(filters), (i + 1) * len(filters))
        for u in range(w.shape[2]):
            for v in range(w.shape[3]):
                shown = inside[:, :, u : u + x.shape[2], v : v + x.shape[3]]
                out[:, each] += np.einsum("bchw,oc->bohw", shown, filters[:, :, u, v])
    return out


def rounded(x: Array) -> Array:
    return np.clip(np.rint(x) + int(ZERO), 0, 255).astype(np.uint8)


BLOCKS: dict[str, tuple[tuple[int, int, int, int], ...]] = {
    "windows": ((32, 16, 1, 1), (16, 16, 3, 1), (16, 32, 1, 1)),
    "depthwise": ((16, 48, 1, 1), (48, 48, 3, 48), (48, 16, 1, 1)),
}


@pytest.mark.parametrize("batch", [1, 2])
@pytest.mark.parametrize("name", BLOCKS)
def test_bytes_lie_between_kernels(name: str, batch: int, rng) -> None:
    """Two blocks, each with what goes in added to what comes out: a kernel for each convolution, and no more."""
    sizes = BLOCKS[name]
    given: dict[str, Array] = {"s": np.array(SCALE), "z": np.array(ZERO)}
    nodes, last = list[Any](), "x"
    for i in range(2):
        inside = last
        for j, each in enumerate(sizes):
            nodes.append(convolution(rng, given, inside, f"c{i}{j}", each))
            inside = f"c{i}{j}"
        names, last = f"{last} s z {inside} s z s z", "y" if i else "middle"
        nodes.append(node("QLinearAdd", names, last, domain="com.microsoft"))
    shape = [batch, sizes[0][0], 9, 14]
    proto = model(nodes, {"x": (np.uint8, shape)}, "y", given)
    made = lg.from_onnx(proto)
    traced = made.trace()
    lowered = lower_model(traced, {}, target=parse_target("cpu")).lowered
    (program,) = lowered.programs
    launches = [launch for g in program.groups for launch in g.variants[-1].launches]
    assert len(launches) == 2 * len(sizes)
    kernels = {k.name: k for k in lowered.kernels}
    between = {
        p.dtype
        for launch in launches
        for p, a in zip(kernels[launch.kernel].parameters, launch.arguments, strict=False)
        if isinstance(a, SlotArg)
    }
    assert between == {lg.u8}

    x = rng.integers(0, 256, shape).astype(np.uint8)
    library = fast_lane.load(lowered, "-O1")
    call = library.prepare("forward", {"x": x}, library.packed(made.values()))
    call.run()
    np.testing.assert_array_equal(
        next(iter(dict(call.outputs).values())), expected(x, sizes, given)
    )


def expected(x: Array, sizes: Any, given: dict[str, Array]) -> Array:
    """In numpy's integers, and floats that are exact."""
    for i in range(2):
        inside = x
        for j, (*_, groups) in enumerate(sizes):
            w, ws, _, b = (given[f"c{i}{j}_{name}"] for name in ("w", "ws", "wz", "b"))
            sums = summed(inside, w, b, groups)
            inside = rounded(sums * ws.astype(np.float64).reshape(-1, 1, 1))
        total = x.astype(np.float64) + inside.astype(np.float64) - 2 * int(ZERO)
        x = rounded(total)
    return x

"""MatMulNBits: numbers of a few bits are what ONNX says, and lie as products of vectors and of integers want them."""

from __future__ import annotations

import numpy as np
import pytest
from onnx_models import model, node, run

import lumigen as lg
from lumigen import fast_lane
from lumigen.activations import rounded
from lumigen.pipeline import lower_model
from lumigen.target import parse_target
from lumigen.tile import Mma

F = np.float32
ZEROS = ("none", "packed", "floats", "an input")


@pytest.mark.parametrize("zeros", ZEROS)
@pytest.mark.parametrize("bits", [2, 4, 8])
def test_numbers_of_few_bits_stand_for_blocks(rng, bits: int, zeros: str) -> None:
    """With zero points and without; of rows that no whole blocks fill, and whose zero points fill no whole bytes."""
    x = rng.standard_normal((3, 80)).astype(F)
    packed = rng.integers(0, 256, (5, 3, 32 * bits // 8)).astype(np.uint8)
    packed[0, 0, :2] = 0, 255
    scales = rng.standard_normal((5, 3)).astype(F)
    zero, given = np.full((5, 3), 2.0 ** (bits - 1)), {"b": packed, "s": scales.reshape(-1)}
    if zeros == "floats":
        zero = given["z"] = rng.standard_normal((5, 3)).astype(F)
    elif zeros != "none":
        given["z"] = rng.integers(0, 256, (5, -(-3 * bits // 8))).astype(np.uint8)
        given["z"][:2] = np.array([[0], [255]])
        zero = apart(given["z"], bits)[:, :3]
    weight = ((apart(packed, bits) - zero[..., None]) * scales[..., None]).reshape(5, 96)
    attributes = {"K": 80, "N": 5, "bits": bits, "block_size": 32}
    names = "x b s z" if "z" in given else "x b s"
    nodes = [node("MatMulNBits", names, "y", domain="com.microsoft", **attributes)]
    ports, fed = {"x": (F, [3, 80])}, {"x": x}
    if zeros == "an input":
        fed["z"] = given.pop("z")
        ports["z"] = (np.uint8, list(fed["z"].shape))
    found = run(model(nodes, ports, "y", given), fed)["y"]
    np.testing.assert_allclose(found, x @ weight[:, :80].T, rtol=1e-4, atol=2e-3 * 2**bits / 16)


def apart(packed, bits: int):
    """Numbers of a few bits along the last axis, the lowest of each byte first."""
    each = np.stack([packed >> s & 2**bits - 1 for s in range(0, 8, bits)], -1)
    return each.reshape(*packed.shape[:-1], -1).astype(np.float64)


@pytest.mark.parametrize("rows", [1, 21])
@pytest.mark.parametrize("zeros", [False, True])
@pytest.mark.parametrize(("bits", "block"), [(2, 32), (4, 32), (4, 128), (8, 32)])
def test_blocks_of_few_bits_are_multiplied_in_integers(
    rng, rows: int, bits: int, block: int, zeros: bool
) -> None:
    """Where rows are rounded: the form of ONNX's blocks is one of those that products of integers know."""
    blocks, columns = 256 // block, 21
    given = {
        "b": rng.integers(0, 256, (columns, blocks, block * bits // 8)).astype(np.uint8),
        "s": rng.random(columns * blocks).astype(F),
    }
    zero = np.full((columns, blocks), 2.0 ** (bits - 1))
    if zeros:
        given["z"] = rng.integers(0, 256, (columns, -(-blocks * bits // 8))).astype(np.uint8)
        zero = apart(given["z"], bits)[:, :blocks]
    weight = apart(given["b"], bits).reshape(columns, blocks, block) - zero[..., None]
    weight = (weight * given["s"].reshape(columns, blocks, 1)).reshape(columns, 256)
    attributes = {"K": 256, "N": columns, "bits": bits, "block_size": block}
    names = "x b s z" if zeros else "x b s"
    nodes = [node("MatMulNBits", names, "y", domain="com.microsoft", **attributes)]
    made = lg.from_onnx(model(nodes, {"x": (F, [rows, 256])}, "y", given))
    traced = rounded(made.trace(), "i8")
    assert traced.groups
    lowered = lower_model(traced.traced, {}, target=parse_target("cpu")).lowered
    products = [s for k in lowered.kernels for s in k.program.statements() if isinstance(s, Mma)]
    assert [s.groups is not None for s in products] == [True]
    x = rng.integers(-127, 128, (rows, 256)).astype(F)
    x[:, ::32] = 127.0  # so that each group has a step of 1, and nothing is rounded
    kernels = fast_lane.load(lowered, "-O1")
    call = kernels.prepare("forward", {"x": x}, kernels.packed(made.values()))
    call.run()
    (found,) = dict(call.outputs).values()
    np.testing.assert_allclose(
        found, x @ weight.T, rtol=2e-5, atol=1e-5 * abs(weight).max() * 127 * 256
    )

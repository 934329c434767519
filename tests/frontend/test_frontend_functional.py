"""Products, convolutions, pools, norms, attention and losses against PyTorch."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as torch_functional
from through_graph import as_torch, check, interpret

import lumigen as lg
from lumigen import functional
from lumigen.errors import BadArgument

TOLERANCE = 2e-5  # PyTorch's own rounding in f32; the interpreter computes in f64


def numbers(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


MATMULS = [
    ((3, 4), (4, 5)),
    ((4,), (4, 5)),
    ((3, 4), (4,)),
    ((4,), (4,)),
    ((2, 3, 4), (4, 5)),
    ((2, 3, 4), (2, 4, 5)),
    ((2, 1, 3, 4), (6, 4, 5)),
    ((3, 4), (7, 4, 5)),
    ((2, 6, 3, 4), (4,)),
    ((4,), (2, 4, 5)),
    ((1, 1), (1, 1)),
    ((1, 7), (7, 1)),
]


@pytest.mark.parametrize(("a", "b"), MATMULS)
@pytest.mark.parametrize("brute", [False, True])
def test_matmul(a: tuple[int, ...], b: tuple[int, ...], brute: bool) -> None:
    x, y = numbers(*a), numbers(*b, seed=1)
    check(
        interpret(lambda s, t: s @ t, x, y, brute=brute), as_torch(x) @ as_torch(y), TOLERANCE, 1e-6
    )


def test_matmul_of_integers() -> None:
    x = np.arange(12, dtype=np.int64).reshape(3, 4)
    check(interpret(lambda s: s @ s.T, x), as_torch(x) @ as_torch(x).T)


def test_linear() -> None:
    x, w, b = numbers(2, 3, 4), numbers(5, 4, seed=1), numbers(5, seed=2)
    expected = torch_functional.linear(*map(as_torch, (x, w, b)))
    check(interpret(functional.linear, x, w, b), expected, TOLERANCE, 1e-6)


CONVOLUTIONS: list[tuple[tuple[int, ...], tuple[int, ...], dict[str, Any]]] = [
    ((2, 3, 7, 9), (4, 3, 3, 3), {}),
    ((2, 3, 7, 9), (4, 3, 3, 2), {"stride": 2, "padding": 1}),
    ((1, 3, 8, 8), (6, 3, 1, 1), {}),
    ((1, 4, 9, 9), (6, 2, 3, 3), {"groups": 2, "padding": (2, 0)}),
    ((1, 4, 9, 9), (4, 1, 3, 3), {"groups": 4, "dilation": 2, "padding": 2}),
    ((1, 2, 11, 6), (2, 2, 3, 3), {"stride": (3, 1), "dilation": (2, 1), "padding": (1, 2)}),
    ((1, 2, 6, 7), (3, 2, 4, 3), {"padding": "same"}),
    ((1, 2, 6, 7), (3, 2, 4, 3), {"padding": "valid"}),
]


@pytest.mark.filterwarnings("ignore:Using padding='same'")
@pytest.mark.parametrize(("x", "w", "options"), CONVOLUTIONS)
def test_conv2d(x: tuple[int, ...], w: tuple[int, ...], options: dict[str, Any]) -> None:
    a, b, c = numbers(*x), numbers(*w, seed=1), numbers(w[0], seed=2)
    expected = torch_functional.conv2d(as_torch(a), as_torch(b), as_torch(c), **options)
    got = interpret(lambda *t: functional.conv2d(*t, **options), a, b, c)
    check(got, expected, TOLERANCE, 1e-5)


POOLS: list[tuple[str, dict[str, Any]]] = [
    ("max_pool2d", {"kernel_size": 2}),
    ("max_pool2d", {"kernel_size": (3, 2), "stride": (2, 1), "padding": 1}),
    ("max_pool2d", {"kernel_size": 2, "stride": 1, "dilation": 2}),
    ("avg_pool2d", {"kernel_size": 2}),
    ("avg_pool2d", {"kernel_size": 3, "stride": 2, "padding": 1}),
    ("avg_pool2d", {"kernel_size": 3, "stride": 2, "padding": 1, "count_include_pad": False}),
    ("adaptive_avg_pool2d", {"output_size": (2, 3)}),
    ("lp_pool2d", {"norm_type": 2.0, "kernel_size": 3}),
    ("lp_pool2d", {"norm_type": 2.0, "kernel_size": 5, "stride": 4, "ceil_mode": True}),
    ("lp_pool2d", {"norm_type": math.inf, "kernel_size": (5, 3), "ceil_mode": True}),
    ("lp_pool2d", {"norm_type": -math.inf, "kernel_size": 2}),
]


@pytest.mark.parametrize(("name", "options"), POOLS)
def test_pools(name: str, options: dict[str, Any]) -> None:
    x = numbers(2, 3, 8, 9)
    expected = getattr(torch_functional, name)(as_torch(x), **options)
    got = interpret(lambda t: getattr(functional, name)(t, **options), x)
    check(got, expected, TOLERANCE, 1e-6)


INDICES: list[tuple[str, dict[str, Any]]] = [
    ("max_pool2d", {"kernel_size": 2, "padding": 1}),
    ("max_pool2d", {"kernel_size": 3, "stride": 2, "padding": 1, "ceil_mode": True}),
    ("max_pool2d", {"kernel_size": (4, 2), "stride": 1, "padding": (2, 1), "dilation": 2}),
    ("adaptive_max_pool2d", {"output_size": (2, 3)}),
    ("adaptive_max_pool2d", {"output_size": (5, 4)}),
]


@pytest.mark.parametrize(("name", "options"), INDICES)
@pytest.mark.parametrize("few", [[-math.inf], [-math.inf, 1, 2], [math.nan, -math.inf, 1, 2, 3]])
def test_indices_of_equal_maxima(name: str, options: dict[str, Any], few: list[float]) -> None:
    """Windows of only -inf beside padding, several NaN, and several that are greatest."""
    x = np.random.default_rng(0).choice(few, (2, 3, 8, 9)).astype(np.float32)
    expected = getattr(torch_functional, name)(as_torch(x), **options, return_indices=True)
    got = interpret(lambda t: getattr(functional, name)(t, **options, return_indices=True), x)
    for ours, theirs in zip(got, expected, strict=True):
        check(ours, theirs)


@pytest.mark.parametrize(("height", "width"), [(3, 3), (4, 9), (7, 5), (8, 8), (11, 4)])
def test_pools_of_any_extent(height: int, width: int) -> None:
    x = np.abs(numbers(2, height, width)) + 0.5  # so that nothing cancels

    def f(functional: Any, t: Any) -> list[Any]:
        return [
            functional.max_pool2d(t, 3, 2, ceil_mode=True),
            functional.max_pool2d(t, 2, 3, 1, dilation=2, ceil_mode=True),
            functional.avg_pool2d(t, 3, 2, 1, ceil_mode=True),
            functional.avg_pool2d(t, (2, 3), 2, 1, ceil_mode=True, count_include_pad=False),
            functional.adaptive_avg_pool2d(t, (3, 7)),
            functional.adaptive_avg_pool2d(t, (None, 2)),
            *functional.adaptive_max_pool2d(t, (2, 5), return_indices=True),
            functional.avg_pool2d(t, t.shape[1:]),
            functional.max_pool1d(t, t.shape[-1]),
            *functional.max_pool2d(t, (t.shape[1], 2), return_indices=True),
            functional.avg_pool2d(t, (t.shape[1] - 1, 3), 1, ceil_mode=True),
            functional.lp_pool2d(t, 2, (2, t.shape[2])),
        ]

    declared = {"x0": lg.spec(2, lg.Dim("height", 3, 11), lg.Dim("width", 3, 9))}
    got = interpret(lambda t: f(functional, t), x, specs=declared)
    for ours, theirs in zip(got, f(torch_functional, as_torch(x)), strict=True):
        check(ours, theirs, TOLERANCE)


@pytest.mark.parametrize("dtype", [np.uint8, np.int32])
def test_indices_of_the_least_integers(dtype: type) -> None:
    x = np.full((1, 1, 5), np.iinfo(dtype).min, dtype)
    got = interpret(lambda t: functional.max_pool1d(t, 2, 2, 1, return_indices=True), x)
    np.testing.assert_array_equal(got[1], [[[0, 1, 3]]])


@pytest.mark.parametrize("shape", [(5,), (4, 5)])
def test_layer_norm(shape: tuple[int, ...]) -> None:
    x, w, b = numbers(3, 4, 5), numbers(*shape, seed=1), numbers(*shape, seed=2)
    expected = torch_functional.layer_norm(as_torch(x), shape, as_torch(w), as_torch(b), 1e-5)
    got = interpret(lambda *t: functional.layer_norm(t[0], shape, *t[1:]), x, w, b)
    check(got, expected, TOLERANCE, 1e-6)


@pytest.mark.parametrize("eps", [None, 1e-6])
def test_rms_norm(eps: float | None) -> None:
    x, w = numbers(3, 5), numbers(5, seed=1)
    expected = torch_functional.rms_norm(as_torch(x), (5,), as_torch(w), eps)
    check(interpret(lambda t, u: functional.rms_norm(t, (5,), u, eps), x, w), expected, TOLERANCE)


def test_rms_norm_of_sixteen_bits_has_the_eps_of_f32() -> None:
    x = (numbers(3, 5) / 16).astype(np.float16)
    expected = torch_functional.rms_norm(as_torch(x), (5,))
    check(interpret(lambda t: functional.rms_norm(t, (5,)), x), expected, 2e-3)


def test_a_circular_padding_may_crop_all() -> None:
    x, widths = numbers(2, 3, 1), (-1, 0, 1, -1)
    expected = torch_functional.pad(as_torch(x), widths, "circular")
    check(interpret(lambda t: functional.pad(t, widths, "circular"), x), expected)


def test_batch_and_group_norm() -> None:
    x, w, b, m = numbers(2, 6, 3, 4), numbers(6, seed=1), numbers(6, seed=2), numbers(6, seed=3)
    v = np.abs(numbers(6, seed=4)) + 0.1
    expected = torch_functional.batch_norm(*map(as_torch, (x, m, v, w, b)))
    check(interpret(functional.batch_norm, x, m, v, w, b), expected, TOLERANCE, 1e-6)
    expected = torch_functional.group_norm(as_torch(x), 3, as_torch(w), as_torch(b))
    got = interpret(lambda *t: functional.group_norm(t[0], 3, *t[1:]), x, w, b)
    check(got, expected, TOLERANCE, 1e-6)


def test_normalize() -> None:
    x = numbers(4, 5)
    x[1] = 0
    check(
        interpret(lambda t: functional.normalize(t, dim=-1), x),
        torch_functional.normalize(as_torch(x), dim=-1),
        TOLERANCE,
    )


def test_softmax_of_what_overflows() -> None:
    x = np.array([[1000.0, 999.0, -1000.0], [-3e38, 3e38, 0.0]], np.float32)
    for name in ("softmax", "log_softmax"):
        expected = getattr(torch_functional, name)(as_torch(x), dim=1)
        check(interpret(lambda t, n=name: getattr(functional, n)(t, 1), x), expected, 1e-5)


B, H, L, S, D = 2, 4, 5, 7, 8
MASKS = {
    "none": None,
    "bool": np.random.default_rng(3).random((B, 1, L, S)) > 0.3,
    "float": numbers(L, S, seed=4),
    "heads": numbers(B, H, L, S, seed=5),
}


@pytest.mark.parametrize("mask", MASKS)
@pytest.mark.parametrize("gqa", [False, True])
@pytest.mark.parametrize("scale", [None, 0.3])
def test_attention(mask: str, gqa: bool, scale: float | None) -> None:
    heads = 2 if gqa else H
    q, k, v = numbers(B, H, L, D), numbers(B, heads, S, D, seed=1), numbers(B, heads, S, D, seed=2)
    arrays = [q, k, v] + ([MASKS[mask]] if MASKS[mask] is not None else [])
    options = {"scale": scale, "enable_gqa": gqa}
    expected = torch_functional.scaled_dot_product_attention(*map(as_torch, arrays), **options)
    got = interpret(lambda *t: functional.scaled_dot_product_attention(*t, **options), *arrays)
    check(got, expected, TOLERANCE, 1e-6)


def test_causal_attention_of_dynamic_length() -> None:
    q, k, v = numbers(B, H, S, D), numbers(B, H, S, D, seed=1), numbers(B, H, S, D, seed=2)
    shape = lg.spec(lg.Dim("batch", 1, 4), H, lg.Dim("sequence", 1, 16), D)
    expected = torch_functional.scaled_dot_product_attention(
        *map(as_torch, (q, k, v)), is_causal=True
    )
    got = interpret(
        lambda *t: functional.scaled_dot_product_attention(*t, is_causal=True),
        q,
        k,
        v,
        specs={f"x{i}": shape for i in range(3)},
    )
    check(got, expected, TOLERANCE, 1e-6)


@pytest.mark.parametrize("weights", [False, True])
def test_masks_of_f32_are_added_to_scores_of_bf16(weights: bool) -> None:
    """Beside a bool one of padding, and as a mask of bf16 is."""
    x, into, out = numbers(5, 2, 8), numbers(24, 8, seed=1), numbers(8, 8, seed=2)
    mask = np.where(numbers(5, 5, seed=3) > 0.5, -2.0, 0.0).astype(np.float32)
    padding = np.array([[False] * 4 + [True], [False] * 5])

    def attend(dtype: lg.DType) -> Any:
        def f(a: Any, w: Any, o: Any, m: Any, p: Any) -> Any:
            a, w, o = (t.to(lg.bf16) for t in (a, w, o))
            given = functional.multi_head_attention_forward(
                a, a, a, 8, 2, w, None, None, None, False, 0.0, o, None,
                training=False, key_padding_mask=p, need_weights=weights, attn_mask=m.to(dtype),
            )  # fmt: skip
            return given[1 if weights else 0].to(lg.f32)

        return interpret(f, x, into, out, mask, padding)

    np.testing.assert_array_equal(attend(lg.f32), attend(lg.bf16))


def test_a_row_without_keys_is_0() -> None:
    q = numbers(1, 1, 2, 4)
    mask = np.array([[True, True], [False, False]])
    got = interpret(lambda t, m: functional.scaled_dot_product_attention(t, t, t, m), q, mask)
    wanted = torch_functional.scaled_dot_product_attention(*3 * (as_torch(q),), as_torch(mask))
    check(got, wanted, 1e-6)
    assert (got[..., 1, :] == 0).all()


@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
def test_losses(reduction: str) -> None:
    x, y = numbers(6, 5), np.array([0, 4, 2, 2, 1, 3], np.int64)
    expected = torch_functional.cross_entropy(as_torch(x), as_torch(y), reduction=reduction)
    got = interpret(lambda t, u: functional.cross_entropy(t, u, reduction=reduction), x, y)
    check(got, expected, 1e-5)
    z = numbers(6, 5, seed=1)
    expected = torch_functional.mse_loss(as_torch(x), as_torch(z), reduction=reduction)
    check(
        interpret(lambda t, u: functional.mse_loss(t, u, reduction=reduction), x, z), expected, 1e-5
    )


def test_half_precision_weights_meet_half_precision_inputs() -> None:
    x, w = numbers(3, 4).astype(np.float16), numbers(5, 4, seed=1).astype(np.float16)
    expected = torch_functional.linear(as_torch(x), as_torch(w))
    check(interpret(functional.linear, x, w), expected, 2e-3, 2e-3)  # an ulp of f16
    assert math.isclose(
        float(interpret(lambda t: t.sum(), x)), float(x.astype("f8").sum()), abs_tol=5e-3
    )


RESIZED: list[tuple[str, dict[str, Any]]] = [
    *((mode, {"scale_factor": s}) for mode in ("nearest", "bilinear", "bicubic") for s in (2, 0.5, 1.7)),
    *((mode, {}) for mode in ("nearest", "nearest-exact", "bilinear", "bicubic")),
    *((mode, {"align_corners": True}) for mode in ("bilinear", "bicubic")),
    ("bilinear", {"scale_factor": 3, "align_corners": True}),
    ("bilinear", {"size": 7}),
]  # fmt: skip


@pytest.mark.parametrize(("mode", "options"), RESIZED)
def test_interpolation_of_dynamic_extents(mode: str, options: dict[str, Any]) -> None:
    x_shape = lg.spec(1, 2, lg.Dim("height", 2, 9), lg.Dim("width", 2, 8))
    like_shape = lg.spec(lg.Dim("rows", 1, 11), lg.Dim("columns", 1, 9))

    def resized(library: Any, x: Any, like: Any) -> Any:
        where = {} if "size" in options or "scale_factor" in options else {"size": like.shape}
        return library.interpolate(x, mode=mode, **where, **options)

    for sizes, wanted in (((2, 2), (1, 1)), ((5, 7), (9, 5)), ((9, 8), (11, 9)), ((6, 6), (6, 6))):
        x, like = numbers(1, 2, *sizes), numbers(*wanted)
        got = interpret(
            lambda x, like: resized(functional, x, like) + 0 * like.sum(),
            x,
            like,
            specs={"x0": x_shape, "x1": like_shape},
        )
        check(got, resized(torch_functional, as_torch(x), as_torch(like)), TOLERANCE, 1e-5)


MODES_BY_AXES = (
    ("nearest", "nearest-exact", "linear"),
    ("nearest", "nearest-exact", "bilinear", "bicubic"),
    ("nearest", "nearest-exact", "trilinear"),
)


@pytest.mark.parametrize("scale", [1.1, 1.3, 2.2, 0.9])
@pytest.mark.parametrize(("axes", "modes"), list(enumerate(MODES_BY_AXES, 1)))
def test_interpolation_by_a_scale_that_extents_do_not_show(
    axes: int, modes: tuple[str, ...], scale: float
) -> None:
    """An axis that keeps its size is copied in linear modes, and of images by `nearest`, which also doubles."""
    for extent in (3, 5):
        x = numbers(1, 2, *(extent,) * axes)
        for mode in modes:
            for factors in (scale, (scale, 2.0, 1.0)[:axes]):
                got = interpret(
                    lambda t, m=mode, s=factors: functional.interpolate(t, scale_factor=s, mode=m),
                    x,
                )
                right = torch_functional.interpolate(as_torch(x), scale_factor=factors, mode=mode)
                check(got, right, TOLERANCE, 1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["bilinear", "bicubic"])
@pytest.mark.parametrize("corners", [False, True])
def test_what_becomes_smaller_is_smoothed(mode: str, corners: bool) -> None:
    x = numbers(2, 3, 8, 9)
    options = {"mode": mode, "align_corners": corners, "antialias": True}
    for more in (
        {"size": (3, 7)},
        {"size": (1, 20)},
        {"size": (8, 2)},
        {"scale_factor": 0.45},
        {"scale_factor": (1.04, 1.7)},
    ):
        got = interpret(lambda t, m=more: functional.interpolate(t, **m, **options), x)
        want = torch_functional.interpolate(as_torch(x), **more, **options)
        check(got, want, TOLERANCE, 1e-5)


def test_smoothing_takes_sizes_that_are_known() -> None:
    x = numbers(2, 3, 8, 9)
    sizes = lg.spec(2, 3, lg.Dim("height", 2, 9), 9)

    def halved(t: lg.Tensor) -> lg.Tensor:
        return functional.interpolate(
            t, scale_factor=0.5, mode="bilinear", antialias=True, align_corners=False
        )

    want = torch_functional.interpolate(
        as_torch(x), scale_factor=0.5, mode="bilinear", antialias=True, align_corners=False
    )
    check(interpret(halved, x, specs={"x0": sizes}), want, TOLERANCE, 1e-5)
    with pytest.raises(BadArgument, match="not known how much finer height elements are than 4"):
        interpret(
            lambda t: functional.interpolate(t, (4, 4), mode="bilinear", antialias=True),
            x,
            specs={"x0": sizes},
        )
    with pytest.raises(BadArgument, match="only bilinear and bicubic have it"):
        functional.interpolate(lg.zeros(1, 1, 4, 4), (2, 2), antialias=True)


@pytest.mark.slow
@pytest.mark.parametrize(("height", "width"), [(4, 4), (12, 8), (16, 12), (8, 8)])
def test_pieces_whose_number_is_symbolic(height: int, width: int) -> None:
    x = np.abs(numbers(1, 2, height, width)) + 0.5  # so that nothing cancels

    def f(functional: Any, t: Any) -> list[Any]:
        h, w = t.shape[2:]
        return [
            functional.adaptive_avg_pool2d(t, (h // 2, w // 4)),
            functional.adaptive_avg_pool1d(t[0], w // 2),
            *functional.adaptive_max_pool2d(t, (h // 4, 3), return_indices=True),
            functional.interpolate(t, scale_factor=0.5, mode="area"),
            functional.interpolate(t, (h // 4, w), mode="area"),
            functional.adaptive_avg_pool2d(t, (h - 1, w // 2 + 1)),
            *functional.adaptive_max_pool2d(t, (w, h + 1), return_indices=True),
            functional.adaptive_avg_pool2d(t, (h - h // 3, -w % 3 + 1)),
            functional.interpolate(t, (h - 1, h % 3 + 1), mode="area"),
        ]

    fours = (lg.Dim("height", 4, 16, multiple_of=4), lg.Dim("width", 4, 12, multiple_of=4))
    got = interpret(lambda t: f(functional, t), x, specs={"x0": lg.spec(1, 2, *fours)})
    for ours, theirs in zip(got, f(torch_functional, as_torch(x)), strict=True):
        check(ours, theirs, TOLERANCE)


SAMPLED = lg.Dim("batch", 1, 3), *map(lg.Dim, ("depth", "height", "width"), (1, 1, 1), (4, 7, 9))
GRID = tuple(map(lg.Dim, ("planes", "rows", "columns"), (1, 1, 1), (3, 11, 8)))
# batch, and (depth, height, width) of the input and of the grid, the least, odd, coprime, the greatest, equal
SAMPLES = [
    (1, (1, 1, 1), (1, 1, 1)),
    (3, (3, 5, 7), (1, 3, 5)),
    (2, (4, 7, 9), (3, 10, 7)),
    (3, (4, 7, 9), (3, 11, 8)),
    (2, (3, 3, 3), (3, 3, 3)),
]


@pytest.mark.parametrize("corners", [True, False])
@pytest.mark.parametrize("padding", ["zeros", "border", "reflection"])
@pytest.mark.parametrize(
    ("mode", "rank"),
    [
        ("bilinear", 2),
        ("nearest", 2),
        *(
            pytest.param(mode, rank, marks=pytest.mark.slow)
            for mode, rank in (("bicubic", 2), ("bilinear", 3), ("nearest", 3))
        ),
    ],
)
def test_samples_of_dynamic_extents(mode: str, rank: int, padding: str, corners: bool) -> None:
    batch, *extents = SAMPLED
    declared = {
        "x0": lg.spec(batch, 2, *extents[-rank:]),
        "x1": lg.spec(batch, *GRID[-rank:], rank),
    }
    options = {"mode": mode, "padding_mode": padding, "align_corners": corners}
    for count, sizes, wanted in SAMPLES:
        x, grid = numbers(count, 2, *sizes[-rank:]), numbers(count, *wanted[-rank:], rank, seed=1)
        grid[0].flat[:4] = [-1, 1, 0, 50]
        expected = torch_functional.grid_sample(as_torch(x), as_torch(grid), **options)
        got = interpret(
            lambda x, g: functional.grid_sample(x, g, **options), x, grid, specs=declared
        )
        check(got, expected, TOLERANCE, 2e-5)


@pytest.mark.parametrize("corners", [True, False])
@pytest.mark.parametrize("padding", ["zeros", "border", "reflection"])
@pytest.mark.parametrize("mode", ["bilinear", "nearest", "bicubic"])
def test_samples_at_no_position(mode: str, padding: str, corners: bool) -> None:
    """NaN and infinities, beside a position that is one."""
    far = [math.nan, math.inf, -math.inf]
    grid = np.array([[[[v, 0.1] for v in far] + [[0.1, v] for v in far]]], np.float32)
    x = numbers(1, 2, 3, 4)
    options = {"mode": mode, "padding_mode": padding, "align_corners": corners}
    expected = torch_functional.grid_sample(as_torch(x), as_torch(grid), **options)
    got = interpret(lambda x, g: functional.grid_sample(x, g, **options), x, grid)
    check(got, expected, TOLERANCE, 2e-5)


@pytest.mark.filterwarnings("ignore:Since version 1.3.0, affine_grid")  # of a size of 1
@pytest.mark.parametrize("corners", [True, False])
@pytest.mark.parametrize("rank", [2, 3])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_affine_grids_of_dynamic_extents(rank: int, corners: bool, dtype: type) -> None:
    batch, *extents = SAMPLED
    dtypes = {np.float32: lg.f32, np.float64: lg.f64}
    declared = {
        "x0": lg.spec(batch, rank, rank + 1, dtype=dtypes[dtype]),
        "x1": lg.spec(batch, 2, *extents[-rank:]),
    }
    for count, sizes, _ in SAMPLES:
        theta = numbers(count, rank, rank + 1).astype(dtype)
        like = numbers(count, 2, *sizes[-rank:])
        expected = torch_functional.affine_grid(as_torch(theta), like.shape, align_corners=corners)
        for specs in (declared, None):  # PyTorch's own samples have none of this op
            got = interpret(
                lambda t, x: functional.affine_grid(t, x.shape, corners), theta, like, specs=specs
            )
            check(got, expected, *((TOLERANCE, 1e-6) if dtype is np.float32 else (1e-12, 1e-14)))


CONSTANTS = [
    3,
    2.5,
    True,
    [1, -2, 3],
    [1, 2.5],
    [True, False],
    [True, 2],
    [[0.0, math.inf], [-0.0, math.nan]],
    [],
    [[]],
    np.float64(3),
    [np.int32(3), 4],
    [np.float64(0.1), 2.0],
    np.array([[1, 2, 3]], np.uint8),
    np.array([0.1, 0.2]),
    np.array([0.1, 0.2], np.float16),
    np.full((16, 16), 0.1, np.float32),
]


@pytest.mark.parametrize("data", CONSTANTS, ids=lambda d: f"{type(d).__name__}-{np.size(d)}")
def test_constants_of_numbers_have_pytorchs_dtypes(data):
    expected = torch.tensor(data)
    check(interpret(lambda _: lg.tensor(data), np.zeros(1, np.float32)), expected, 0)
    half, truth = interpret(
        lambda _: (lg.tensor(data, dtype=lg.f16), lg.tensor(data, dtype=lg.boolean)),
        np.zeros(1, np.float32),
    )
    check(half, torch.tensor(data, dtype=torch.float16), 0)
    check(truth, torch.tensor(data, dtype=torch.bool), 0)


def test_constants_of_torchs_tensors():
    x = np.zeros(1, np.float32)
    theirs = torch.tensor([0.1, 0.2])
    check(interpret(lambda _: lg.tensor(theirs.requires_grad_()), x), theirs.detach(), 0)
    half = interpret(lambda _: lg.tensor(theirs.bfloat16()).float(), x)
    check(half, theirs.detach().bfloat16().float(), 0)
    whole = interpret(lambda _: lg.tensor([1.7, -1.7], dtype=lg.i32), x)
    check(whole, torch.tensor([1, -1], dtype=torch.int32), 0)


def test_an_index_that_names_no_element_reads_zero_and_writes_nothing():
    x, i = np.arange(1, 13, dtype=np.float32).reshape(3, 4), np.array([1, 3, -1])
    row = np.stack([x[1], x[1] * 0, x[1] * 0])
    np.testing.assert_array_equal(interpret(lambda x, i: functional.embedding(i, x), x, i), row)
    np.testing.assert_array_equal(interpret(lambda x, i: x.index_select(0, i), x, i), row)
    np.testing.assert_array_equal(interpret(lambda x, i: x.gather(0, i), x, i[:, None]), row[:, :1])
    above = interpret(lambda x, i: x[:, i], x, np.array([1, 4, -1]))  # as in Python, from the end
    np.testing.assert_array_equal(above, np.stack([x[:, 1], x[:, 1] * 0, x[:, 3]], 1))
    want = x.copy()
    want[1, 0] = 7
    got = interpret(lambda x, i: x.scatter(0, i, 7.0), x, i[:, None])
    np.testing.assert_array_equal(got, want)
    want[1, 0] = x[1, 0] + 1
    got = interpret(lambda x, i: x.scatter_add(0, i, lg.ones(3, 1)), x, i[:, None])
    np.testing.assert_array_equal(got, want)

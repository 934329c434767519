"""Every skeleton and what launches share, under compute-sanitizer: the tests that a project ships for its kernels."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import lumigen as lg
from lumigen import functional
from lumigen.build import build_project

pytestmark = pytest.mark.gpu

ROWS = lg.Dim("rows", 1, 200, typical=200)
FEW = lg.Dim("few", 1, 200, typical=4)
LENGTH = lg.Dim("length", 1, 300, typical=300)


def scores(q: lg.Tensor, k: lg.Tensor, v: lg.Tensor) -> lg.Tensor:
    """Causal attention, two heads to a head of keys."""
    return functional.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)


def doubled(x: lg.Tensor) -> dict[str, lg.Tensor]:
    return {"y": x * 2}


def decayed(x: lg.Tensor) -> lg.Tensor:
    """A loop around kernels."""

    def step(state: lg.Tensor, element: lg.Tensor) -> tuple[lg.Tensor, lg.Tensor]:
        state = state * 0.5 + element
        return state, state

    return lg.scan(step, x[:, 0] * 0, x, dim=1)[1]


CASES: dict[str, tuple[Callable[..., Any], tuple[lg.Spec, ...]]] = {
    "product": (lambda x, w: functional.gelu(x @ w) + 1, (lg.spec(ROWS, 264), lg.spec(264, 200))),
    "in_parts": (lambda x, w: x @ w, (lg.spec(3, 2048), lg.spec(2048, 72))),
    "few_in_parts": (
        lambda x, w: functional.gelu(x @ w) + 1,
        (lg.spec(FEW, 2048, dtype=lg.bf16), lg.spec(2048, 200, dtype=lg.bf16)),
    ),
    **{
        f"scores_{features}": (
            scores,
            (lg.spec(2, 4, LENGTH, features), *2 * (lg.spec(2, 2, LENGTH, features),)),
        )
        for features in (64, 128)
    },
    "softmax": (lambda x: x.softmax(-1), (lg.spec(ROWS, 1000),)),
    "total": (lambda x: x.sum(), (lg.spec(1 << 19),)),
    "long_softmax": (lambda x: x.softmax(-1), (lg.spec(2, 1 << 18),)),
    "columns": (lambda x: x.sum(0), (lg.spec(1 << 14, 24),)),
    "greatest": (lambda x: x.argmax(-1), (lg.spec(2, 1 << 18),)),
    "greatest_of_columns": (lambda x: x.argmax(0), (lg.spec(1 << 14, 22),)),
    "cumulated": (lambda x: x.cumsum(-1), (lg.spec(ROWS, 3000),)),
    "log_sums": (lambda x: x.logcumsumexp(-1), (lg.spec(3, 5000),)),
    "decayed": (decayed, (lg.spec(500, 9),)),
    "sorted": (lambda x: x.sort(-1)[0], (lg.spec(7, 700),)),
    "grouped": (
        lambda x, y, z: x.index_add(0, y.to(lg.i64), z),
        (lg.spec(300, 9), lg.spec(5000), lg.spec(5000, 9)),
    ),
    "chosen": (lambda x: x.topk(5, -1)[0], (lg.spec(ROWS, 300),)),
    "convolved": (
        lambda x, w: functional.conv2d(x, w, stride=2, padding=1),
        (lg.spec(2, 16, 15, 17), lg.spec(24, 16, 3, 3)),
    ),
    **{
        f"channels_last_{groups}": (
            lambda x, w, groups=groups: functional.conv2d(
                x.permute(0, 3, 1, 2), w.permute(0, 3, 1, 2), stride=2, padding=1, groups=groups
            ).permute(0, 2, 3, 1),
            (lg.spec(2, 15, 17, 64), lg.spec(24, 3, 3, 64 // groups)),
        )
        for groups in (1, 4)
    },
}


def skeletons() -> lg.Model:
    model = lg.Model("skeletons")
    for name, (function, specs) in CASES.items():
        model.entry(**dict(zip("xyz", specs, strict=False)))(entry_of(name, function))
    return model


def entry_of(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
    def entry(**inputs: lg.Tensor) -> dict[str, lg.Tensor]:
        return {"out": function(*inputs.values())}

    entry.__name__ = name
    return entry


@pytest.fixture(scope="module", params=["own", "portable", "f32"])
def project(
    request: pytest.FixtureRequest, target: str, tmp_path_factory: pytest.TempPathFactory
) -> Path:
    """In bf16 with the instructions of this GPU alone, and with those that every GPU has; in f32."""
    chosen = target.rstrip("a") if request.param == "portable" else target
    dtype = lg.f32 if request.param == "f32" else lg.bf16
    directory = tmp_path_factory.mktemp("sanitized") / "skeletons"
    lg.compile(skeletons(), chosen, directory, dtype=dtype)
    build_project(directory, tests=True)
    return directory


@pytest.mark.parametrize("tool", ["memcheck", "racecheck", "synccheck"])
def test_kernels_under_compute_sanitizer(project: Path, tool: str, sanitized) -> None:
    said = sanitized(project / "build" / "release" / "skeletons_kernels_test", tool)
    assert "FAIL" not in said


def test_a_fault_in_a_kernel_is_told_with_the_line_of_the_model(
    target: str, tmp_path: Path, sanitizer
) -> None:
    model = lg.Model("doubled")
    model.entry(x=lg.spec(64))(doubled)
    lg.compile(model, target, tmp_path / "doubled")
    (kernel,) = (tmp_path / "doubled" / "kernels").glob("*.cu")
    text = kernel.read_text()
    assert text.count("  await_turn();\n") == 1
    stray = "  await_turn();\n  *reinterpret_cast<volatile float*>(16) = 1.0f;\n"
    kernel.write_text(text.replace("  await_turn();\n", stray))
    build_project(tmp_path / "doubled", tests=True)
    done = sanitizer(
        tmp_path / "doubled" / "build" / "release" / "doubled_kernels_test", "memcheck"
    )
    line = doubled.__code__.co_firstlineno + 1
    assert done.returncode == 9
    (fault,) = {said for said in done.stdout.splitlines() if f"{kernel.name}:" in said}
    assert f"_test_gpu_sanitizer_{line}(" in fault

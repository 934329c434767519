"""States on a GPU: caches that two entries share, in graphs too; reset, copied, saved and loaded."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
from cached import LENGTH, expected, feed, model, one_by_one, random_qkv

import lumigen as lg

pytestmark = pytest.mark.gpu

TOLERANCE = {lg.f32: 2e-5, lg.bf16: 2e-2}


@pytest.fixture(scope="module", params=[lg.f32, lg.bf16], ids=str)
def dtype(request: pytest.FixtureRequest) -> lg.DType:
    return request.param


@pytest.fixture(scope="module")
def cached(dtype: lg.DType, target: str, tmp_path_factory: pytest.TempPathFactory) -> ModuleType:
    directory = tmp_path_factory.mktemp(f"states_{dtype}") / "cached"
    return lg.compile(model(dtype), target, directory)


def test_a_cache_and_full_recomputation_agree(cached, dtype) -> None:
    """Decoding replays one graph, whatever the position."""
    qkv = random_qkv(dtype)
    context = cached.Model().context()
    for steps in ([(0, 5), *one_by_one(5)], [(0, 8), (8, 16)], one_by_one(0), one_by_one(0)):
        found = feed(context, qkv, steps).astype(np.float64)
        bound = TOLERANCE[dtype]
        np.testing.assert_allclose(found, expected(*qkv), rtol=bound, atol=bound)


def test_states_are_reset_copied_saved_and_loaded(cached, dtype, tmp_path: Path) -> None:
    qkv = random_qkv(dtype)
    opened = cached.Model()
    context, copy, loaded = opened.context(), opened.context(), opened.context()
    first = feed(context, qkv, [(0, 6)])
    context.state_save(tmp_path / "states")
    copy.state_copy(context)
    loaded.state_load(tmp_path / "states")
    rest = feed(context, qkv, one_by_one(6))
    assert rest.shape[1] == LENGTH - 6
    for other in (copy, loaded):
        np.testing.assert_array_equal(feed(other, qkv, one_by_one(6)), rest)
    context.state_reset()
    np.testing.assert_array_equal(feed(context, qkv, [(0, 6)]), first)


def test_a_callers_stream(cached, dtype) -> None:
    torch = pytest.importorskip("torch")
    qkv = random_qkv(dtype)
    stream = torch.cuda.Stream()
    context, plain = cached.Model().context(stream=stream), cached.Model().context()
    wanted = feed(plain, qkv, one_by_one(0))
    np.testing.assert_array_equal(feed(context, qkv, one_by_one(0)), wanted)
    context.state_reset()
    np.testing.assert_array_equal(feed(context, qkv, one_by_one(0)), wanted)

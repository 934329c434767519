"""A built model with states: two entries share caches, contexts do not; states are reset, copied, saved and loaded."""

from __future__ import annotations

import subprocess
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

import lumigen as lg
from lumigen import nn

LENGTH, HEADS, GROUPS, WIDTH = 16, 4, 2, 8

pytestmark = pytest.mark.slow


def model() -> lg.Model:
    """Attention over a cache: `prefill` takes several positions, `decode` one."""
    keys = nn.State("cache.keys", (GROUPS, LENGTH, WIDTH))
    values = nn.State("cache.values", (GROUPS, LENGTH, WIDTH))
    length = lg.Dim("length", 1, 8, typical=4)
    made = lg.Model("cached")

    def attend(q: lg.Tensor, k: lg.Tensor, v: lg.Tensor, position: lg.Tensor) -> lg.Tensor:
        n = q.shape[1]
        keys[:, position : position + n] = k
        values[:, position : position + n] = v
        grouped = q.reshape(GROUPS, HEADS // GROUPS, n, WIDTH)
        scores = grouped @ keys.unsqueeze(1).transpose(-1, -2) * WIDTH**-0.5
        seen = lg.arange(LENGTH).unsqueeze(0) <= lg.arange(n).unsqueeze(1) + position
        weights = scores.masked_fill(~seen, float("-inf")).softmax(-1)
        return (weights @ values.unsqueeze(1)).reshape(HEADS, n, WIDTH)

    def inputs(n: int | lg.Dim) -> dict[str, object]:
        kv = lg.spec(GROUPS, n, WIDTH)
        position = lg.spec(dtype=lg.i64, range=(0, LENGTH - 1))
        return {"q": lg.spec(HEADS, n, WIDTH), "k": kv, "v": kv, "position": position}

    @made.entry(**inputs(length))
    def prefill(q, k, v, position):
        return attend(q, k, v, position)

    @made.entry(**inputs(1))
    def decode(q, k, v, position):
        return attend(q, k, v, position)

    return made


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("states") / "cached-cpu"
    lg.compile(model(), "cpu", directory)
    return directory


@pytest.fixture(scope="module")
def cached(project: Path) -> ModuleType:
    return lg.load(project)


@pytest.fixture
def qkv() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(3)
    shapes = ((HEADS, LENGTH, WIDTH), (GROUPS, LENGTH, WIDTH), (GROUPS, LENGTH, WIDTH))
    q, k, v = (rng.standard_normal(s).astype(np.float32) for s in shapes)
    return q, k, v


def expected(q: np.ndarray, k: np.ndarray, v: np.ndarray) -> np.ndarray:
    """Causal attention over all positions at once, in float64."""
    q, k, v = (a.astype(np.float64) for a in (q, k, v))
    k, v = (np.repeat(a, HEADS // GROUPS, 0) for a in (k, v))
    scores = q @ k.transpose(0, 2, 1) * WIDTH**-0.5
    scores = np.where(np.tril(np.ones((LENGTH, LENGTH), bool)), scores, -np.inf)
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    return weights / weights.sum(-1, keepdims=True) @ v


def part(arrays: tuple[np.ndarray, ...], start: int, stop: int) -> list[np.ndarray]:
    return [np.ascontiguousarray(a[:, start:stop]) for a in arrays]


def feed(context, arrays: tuple[np.ndarray, ...], steps: list[tuple[int, int]]) -> np.ndarray:
    out = []
    for start, stop in steps:
        entry = context.decode if stop == start + 1 else context.prefill
        out.append(entry(*part(arrays, start, stop), np.array(start)))
    return np.concatenate(out, 1)


def one_by_one(start: int) -> list[tuple[int, int]]:
    return [(i, i + 1) for i in range(start, LENGTH)]


def test_a_cache_and_full_recomputation_agree(cached, qkv):
    for steps in ([(0, 5), *one_by_one(5)], [(0, 8), (8, 16)], one_by_one(0)):
        found = feed(cached.Model().context(threads=2), qkv, steps)
        np.testing.assert_allclose(found, expected(*qkv), rtol=2e-5, atol=2e-6)


def test_contexts_share_no_state(cached, qkv):
    opened = cached.Model()
    first, second = opened.context(), opened.context()
    feed(first, qkv, [(0, 8)])
    before = feed(second, qkv, [(0, 1)])
    feed(first, qkv, one_by_one(8))
    np.testing.assert_array_equal(feed(second, qkv, [(0, 1)]), before)


def test_states_are_reset_copied_saved_and_loaded(cached, qkv, tmp_path):
    opened = cached.Model()
    context = opened.context()
    feed(context, qkv, [(0, 6)])
    file = tmp_path / "états 6.safetensors"
    context.state_save(file)
    copy, loaded = opened.context(), opened.context()
    copy.state_copy(context)
    loaded.state_load(file)
    rest = feed(context, qkv, one_by_one(6))
    np.testing.assert_array_equal(feed(copy, qkv, one_by_one(6)), rest)
    np.testing.assert_array_equal(feed(loaded, qkv, one_by_one(6)), rest)
    context.state_copy(context)
    found = load_file(file)
    np.testing.assert_array_equal(found["cache.keys"][:, :6], qkv[1][:, :6])
    assert not found["cache.keys"][:, 6:].any()
    context.state_reset()
    context.state_save(file)
    assert not any(a.any() for a in load_file(file).values())
    assert [p.name for p in tmp_path.iterdir()] == [file.name]


def test_a_file_of_other_states_changes_nothing(cached, qkv, tmp_path):
    context = cached.Model().context()
    feed(context, qkv, [(0, 8)])
    good = tmp_path / "good.safetensors"
    context.state_save(good)
    states = load_file(good)
    keys, values = states["cache.keys"], states["cache.values"]
    wrong = {
        "has no state cache.values": {"cache.keys": keys},
        "another state cache.keys than f32[2, 16, 8]": {
            "cache.keys": keys[:, :8].copy(),
            "cache.values": values,
        },
        "another state cache.values": {
            "cache.keys": keys * 0,
            "cache.values": values.astype(np.float16),
        },
        "has 3 tensors": {**states, "more": keys},
    }
    for words, tensors in wrong.items():
        file = tmp_path / "wrong.safetensors"
        save_file(tensors, file)
        with pytest.raises(cached.Error, match=r"\[state_load\]") as caught:
            context.state_load(file)
        assert words in str(caught.value)
    for damaged in (b"", b"\0" * 100, good.read_bytes()[:-1]):
        file = tmp_path / "damaged.safetensors"
        file.write_bytes(damaged)
        with pytest.raises(cached.Error, match=r"\[state_load\]"):
            context.state_load(file)
    with pytest.raises(cached.Error, match=r"state_save.*cannot be made"):
        context.state_save(tmp_path / "nowhere" / "file")
    context.state_save(tmp_path / "after.safetensors")
    assert (tmp_path / "after.safetensors").read_bytes() == good.read_bytes()


def test_the_projects_own_tests_pass(project):
    command = ["lumigen", "test", str(project)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_what_is_emitted_builds_clean_under_sanitizers(project, tmp_path):
    """Warnings are errors, and every test of the project runs under ASan and UBSan."""
    build = tmp_path / "asan"
    configure = ["cmake", "--preset", "asan", "-S", str(project), "-B", str(build)]
    for command in (
        configure,
        ["cmake", "--build", str(build), "-j", "2"],
        ["ctest", "--test-dir", str(build), "--output-on-failure"],
    ):
        done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=project)
        assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-4000:]

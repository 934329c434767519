"""A built model with states: two entries share caches, contexts do not; states are reset, copied, saved and loaded."""

from __future__ import annotations

import os
import re
import stat
import subprocess
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
from cached import expected, feed, model, one_by_one, random_qkv
from processor import instruction_sets
from safetensors.numpy import load_file, save_file

import lumigen as lg

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("states") / "cached-cpu"
    lg.compile(model(), "cpu", directory, isa="native")
    return directory


@pytest.fixture(scope="module")
def cached(project: Path) -> ModuleType:
    return lg.load(project)


@pytest.fixture
def qkv() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    return random_qkv()


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


def test_a_saved_file_takes_the_place_of_a_file_alone(cached, tmp_path):
    """With its mode, at the end of a link; what is no file stays as it is, and nothing lies beside it."""
    context = cached.Model().context()
    new, secret, link = (tmp_path / name for name in ("new", "secret", "link"))
    context.state_save(new)
    whole = new.read_bytes()
    (tmp_path / "plain").touch()
    assert new.stat().st_mode == (tmp_path / "plain").stat().st_mode
    secret.write_bytes(b"before")
    secret.chmod(0o600)
    link.symlink_to(secret)
    for path in (secret, link):
        secret.write_bytes(b"before")
        context.state_save(path)
        assert secret.read_bytes() == whole
        assert stat.filemode(secret.stat().st_mode) == "-rw-------"
    assert link.is_symlink()
    fifo, directory, dangling, loop = (tmp_path / n for n in ("fifo", "directory", "none", "loop"))
    os.mkfifo(fifo)
    directory.mkdir()
    dangling.symlink_to(tmp_path / "nowhere")
    loop.symlink_to(loop)
    there = sorted(p.name for p in tmp_path.iterdir())
    for path, words in {
        fifo: "is no regular file",
        directory: "is no regular file",
        dangling: "is a link that leads to no file",
        loop: "cannot be made",
    }.items():
        with pytest.raises(cached.Error, match=rf"\[state_save\] .*{path.name} {words}"):
            context.state_save(path)
    assert fifo.is_fifo()
    assert sorted(p.name for p in tmp_path.iterdir()) == there


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


def damaged(whole: bytes, rng: np.random.Generator) -> bytes:
    """A file of states with a few bytes of its header changed, cut short, or with a header that lies about itself."""
    out = bytearray(whole)
    end = 8 + int.from_bytes(whole[:8], "little")
    match rng.integers(4):
        case 0:
            return bytes(out[: rng.integers(len(out))])
        case 1:
            lengths = (0, 1, end, 2**31, 2**62, 2**64 - 1)
            out[:8] = lengths[rng.integers(len(lengths))].to_bytes(8, "little")
        case 2:
            numbers = list(re.finditer(rb"[0-9]+", whole[8:end]))
            at = numbers[rng.integers(len(numbers))]
            lie = str(rng.choice(["0", "1", "-1", "15", "256", "2147483648", "1" + "0" * 20]))
            text = whole[8 : 8 + at.start()] + lie.encode() + whole[8 + at.end() : end]
            out = bytearray(len(text).to_bytes(8, "little") + text + whole[end:])
        case _:
            for at in rng.integers(0, end, rng.integers(1, 4)):
                out[at] = rng.integers(0, 256)
    return bytes(out)


def test_no_damaged_file_changes_a_state(cached, qkv, tmp_path):
    """What is refused leaves all as it was; what is taken was whole, as a name or a blank may be another."""
    rng = np.random.default_rng(0)
    context = cached.Model().context()
    feed(context, qkv, [(0, 8)])
    good, file, after = (tmp_path / name for name in ("good", "damaged", "after"))
    context.state_save(good)
    whole, refused = good.read_bytes(), 0
    for _ in range(400):
        file.write_bytes(damaged(whole, rng))
        try:
            context.state_load(file)
        except cached.Error as error:
            assert "[state_load]" in str(error)  # noqa: PT017  # some are taken
            assert "weights" not in str(error)  # noqa: PT017
            refused += 1
        context.state_save(after)
        assert after.read_bytes() == whole
    assert refused > 300


def test_the_projects_own_tests_pass(project):
    command = ["lumigen", "test", str(project)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_what_is_emitted_builds_clean_under_sanitizers(cached, project, tmp_path):
    """Warnings are errors; every test of the project runs under ASan and UBSan, and so does the reader of states.

    For one instruction set: with all checks in them kernels take long to compile.
    """
    build = tmp_path / "asan"
    isas = f"-DCACHED_ISA={'avx2' if 'avx2' in instruction_sets() else 'baseline'}"
    configure = ["cmake", "--preset", "asan", isas, "-S", str(project), "-B", str(build)]
    for command in (
        configure,
        ["cmake", "--build", str(build), "-j", "2"],
        ["ctest", "--test-dir", str(build), "--output-on-failure"],
    ):
        done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=project)
        assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-4000:]

    rng = np.random.default_rng(1)
    good = tmp_path / "good"
    cached.Model().context().state_save(good)
    files = [good]
    for number in range(200):
        files.append(tmp_path / f"damaged{number}")
        files[-1].write_bytes(damaged(good.read_bytes(), rng))
    program, source = tmp_path / "load_states", Path(__file__).parent / "native" / "load_states.c"
    flags = ["-fsanitize=address,undefined", "-fno-sanitize-recover=all", "-Wall", "-Wextra"]
    include, library = project / "include", next(build.rglob("libcached.a"))
    parts = [
        "-x",
        "c",
        f"-I{include}",
        source,
        "-x",
        "none",
        library,
        "-lstdc++",
        "-lm",
        "-pthread",
    ]
    subprocess.run(["cc", *flags, *parts, "-o", program], check=True)
    done = subprocess.run([program, *files], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-4000:]
    first, *others = done.stdout.splitlines()
    assert first == "0 "
    assert len(others) == 200
    assert sum("[state_load] state file " in line for line in others) > 150

"""The emulator of Metal: right kernels give what numpy gives, and each check stops the kernel that breaks it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from metal import address_spaces, build, build_encoding, said
from metal_source import Foreign

from lumigen.dtype import bf16, f16

NATIVE = Path(__file__).parent / "native" / "metal"
NUMBERS = range(1, 129)


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("emulator") / "launch"
    build((NATIVE / "kernels.metal", NATIVE / "wrong.metal"), [NATIVE / "launch.cpp"], out)
    return out


def launch(
    program: Path, kernel: str, x: object, *sizes: int, seed: int = 0, fault: str = ""
) -> np.ndarray:
    """What it wrote. `sizes`: threadgroups, threads, bytes of threadgroup memory, numbers that it writes."""
    command = [str(program), kernel, *map(str, sizes), *([fault] if fault else [])]
    given = np.asarray(x, np.float32).ravel().tolist()
    done = said(*command, given=given, env={"LUMIGEN_EMULATOR_SEED": str(seed)})
    assert done.returncode == 0, done.stderr
    return np.array(done.stdout.split(), np.float32)


def stopped(program: Path, kernel: str, *sizes: int, fault: str = "", seed: int = 0) -> str:
    command = [str(program), kernel, *map(str, sizes), *([fault] if fault else [])]
    env = {"LUMIGEN_EMULATOR_SEED": str(seed), "LUMIGEN_EMULATOR_SECONDS": "1"}
    done = said(*command, given=NUMBERS, env=env)
    assert done.returncode == 3, f"{kernel} ran: {done.stdout}"
    assert done.stderr.count("\n") == 1, "one line says what is wrong"
    return done.stderr


# ---- right --------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
def test_a_reduction_of_simdgroups_and_the_threadgroup(
    seed: int, program: Path, rng: np.random.Generator
) -> None:
    x = rng.normal(size=777).astype(np.float32)
    expected = np.exp(x) / np.exp(x).sum()
    y = launch(program, "softmax", x, 1, 64, 4096, 777, seed=seed)
    np.testing.assert_allclose(y, expected, 1e-5)


@pytest.mark.parametrize("seed", range(3))
def test_matrices_of_a_simdgroup(seed: int, program: Path, rng: np.random.Generator) -> None:
    a, b = rng.integers(-9, 9, (2, 16, 16))
    y = launch(program, "product", [a, b.T], 1, 128, 1024, 256, seed=seed)
    np.testing.assert_array_equal(y.reshape(16, 16), a @ b)  # small integers: nothing rounds


def test_teams_that_go_different_ways(program: Path) -> None:
    y = launch(program, "teams", NUMBERS, 1, 64, 0, 64, seed=5)
    np.testing.assert_array_equal(y, np.repeat(np.arange(1, 65).reshape(8, 8).sum(1), 8))


def test_what_lanes_do_together(program: Path) -> None:
    y = launch(program, "lanes", NUMBERS, 1, 32, 16, 32, seed=1)
    x, before = np.arange(1, 33), np.array([1, *range(1, 32)])
    np.testing.assert_array_equal(y, 32 + 1 + x.cumsum() + before + 4 + x + np.arange(32).sum() + 1)


def test_floats_of_16_bits_round_to_nearest(program: Path) -> None:
    steps = np.float32(2) ** np.arange(-26, 17)[:, None]
    fractions = np.float32([1, 1 + 2**-11, 1 + 3 * 2**-11, 1.3, 1 + 2**-8, 1.999, -1.7])
    x = np.concatenate([(steps * fractions).ravel(), np.float32([0, -0.0, 65519, 65520, 1e30])])
    x = np.concatenate([x, np.zeros(320 - x.size, np.float32)])
    y = launch(program, "rounded", x, 1, 320, 0, 4 * 320).reshape(-1, 4)
    with np.errstate(over="ignore", invalid="ignore"):
        h = x.astype(f16.numpy)
        expected = [h, x.astype(bf16.numpy), h * h + h, np.copysign(np.float32(0), h)]
    np.testing.assert_array_equal(y, np.stack([e.astype(np.float32) for e in expected], 1))
    np.testing.assert_array_equal(np.signbit(y[:, 3]), np.signbit(h))


@pytest.mark.slow
def test_a_launch_by_the_runtime_allocates_nothing(tmp_path: Path) -> None:
    """Of the heap no more than the emulator's own classes take for the same calls."""
    build_encoding(tmp_path / "encode")
    done = said(str(tmp_path / "encode"))
    assert done.returncode == 0, done.stderr
    by_hand, by_runtime = map(int, done.stdout.split())
    assert by_hand > 0
    assert by_runtime == by_hand


# As tinygrad and tilelang write them: tests/sweeps/metal_others.py runs theirs.
OF_OTHERS = """
#include <metal_stdlib>
using namespace metal;
kernel void sums(device float* out [[buffer(0)]], const device float* x [[buffer(1)]],
    uint3 row [[threadgroup_position_in_grid]], uint3 at [[thread_position_in_threadgroup]]) {
  threadgroup __attribute__((aligned(16))) float parts[32];
  parts[at.x] = x[row.x * 64 + at.x] + x[row.x * 64 + at.x + 32];
  threadgroup_barrier(mem_flags::mem_threadgroup);
  if (at.x == 0) {
    float sum = 0.0f;
    for (int i = 0; i < 32; i++) sum += parts[i];
    out[row.x] = sum;
  }
}
"""


@pytest.mark.slow
def test_a_kernel_of_others_whose_buffers_come_one_by_one(tmp_path: Path) -> None:
    x = np.arange(320, dtype=np.float32).reshape(5, 64)
    sums, _ = Foreign.built(OF_OTHERS, tmp_path).run(
        (5, 1, 1), (32, 1, 1), [np.zeros(5, np.float32), x], seed=3
    )
    np.testing.assert_array_equal(sums, x.sum(1))


# ---- wrong --------------------------------------------------------------------------------------


def test_a_missing_barrier_shows_by_the_order_of_threads(program: Path) -> None:
    """What neighbours exchange; with the barrier the same for every order."""
    x = np.arange(1, 65, dtype=np.float32)
    exchanged = x.reshape(-1, 2)[:, ::-1].ravel()
    found = [launch(program, "race", x, 1, 64, 256, 64, seed=seed) for seed in range(4)]
    assert not any((y == exchanged).all() for y in found)
    assert len({y.tobytes() for y in found}) > 1


def test_what_launches_need_of_each_other_shows_by_their_order(program: Path) -> None:
    """Each adds up its teams, the second what the first has written."""
    once = np.repeat(np.arange(1, 65).reshape(8, 8).sum(1), 8)
    sizes = (1, 64, 0, 64)
    wanted = np.repeat(once.reshape(8, 8).sum(1), 8)

    def found(fault: str, seed: int) -> bool:
        y = launch(program, "teams", NUMBERS, *sizes, seed=seed, fault=fault)
        return bool((y == wanted).all())

    assert all(found("twice", seed) for seed in range(4))
    assert not all(found("without_waiting", seed) for seed in range(4))


WRONG = {
    "early_return": "a barrier that 58 of 64 threads do not reach",
    "two_barriers": "threads wait at two barriers",
    "crossed": "a barrier that 32 of 64 threads do not reach",
    "gone_lane": "lane 9 is not at an operation of its simdgroup, it has returned",
    "gone_neighbour": "reads lane 9 of its simdgroup, which is not there",
    "half_a_matrix": "lane 16 is not at an operation of its simdgroup",
    "past_the_end": "touched memory outside of its tensors",
    "past_the_start": "touched memory outside of its tensors",
    "past_shared": "touched memory outside of its tensors",
    "past_arguments": "touched memory outside of its tensors",
}


@pytest.mark.parametrize("kernel", WRONG)
def test_a_wrong_kernel_is_stopped(kernel: str, program: Path) -> None:
    shared = 256 if kernel == "past_shared" else 4096
    text = stopped(program, kernel, 1, 64, shared, 64)
    assert WRONG[kernel] in text
    assert f"kernel {kernel}" in text


STOPPED = {
    "meet_on_two_ways": "came to one on two ways",
    "two_barriers_in_a_line": "came to one on two ways",
    "sums_on_two_ways": "lane 1 is not at an operation of its simdgroup, it waits elsewhere",
    "far_behind": "behind the end of one of 512 bytes",
    "written_behind": "past the ends of a tensor of 252 bytes",
    "written_input": "wrote what it may only read, byte",
    "written_arguments": "wrote what it may only read, byte",
    "many_variables": "has more variables than its 64 KiB of stack",
    "divided": "divided an integer by 0",
    "endless": "runs for 1 s and has not come to a barrier",
}


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("kernel", STOPPED)
def test_a_wrong_kernel_is_stopped_in_each_order(kernel: str, seed: int, program: Path) -> None:
    written = 63 if kernel == "written_behind" else 64
    text = stopped(program, kernel, 1, 64, 4096, written, seed=seed)
    assert STOPPED[kernel] in text
    assert f"kernel {kernel}" in text


def test_what_is_written_around_threadgroup_memory_is_found(program: Path) -> None:
    text = stopped(program, "written_ahead_of_shared", 1, 64, 256, 64)
    assert "something was written past the ends of 256 bytes of threadgroup memory" in text
    assert "256 bytes ahead of one of 256 bytes" in stopped(
        program, "written_ahead_of_shared", 1, 1, 256, 64, seed=1
    )


def test_memory_is_guarded_at_one_end_and_at_the_other(program: Path) -> None:
    """To a byte, by which seeds are odd; what is read past the end that is not guarded is NaN."""
    assert "4 bytes ahead of one of 512 bytes" in stopped(program, "just_ahead", 1, 1, 0, 1, seed=1)
    assert np.isnan(launch(program, "just_ahead", NUMBERS, 1, 1, 0, 1)).all()
    x = np.arange(1, 129)
    for seed in range(3):
        y = launch(program, "all_of_it", x, 1, 64, 0, 64, seed=seed)
        np.testing.assert_array_equal(y, x[::-1][:64])


@pytest.mark.parametrize("seed", range(3))
def test_tensors_side_by_side_in_one_buffer_are_kept_apart(seed: int, program: Path) -> None:
    """As in an arena, to a byte at the end by which the seed is odd; reads at the other one find NaN."""
    x = np.arange(1, 129)
    for way in ("side_by_side", "in_place"):
        y = launch(program, "keeps_to_its_own", x, 1, 64, 0, 64, seed=seed, fault=way)
        np.testing.assert_array_equal(y, x[:64] + 128)

    def wrong(kernel: str) -> str:
        return stopped(program, kernel, 1, 64, 0, 64, seed=seed, fault="side_by_side")

    if seed % 2 == 0:
        assert "bytes behind the end of one of 512 bytes" in wrong("reads_neighbour")
        assert "something was written past the ends of a tensor of 256" in wrong("writes_neighbour")
    else:
        y = launch(program, "reads_neighbour", x, 1, 64, 0, 64, seed=seed, fault="side_by_side")
        assert np.isnan(y).all()
        assert "4 bytes ahead of one of 256 bytes" in wrong("writes_neighbour")


RIGHT = {
    "meet_on_one_way": [1] * 64,
    "one_barrier": [3] * 64,
    "sums_on_one_way": [48] * 64,
    "whole_barrier": [*range(32, 64), *range(32)],
}


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("kernel", RIGHT)
def test_a_right_kernel_is_not_accused(kernel: str, seed: int, program: Path) -> None:
    y = launch(program, kernel, NUMBERS, 1, 64, 4096, 64, seed=seed)
    np.testing.assert_array_equal(y, RIGHT[kernel])


def test_what_threadgroups_need_of_each_other_shows_by_their_order(program: Path) -> None:
    def found(kernel: str, seed: int) -> np.ndarray:
        return launch(program, kernel, NUMBERS, 8, 64, 0, 512, seed=seed).reshape(8, 64)

    ordered = np.repeat(np.arange(1, 9)[:, None], 64, 1)
    right = np.arange(1, 65) + np.arange(8)[:, None]
    for seed in range(1, 4):
        assert not (found("chain", seed) == ordered).all()
        np.testing.assert_array_equal(found("no_chain", seed), right)


def test_a_barrier_of_simdgroups_alone_shows_by_their_order(program: Path) -> None:
    for seed in (1, 3, 5):
        y = launch(program, "own_barrier", NUMBERS, 1, 64, 4096, 64, seed=seed)
        assert not (y == RIGHT["whole_barrier"]).all()


# ---- what a build sees in which each load and store is checked ------------------------------------


@pytest.fixture(scope="module")
def checked(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("checked") / "launch"
    kernels = (NATIVE / "kernels.metal", NATIVE / "wrong.metal")
    build(kernels, (NATIVE / "launch.cpp",), out, is_checked=True)
    return out


SEEN = {
    "race": "no barrier for this memory parts them",
    "added_at_once": "no barrier for this memory parts them",
    "added_by_groups": "no barrier for this memory parts them",
    "chain": "no barrier for this memory parts them",
    "barrier_for_nothing": "no barrier for this memory parts them",
    "barrier_for_other_memory": "no barrier for this memory parts them",
    "own_barrier": "no barrier for this memory parts them",
    "written_by_none": "reads threadgroup memory that nothing has written",
    "between_elements": "bytes that are not aligned to so many",
    "one_behind": "bytes behind the end of one of",
    "just_ahead": "bytes ahead of one of 512 bytes",
}


@pytest.mark.slow
@pytest.mark.parametrize("kernel", SEEN)
def test_a_checked_build_stops_it(kernel: str, checked: Path) -> None:
    many = 8 if kernel in {"added_by_groups", "chain"} else 1
    written = {"chain": 512, "one_behind": 63}.get(kernel, 64)
    assert SEEN[kernel] in stopped(checked, kernel, many, 64, 4096, written)


@pytest.mark.parametrize("seed", range(3))
def test_a_checked_build_accuses_no_right_kernel(seed: int, checked: Path) -> None:
    added = {
        "added_as_atomic": [64] * 64,
        "barrier_for_this_memory": RIGHT["whole_barrier"],
    }
    for kernel, expected in (RIGHT | added).items():
        y = launch(checked, kernel, NUMBERS, 1, 64, 4096, 64, seed=seed)
        np.testing.assert_array_equal(y, expected)
    x = np.arange(777, dtype=np.float32) / 777
    y = launch(checked, "softmax", x, 1, 64, 4096, 777, seed=seed)
    np.testing.assert_allclose(y, np.exp(x) / np.exp(x).sum(), 1e-5)
    a, b = np.arange(512).reshape(2, 16, 16) % 7
    y = launch(checked, "product", [a, b.T], 1, 128, 1024, 256, seed=seed)
    np.testing.assert_array_equal(y.reshape(16, 16), a @ b)


FAULTS = {
    "host_address": "an address at byte 0 that is in no buffer which the encoder uses",
    "behind": "an address at byte 0 that is in no buffer which the encoder uses",
    "other_index": "arguments at index 1, kernels have them at 0",
    "other_memory": "threadgroup memory at index 1, kernels have it at 0",
    "no_pipeline": "a dispatch without a pipeline",
    "two_encoders": "a command buffer has two open encoders",
    "unused": "an address at byte 8 that is in no buffer which the encoder uses",
    "few_arguments": "8 bytes of arguments for lanes, which has 24",
    "many_arguments": "5000 bytes of arguments, must be at most 4096",
    "open_encoder": "committed while its encoder is open",
    "committed_twice": "committed twice",
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_mistake_of_the_host_is_stopped(fault: str, program: Path) -> None:
    assert FAULTS[fault] in stopped(program, "lanes", 1, 32, 16, 32, fault=fault)


def test_a_tensor_that_its_buffer_does_not_hold_is_stopped(program: Path) -> None:
    text = stopped(program, "keeps_to_its_own", 1, 64, 0, 64, fault="longer")
    assert (
        "argument 0 of keeps_to_its_own has 516 bytes, but only 512 are left of its buffer" in text
    )


def test_two_kernels_of_one_name_are_stopped(program: Path) -> None:
    text = stopped(program, "lanes", 1, 32, 16, 32, fault="two_of_one_name")
    assert text == "[emulator] there are two kernels lanes.\n"


@pytest.mark.parametrize(
    ("kilobytes", "threads", "written", "code", "text"),
    [
        (200_000, 32, 32, 3, "[emulator] no memory for 512 bytes between their guards."),
        (1_000_000, 1024, 1024, 3, "no memory for the stack of a thread."),
        (200_000, 32, 10**8, 5, ""),  # no buffer, as on a Mac: the host has to look
    ],
)
def test_what_there_is_no_memory_for(
    kilobytes: int, threads: int, written: int, code: int, text: str, program: Path
) -> None:
    limited = ("sh", "-c", f'ulimit -v {kilobytes}; exec "$@"', "sh")
    sizes = map(str, (1, threads, 16, written))
    done = said(*limited, str(program), "lanes", *sizes, given=NUMBERS)
    assert (done.returncode, done.stderr.strip()[-len(text) :]) == (code, text)


@pytest.mark.parametrize(
    ("threads", "shared", "text"),
    [
        (64, 32784, "32784 bytes of threadgroup memory, must be at most 32768"),
        (64, 17, "must be a multiple of 16"),
        (1056, 16, "1056 threads in a threadgroup, must be 1 .. 1024"),
        (0, 16, "0 threads in a threadgroup"),
    ],
)
def test_what_no_threadgroup_has(threads: int, shared: int, text: str, program: Path) -> None:
    assert text in stopped(program, "lanes", 1, threads, shared, 32)


# ---- address spaces -----------------------------------------------------------------------------

MIXED = ("THREADGROUP_AS_DEVICE", "DEVICE_FROM_THREADGROUP", "WRITTEN_CONSTANT")
MIXED += ("DEVICE_FROM_CONSTANT", "WRITTEN_INPUT", "CAST_INPUT", "TWICE_AS_WIDE")


def test_address_spaces_are_kept_apart() -> None:
    said_of = {m: address_spaces(NATIVE / "spaces.metal", f"-D{m}") for m in ("NONE", *MIXED)}
    if None in said_of.values():
        pytest.skip("no clang++, which reads kernels for their address spaces")
    assert not said_of.pop("NONE")
    accepted = [m for m, text in said_of.items() if "error:" not in str(text)]
    assert not accepted

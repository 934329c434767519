"""What every test may ask for: goldens, seeded numbers, a GPU. Which slow cases a whole run takes."""

from __future__ import annotations

import ctypes
import functools
import gc
import os
from collections.abc import Callable, Generator
from pathlib import Path
from typing import Any

import hypothesis
import numpy as np
import pytest
from slow_cases import ALONE, SHARE, draw_slow_cases

GOLDEN = Path(__file__).parent / "golden"
ACCEPT = os.environ.get("LUMIGEN_ACCEPT") == "1"
ALL = os.environ.get("LUMIGEN_ALL") == "1"

# No deadline: shared machines stall. The same examples each time: a red test is about the change.
hypothesis.settings.register_profile("lumigen", deadline=None, derandomize=True)
hypothesis.settings.load_profile("lumigen")


def pytest_configure(config: pytest.Config) -> None:
    """A developer's switches change what commands print; tests start without them."""
    for name in ("LUMIGEN_DEBUG", "LUMIGEN_DUMP", "LUMIGEN_CXX"):
        os.environ.pop(name, None)


@pytest.hookimpl(wrapper=True)
def pytest_collection(session: pytest.Session) -> Generator[None, object, object]:
    """What is imported stays until the end: the collector, which looks at all of it, took a third of the time.

    Frozen, it is not looked at again while tests run.
    """
    gc.disable()
    found = yield
    gc.enable()
    gc.freeze()
    return found


def pytest_report_header(config: pytest.Config) -> str | None:
    if not is_sampled(config):
        return None
    part = f"one in {SHARE} of each test with several, one in {ALONE} of the others"
    return f"slow cases: {part}, drawn by the commit (LUMIGEN_ALL=1: all)"


def is_sampled(config: pytest.Config) -> bool:
    """Whether all tests are asked for, without a path: who names a file wants all of its cases."""
    told: dict[str, bool] | None = getattr(config, "workerinput", None)
    if told is not None:
        return told["sampled"]
    return not ALL and config.args_source is pytest.Config.ArgsSource.TESTPATHS


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    """A worker of xdist is given the paths of its controller as its own: it is told whose they are."""
    node.workerinput["sampled"] = is_sampled(node.config)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if is_sampled(config):
        draw_slow_cases(config, items)
    wants_gpu = [item for item in items if item.get_closest_marker("gpu")]
    if wants_gpu and (reason := why_no_gpu()):
        for item in wants_gpu:
            item.add_marker(pytest.mark.skip(reason=reason))


@functools.cache
def why_no_gpu() -> str | None:
    """Asks the driver, which is all that a shipped model needs; None where there is a GPU."""
    try:
        driver = ctypes.CDLL("libcuda.so.1")
    except OSError:
        return "no NVIDIA driver: libcuda.so.1 was not found"
    count = ctypes.c_int(0)
    if (code := driver.cuInit(0)) != 0:
        return f"the NVIDIA driver does not start: cuInit returned {code}"
    if driver.cuDeviceGetCount(ctypes.byref(count)) != 0 or count.value == 0:
        return "the NVIDIA driver sees no GPU"
    return None


@pytest.fixture
def golden() -> Callable[[str, str], None]:
    """Compares a text with tests/golden/<name>; LUMIGEN_ACCEPT=1 accepts the new text."""

    def check(name: str, actual: str) -> None:
        path = GOLDEN / name
        if ACCEPT and not (path.is_file() and path.read_bytes() == actual.encode()):
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(actual.encode())
        assert path.is_file(), (
            f"there is no golden {name}; rerun with LUMIGEN_ACCEPT=1, then review it"
        )
        expected = path.read_bytes().decode()
        assert actual == expected, (
            f"{name} changed; review the difference, then rerun with LUMIGEN_ACCEPT=1"
        )

    return check


@pytest.fixture
def rng() -> np.random.Generator:
    """The same numbers in every run."""
    return np.random.default_rng(0)

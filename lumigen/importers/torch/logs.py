"""logs: what PyTorch logs where it fails, beside what it raises."""

from __future__ import annotations

import logging
from collections.abc import Generator
from contextlib import contextmanager

# It logs a traceback where shapes do not fit, and raises what is in it.
OF_SHAPES = "torch._subclasses.fake_tensor"


@contextmanager
def quiet(name: str, logged: list[BaseException]) -> Generator[None]:
    """Without what a library logs; the errors in it are kept: PyTorch raises another one in their place."""

    def keep(record: logging.LogRecord) -> bool:
        if record.exc_info and record.exc_info[1]:
            logged.append(record.exc_info[1])
        return False

    logger = logging.getLogger(name)
    logger.addFilter(keep)
    try:
        yield
    finally:
        logger.removeFilter(keep)

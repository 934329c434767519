"""Ctrl-C while the `lumigen` command is still being imported: `stopped`, without a traceback.

Promises to change nothing in a process that is not the command. Imported before what takes time.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from types import TracebackType


def _is_command() -> bool:
    """Whether this process is `lumigen` or `python -m lumigen`, as it looks during imports."""
    program = sys.argv[0] if sys.argv else ""
    if program == "-m":
        return "lumigen" in sys.orig_argv
    return Path(program).name in ("lumigen", "lumigen-script.py", "lumigen.exe")


def _report(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    if not issubclass(kind, KeyboardInterrupt):
        sys.__excepthook__(kind, error, trace)
        return
    if sys.stderr is not None:  # pyright: ignore[reportUnnecessaryComparison]  # `2>&-`
        sys.stderr.write("stopped\n")
        sys.stderr.flush()
    os._exit(130)  # else Python ends itself by the signal


if _is_command():
    sys.excepthook = _report

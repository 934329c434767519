"""What to say of a path that is not there: which is near it, and what relative ones start from."""

from __future__ import annotations

from collections.abc import Callable
from difflib import get_close_matches
from itertools import islice
from pathlib import Path

MAX_ENTRIES = 1000  # of a directory, that are looked at
NEAR = 0.6  # how alike two names are, of 1


def advice(path: Path, instead: str, accept: Callable[[Path], bool] = Path.is_file) -> str:
    """Sentences: a near path that `accept` takes, else `instead`; and where a relative path starts.

    Near is a name like it in its directory, and its own name in a directory below or above that.
    """
    try:
        found = _near(path, accept)
    except OSError:  # somebody else's directory: nothing of it is said
        found = None
    said = f"Did you mean {found}?" if found else instead
    return said if path.is_absolute() else f"{said} The working directory is {Path.cwd()}."


def _near(path: Path, accept: Callable[[Path], bool]) -> Path | None:
    folder = path.parent
    beside = sorted(islice(folder.iterdir(), MAX_ENTRIES)) if folder.is_dir() else []
    alike = get_close_matches(path.name, [p.name for p in beside], n=3, cutoff=NEAR)
    below = [p / path.name for p in beside if p.is_dir()]
    above = [folder.parent / path.name] if folder != folder.parent else []
    near = [*(folder / n for n in alike), *below, *above]
    return next((p for p in near if p.exists() and accept(p)), None)

"""commit: a seed that is another one with each commit, for samples of what is too much to test each time."""

from __future__ import annotations

import functools
import shutil
import subprocess
from pathlib import Path

ROOT = Path(__file__).parent.parent


@functools.cache
def commit() -> str:
    """The commit that is tested; of a tree that is no clone nothing."""
    git = shutil.which("git")
    if git is None:
        return "no git"
    words = [git, "-C", str(ROOT), "rev-parse", "HEAD"]
    return subprocess.run(words, capture_output=True, text=True, check=False).stdout.strip()

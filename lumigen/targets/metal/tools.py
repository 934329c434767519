"""tools: what this machine has for Apple's GPUs."""

from __future__ import annotations

import subprocess
import sys

from lumigen.toolchain import Finding


def metal_compiler() -> Finding:
    """Apple's compiler of kernels, which comes with Xcode and with nothing else."""
    name = "Metal"
    if sys.platform != "darwin":
        found = "no Mac: what --target metal makes is built with an emulator, to be tested"
        return Finding(name, found, is_needed=False)
    command = ("xcrun", "-sdk", "macosx", "-f", "metal")
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    except (OSError, subprocess.TimeoutExpired):
        done = None
    if done is None or done.returncode != 0:
        found = "no compiler of kernels here: the driver compiles them when a model is opened"
        return Finding(name, found, is_needed=False)
    return Finding(name, done.stdout.strip(), is_needed=False)

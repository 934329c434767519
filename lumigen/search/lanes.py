"""lanes: how the kernels of a target are measured on this machine."""

from __future__ import annotations

from lumigen.measuring import Measuring
from lumigen.search import host
from lumigen.target import HOST, TARGETS
from lumigen.target_row import Target


def refusal(target: Target) -> str:
    """What is to be passed where a target cannot be measured here; empty where it can be."""
    measuring = measuring_of(target)
    if measuring is not None:
        return measuring.lacking(target)
    measured = [b.target for b in TARGETS.values() if measuring_of(b.target) is not None]
    return f"it with {' or '.join(t.name for t in measured)}: others are not measured yet"


def measuring_of(target: Target) -> Measuring | None:
    """What runs in the worker itself for the host, else its row's; None of one that is not measured."""
    return host.MEASURING if target.name == HOST.name else TARGETS[target.name].measuring

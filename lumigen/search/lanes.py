"""lanes: how the kernels of a target are measured on this machine."""

from __future__ import annotations

from lumigen.search import host
from lumigen.target import HOST, TARGETS
from lumigen.target_row import Target
from lumigen.targets.measuring import Measuring


def measuring_of(target: Target) -> Measuring | None:
    """What runs in the worker itself for the host, else its row's; None of one that is not measured."""
    return host.MEASURING if target.name == HOST.name else TARGETS[target.name].measuring

"""target: what a project can be emitted for. A target is a row here, its folders and what spells its kernels."""

from __future__ import annotations

from dataclasses import replace

from lumigen.errors import UnsupportedTarget
from lumigen.target_row import Target
from lumigen.targets.backend import TargetBackend
from lumigen.targets.cpu.row import BACKEND as CPU
from lumigen.targets.cuda.row import BACKEND as CUDA
from lumigen.targets.metal.row import BACKEND as METAL

TARGETS: dict[str, TargetBackend] = {b.target.name: b for b in (CPU, CUDA, METAL)}
HOST = CPU.target  # of the machine that compiles; the one that is taken where none is named


def parse_target(text: str) -> Target:
    """The target that its name says, or one of fewer architectures, `name:one,another`; refuses any other."""
    name, colon, rest = text.partition(":")
    if name not in TARGETS:
        raise UnsupportedTarget(target=text, why="there is no such target", known=list(TARGETS))
    backend = TARGETS[name]
    if not colon:
        return backend.target
    known = backend.target.known_architectures
    if not known:
        why = "its kernels are compiled for every instruction set, and the machine chooses"
        raise UnsupportedTarget(target=text, why=why, known=list(TARGETS))
    wanted = [part.strip() for part in rest.split(",")]
    for architecture in wanted:
        if architecture not in known:
            why = f"{architecture!r} is no architecture that it is compiled for"
            if not architecture:
                why = "an architecture is missing behind its colon or a comma"
            raise UnsupportedTarget(target=text, why=why, known=", ".join(known))
    chosen = tuple(sorted(set(wanted), key=known.index))
    return replace(
        backend.target, architectures=chosen, cmake_architectures=backend.compiles(chosen)
    )

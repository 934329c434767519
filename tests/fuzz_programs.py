"""Random programs, for as long as one likes: `python tests/fuzz_programs.py --minutes 10 --seed 1`.

Each goes through the whole compiler, as `lumigen compile` runs it, for every target and dtype; what raises is a bug
of ours. The interpreter runs each graph before and after the passes. What fails is made smaller and printed, each
kind of failure once.
"""

from __future__ import annotations

import argparse
import re
import signal
import time
import traceback
from collections.abc import Callable, Iterator

import numpy as np
from random_programs import RandomProgram, drawn, size, smaller
from small_programs import SmallProgram, agree, passed

from lumigen.dtype import DType, bf16, f16, f32
from lumigen.interp.graph import evaluate
from lumigen.target import HOST, TARGETS
from lumigen.target_row import Target

Way = tuple[Target, DType]
WAYS: tuple[Way, ...] = tuple(
    (TARGETS[t].target, d) for t, d in (("cpu", f32), ("cuda", bf16), ("cuda", f32), ("cpu", f16))
)
SHRINK_SECONDS = 60
LONGEST = 20  # seconds of one compilation


def compiled(program: SmallProgram, target: Target, dtype: DType) -> None:
    """Through the compiler to the text of the kernels; in f32 the passes keep what the graph means."""
    after = passed(program.name, program.graph, target, dtype)
    if dtype is not f32 or target is not HOST:
        return
    for point in program.points:
        inputs, weights = program.arrays(point)
        with np.errstate(all="ignore"):
            wanted, found = (
                evaluate(program.graph, inputs, weights),
                evaluate(after, inputs, weights),
            )
        for name, expected in wanted.items():
            bound = None if program.errors is None else program.errors[name]
            agree(found[name], expected, f"{name} at {dict(point)}", bound=bound)


class TooSlow(Exception):
    pass


def stop(*_: object) -> None:
    raise TooSlow(f"after {LONGEST} seconds")


def wrong(program: RandomProgram, ways: tuple[Way, ...] = WAYS) -> Iterator[tuple[Way, Exception]]:
    """Each way to compile a program that fails, and how."""
    small = program.program("p")
    signal.signal(signal.SIGALRM, stop)
    for way in ways:
        signal.alarm(LONGEST)
        try:
            compiled(small, *way)
        except Exception as e:  # noqa: BLE001  # whatever it is, it is reported with the program
            signal.alarm(0)
            yield way, e
        finally:
            signal.alarm(0)


def kind(e: Exception) -> str:
    """Alike for failures of one cause: the exception, its place, and its text less what differs."""
    frames = traceback.extract_tb(e.__traceback__)
    ours = [f for f in frames if "lumigen/" in f.filename] or frames
    text = re.sub(r"[^a-z ]*\d[^ ]*|[\[(].*?[\])]", "", str(e).splitlines()[0] if str(e) else "")
    words = " ".join(w for w in text.split() if w.isalpha())
    return (
        type(e).__name__
        if isinstance(e, TooSlow)
        else f"{type(e).__name__} {ours[-1].name} {words[:60]}"
    )


def reduced(program: RandomProgram, fails: Callable[[RandomProgram], bool]) -> RandomProgram:
    """A smaller program that fails as well, none of whose own smaller ones does, if time allows."""
    end = time.monotonic() + SHRINK_SECONDS
    while time.monotonic() < end:
        found = next((q for q in sorted(smaller(program), key=size) if fails(q)), None)
        if found is None:
            break
        program = found
    return program


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    end = time.monotonic() + 60 * given.minutes
    seen: dict[str, int] = {}
    seed, tried = given.seed, 0
    while time.monotonic() < end:
        for program in drawn(50, seed):
            tried += 1
            for way, e in wrong(program):
                name = kind(e)
                seen[name] = seen.get(name, 0) + 1
                if seen[name] > 1:
                    continue
                small = reduced(
                    program,
                    lambda q, way=way, name=name: any(kind(x) == name for _, x in wrong(q, (way,))),
                )
                _, why = next(wrong(small, (way,)), (way, e))
                print(
                    f"\n=== {name}\n{way[0].name} {way[1]}, seed {seed}\n{small}\n{str(why)[:1500]}",
                    flush=True,
                )
                traceback.print_exception(why, limit=-3)
            if time.monotonic() > end:
                break
        seed += 1
        print(f"seed {seed - 1}: {tried} programs", flush=True)
    print(f"\n{tried} programs to seed {seed}:", *(f"{n} {k}" for k, n in seen.items()), sep="\n  ")


if __name__ == "__main__":
    main()

"""The Metal target on its emulator: every op, module and fold and random programs, held against the interpreter.

    python tests/sweeps/metal_emulated.py                       # what does not agree
    python tests/sweeps/metal_emulated.py --only folds_f16 --seed 3
    python tests/sweeps/metal_emulated.py --kept results.jsonl --write docs/metal_emulated.md

Programs are built many at a time, each such project runs in a process of its own: the emulator ends the process where a
kernel does what no GPU defines. Threads run in an order by `--seed`; 0 is theirs. Programs that `--kept` has of an
earlier run are not run again, and are in the page.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from random import Random

sys.path.insert(0, str(Path(__file__).parent.parent))

from folds import FEW, FOLDED, KEYS, POSITIONS
from folds import specs_of as specs_of_fold
from gradients import CASES, QUERIES
from gradients import specs_of as specs_of_gradient
from module_programs import module_programs
from random_programs import drawn
from shipped_programs import ship
from small_programs import SmallProgram
from test_cpu_ops import ROWS

from lumigen.dtype import DType, bf16, f16, f32, f64
from lumigen.target import parse_target

DTYPES = {"f32": f32, "f16": f16, "bf16": bf16}
TOGETHER = 160  # programs of a project, unless told
SECONDS = 2400  # of a project
RANDOM = 120
POINTS = tuple(
    {POSITIONS.name: n, KEYS.name: n + 7, FEW.name: min(n, 60), QUERIES.name: n} for n in (1, 2, 70)
)
# Held in 16 bits, it looks for a stored maximum among values that are computed again: equal in f32, as kernels compute
# them, but not in the interpreter's f64.
AGAIN = {"solve"}


def folds(dtype: DType) -> list[SmallProgram]:
    """Attention and its like, forward and backward."""
    each = [
        SmallProgram(name, f, tuple(specs_of_fold(name, dtype).items()), POINTS)
        for name, (f, *_) in FOLDED.items()
    ]
    return each + [
        SmallProgram(
            f"gradient_{name}", c.function, tuple(specs_of_gradient(c, dtype).items()), POINTS
        )
        for name, c in CASES.items()
    ]


def random(dtype: DType) -> list[SmallProgram]:
    return held([p.program(f"p{i}") for i, p in enumerate(drawn(RANDOM, seed=0))], dtype)


def each_kind(_: DType) -> list[SmallProgram]:
    """Of all kinds, to be held in any dtype; of two with a name the first."""
    found = [*ROWS, *module_programs(), *folds(f32), *random(f32)]
    return list({p.name: p for p in reversed(found)}.values())


def held(programs: Iterable[SmallProgram], dtype: DType) -> list[SmallProgram]:
    """Those that have f32 to be held in `dtype`."""
    if dtype is f32:
        return list(programs)
    sources = {p.name: (*p.graph.inputs, *p.graph.weights()) for p in programs}
    return [
        p for p in programs if p.name not in AGAIN and any(n.dtype is f32 for n in sources[p.name])
    ]


KINDS: dict[str, Callable[[DType], list[SmallProgram]]] = {
    "ops": lambda dtype: held(ROWS, dtype),
    "modules": lambda dtype: held(module_programs(), dtype),
    "folds": folds,
    "random": random,
}
SETS = {f"{kind}_{name}": (kind, dtype) for kind in KINDS for name, dtype in DTYPES.items()}
SAMPLED = {f"sample_{name}": (each_kind, dtype) for name, dtype in DTYPES.items()}


def needs_f64(p: SmallProgram) -> bool:
    """Whether it has numbers that Metal has not."""
    return any(n.dtype is f64 for n in p.graph.nodes())


def programs_of(name: str) -> list[SmallProgram]:
    kind, dtype = SETS[name]
    return KINDS[kind](dtype)


def sample(seed: str, count: int) -> Part:
    """Programs of all kinds, held in a dtype, which is drawn too; other ones by the seed."""
    draw = Random(seed)
    name = draw.choice(sorted(SAMPLED))
    make, dtype = SAMPLED[name]
    names = [
        p.name for p in draw.sample(make(dtype), 3 * count) if not needs_f64(p) and held([p], dtype)
    ]
    return Part(name, tuple(names[:count]))


@dataclass(frozen=True)
class Part:
    """Some programs of a set, which are one project."""

    of: str
    names: tuple[str, ...]


def parts(of: str, names: Sequence[str], together: int) -> list[Part]:
    """The programs in projects of as many each, which stand apart in the list: neighbours are alike."""
    count = -(-len(names) // together)
    return [Part(of, tuple(names[i::count])) for i in range(count)]


def run_here(part: Part, folder: Path) -> dict[str, str]:
    """What is wrong with which programs."""
    if part.of in SAMPLED:
        make, dtype = SAMPLED[part.of]
        all_of_them = make(dtype)
    else:
        all_of_them, (_, dtype) = programs_of(part.of), SETS[part.of]
    programs = [p for p in all_of_them if p.name in part.names]
    name = f"{part.of}_{part.names[0]}"[:40]
    shipped = ship(name, programs, parse_target("metal"), dtype, folder / name)
    return shipped.wrong()


def run(part: Part, seed: int) -> dict[str, str]:
    """The same in a process of its own; of one that is stopped, halves by themselves say which program it was."""
    command = [sys.executable, str(Path(__file__)), "--here", part.of, *part.names]
    env = {**os.environ, "LUMIGEN_EMULATOR_SEED": str(seed)}
    try:
        done = subprocess.run(
            command, env=env, capture_output=True, text=True, timeout=SECONDS, check=False
        )
    except subprocess.TimeoutExpired:
        return dict.fromkeys(part.names, f"not within {SECONDS} s")
    found = dict(line.split("\t", 1) for line in done.stdout.splitlines() if "\t" in line)
    if done.returncode != 0:
        if len(part.names) > 1:
            middle = len(part.names) // 2
            halves = part.names[:middle], part.names[middle:]
            return run(Part(part.of, halves[0]), seed) | run(Part(part.of, halves[1]), seed)
        said = (done.stderr.strip().splitlines() or ["it said nothing"])[-1]
        return dict.fromkeys(part.names, f"stopped: {said}")
    return found


Found = dict[
    str, dict[str, str]
]  # of each set the programs that ran, and what is wrong with them, if anything


def kept_in(file: Path | None) -> Found:
    """What was found of programs that were run before."""
    found: Found = {}
    if file is not None and file.is_file():
        for line in file.read_text(encoding="utf-8").splitlines():
            row = json.loads(line)
            found.setdefault(row["of"], {}).update(dict.fromkeys(row["names"], "") | row["wrong"])
    return found


def run_and_keep(part: Part, seed: int, file: Path | None) -> dict[str, str]:
    """As `run`, of all programs, and added to the file."""
    wrong = run(part, seed)
    print(f"{part.of}: {len(part.names)} programs, {len(wrong)} do not agree", flush=True)
    if file is not None:
        row = json.dumps({"of": part.of, "names": part.names, "wrong": wrong})
        with file.open("a", encoding="utf-8") as out:
            out.write(f"{row}\n")
    return dict.fromkeys(part.names, "") | wrong


HEAD = """# Small programs on the emulator of Metal

Each op of the language as its tests have it, each module, attention and its like with their gradients, and random
programs, compiled for `--target metal`, run on the [emulator](metal.md) with threads in the order of seed {seed}, and
held against the interpreter with the tolerances that the same programs have on other targets. The types are those in
which floats are held. `python tests/sweeps/metal_emulated.py --write docs/metal_emulated.md` makes this page,
and leaves rows of what it did not run. Programs that are of all and in no other column were not run.

| programs | held in | of all | agree | do not | need f64, which Metal has not | date |
| --- | --- | --- | --- | --- | --- | --- |
"""


def page(before: str, found: Found, seed: int) -> str:
    """The page with new rows for the sets that ran; rows and reasons of others stay."""
    rows = dict(re.findall(r"^(\| \w+ \| \w+ \|)(.*)$", before, re.MULTILINE))
    reasons = re.findall(r"^\* `(\w+)`, (.*)$", before, re.MULTILINE)
    reasons = [(name, text) for name, text in reasons if name not in found]
    for name, each in found.items():
        kind, dtype = SETS[name]
        programs = programs_of(name)
        doubles = sum(map(needs_f64, programs))
        wrong = {p: why for p, why in each.items() if why}
        numbers = (len(programs), len(each) - len(wrong), len(wrong), doubles, today())
        rows[f"| {kind} | {dtype.name} |"] = f" {' | '.join(map(str, numbers))} |"
        reasons += [(name, f"{p}: {why[:300]}") for p, why in sorted(wrong.items())]
    order = [f"| {kind} | {dtype.name} |" for kind, dtype in SETS.values()]
    text = HEAD.format(seed=seed) + "".join(f"{k}{rows[k]}\n" for k in order if k in rows)
    return text + "".join(f"\n* `{name}`, {why}" for name, why in reasons) + "\n" * bool(reasons)


def today() -> str:
    return str(datetime.now(UTC).date())


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", nargs="*", default=list(SETS), choices=SETS)
    parser.add_argument("--names", nargs="*", default=[])
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--together", type=int, default=TOGETHER, help="programs of a project")
    parser.add_argument("--write", type=Path)
    parser.add_argument("--kept", type=Path, help="a file of results, which grows")
    parser.add_argument("--here", nargs="*", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.here:
        of, *names = options.here
        with tempfile.TemporaryDirectory() as folder:
            for name, why in run_here(Part(of, tuple(names)), Path(folder)).items():
                print(f"{name}\t{' '.join(why.split())}")
        return 0
    known = kept_in(options.kept)
    found: Found = {of: known.get(of, {}) for of in options.only}
    every: list[Part] = []
    for of in options.only:
        every += parts(of, left(of, found[of], options.names), options.together)
    with ThreadPoolExecutor(options.jobs) as pool:
        ran = pool.map(partial(run_and_keep, seed=options.seed, file=options.kept), every)
        for part, results in zip(every, ran, strict=True):
            found[part.of] |= results
    wrong = [
        f"{of}, {name}: {why}" for of, each in found.items() for name, why in each.items() if why
    ]
    print("\n".join([*wrong, f"{len(wrong)} do not agree"]))
    if options.write:
        before = options.write.read_text(encoding="utf-8") if options.write.is_file() else ""
        options.write.write_text(page(before, found, options.seed), encoding="utf-8")
    return 1 if wrong else 0


def left(of: str, known: Mapping[str, str], names: Sequence[str]) -> list[str]:
    """Those of a set that are to be run: not known, and of `names` if there are any."""
    programs = [p for p in programs_of(of) if not needs_f64(p) and p.name not in known]
    return [p.name for p in programs if not names or p.name in names]


if __name__ == "__main__":
    sys.exit(main())

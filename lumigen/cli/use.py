"""Commands that use a project: `run`, `test`."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import click
import numpy as np

from lumigen.build import build_project
from lumigen.cli.opened import (
    Array,
    inputs_for,
    manifest_of,
    named_outputs,
    open_project,
)
from lumigen.cli.options import Assignment, example, json_option, quiet_option, run_options
from lumigen.cli.terminal import progress, result, result_json, say
from lumigen.errors import CompilerMissing, FileRefused, ProjectBuildFailed
from lumigen.files import whole_file
from lumigen.progress import Stages
from lumigen.target import HOST, TARGETS
from lumigen.toolchain import ctest

SHOWN = 1000  # the most values of an output that --json prints


@click.command(epilog=example(f"run digits-{HOST.name} --input x=x.npy --output probs.npz"))
@run_options
@click.option(
    "--input",
    "files",
    multiple=True,
    type=Assignment(),
    metavar="NAME=FILE.npy",
    help="The file of an input. Inputs without a file are random.",
)
@click.option(
    "--output",
    metavar="OUT.npz",
    help="A file for the outputs by name; a single output may also be a .npy file.",
)
@json_option
def run(
    directory: Path,
    entry: str | None,
    dims: dict[str, int] | None,
    threads: int,
    weights: str | None,
    files: tuple[tuple[str, str], ...],
    output: str | None,
    as_json: bool,
) -> None:
    """Run an entry of a built project."""
    project = open_project("run", directory)
    chosen = project.entry(entry)
    project.check_dims([chosen] if entry else project.entries, dims or {})
    if output:
        check_output(Path(output), len(chosen["outputs"]))
    arrays, notes = inputs_for(project, chosen, dict(files), dims or {})
    for note in notes:
        say(f"note: {note}")
    model = project.model(weights)
    with project.refusals():
        found = getattr(model.context(threads=threads), chosen["name"])(**arrays)
    outputs = named_outputs(chosen, found)
    if output:
        wide = widened(outputs)
        if exact := [name for name, a in wide.items() if a is not outputs[name]]:
            say(
                f"note: {', '.join(exact)} is saved as float32, exactly: numpy's files have no bfloat16"
            )
        save(Path(output), wide)
    if as_json:
        result_json({"entry": chosen["name"], "saved": output, "outputs": as_object(outputs)})
    else:
        result("\n".join(as_text(outputs)) + (f"\nsaved to {output}" if output else ""))


def widened(outputs: Mapping[str, Array]) -> dict[str, Array]:
    """The outputs as types that a file of numpy has: f32 for bf16."""
    return {
        name: a.astype(np.float32) if a.dtype.name == "bfloat16" else a
        for name, a in outputs.items()
    }


def check_output(path: Path, count: int) -> None:
    """Refuse a file that cannot hold so many outputs, before anything runs."""
    if path.suffix not in (".npz", ".npy"):
        why = f"outputs are saved as .npz or .npy, and it ends in {path.suffix or 'neither'}"
        remedy = "Name a file that ends in .npz."
    elif path.suffix == ".npy" and count != 1:
        why = f"a .npy file holds one array, and there are {count} outputs"
        remedy = "Name a file that ends in .npz."
    elif not path.parent.is_dir():
        why, remedy = f"there is no directory {path.parent}", "Make it first."
    else:
        return
    raise FileRefused(command="run", file=path, why=why, remedy=remedy)


def save(path: Path, outputs: Mapping[str, Array]) -> None:
    """The file, whole or not at all: an archive by name, or the only output as .npy."""
    with whole_file(path) as file:
        if path.suffix == ".npy":
            np.save(file, *outputs.values(), allow_pickle=False)
        else:
            np.savez(file, allow_pickle=False, **outputs)


def as_object(outputs: Mapping[str, Array]) -> dict[str, object]:
    """Outputs for programs; the values only of small ones."""
    return {
        name: {
            "dtype": a.dtype.name,
            "shape": list(a.shape),
            **({"values": a.tolist()} if a.size <= SHOWN else {}),
        }
        for name, a in outputs.items()
    }


def as_text(outputs: Mapping[str, Array]) -> list[str]:
    """Outputs for people: type, shape and the corners."""
    lines: list[str] = []
    with np.printoptions(threshold=40, edgeitems=3, precision=5, linewidth=100):
        for name, a in outputs.items():
            lines += [f"{name}: {a.dtype.name}[{', '.join(map(str, a.shape))}]", str(a)]
    return lines


@click.command(epilog=example(f"test digits-{HOST.name}"))
@click.argument("directory", metavar="DIR", type=click.Path(path_type=Path))
@click.option(
    "--jobs",
    default=1,
    show_default=True,
    type=click.IntRange(1),
    help="How many tests run at a time.",
)
@quiet_option
@json_option
def test(directory: Path, jobs: int, quiet: bool, as_json: bool) -> None:
    """Build and run the tests of a project.

    Exit code 0 means that no test failed. Tests that need a GPU or an instruction set which this machine lacks are
    skipped; the last line says how many.
    """
    manifest = manifest_of("test", directory)
    tool = ctest()
    if tool is None:
        remedy = "Install it with `pip install cmake`."
        raise CompilerMissing(tool="ctest", purpose="running tests", remedy=remedy)
    with progress(quiet=quiet) as listener:
        stages = Stages(listener)
        with stages.stage("build"):
            built = build_project(directory, tests=True, progress=stages.step)
    build = built.log.parent
    command = [tool, "--test-dir", str(build), "--output-on-failure", "-j", str(jobs)]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
    found = outcomes(done.stdout)
    skipped = sum(outcome == "skipped" for outcome in found.values())
    if as_json:
        passed = done.returncode == 0
        result_json({"passed": passed, "skipped": skipped, "tests": found})
    else:
        sys.stdout.write(done.stdout)
    if skipped:
        say(f"note: {about_skipped(skipped, len(found), str(manifest['target']))}")
    if done.returncode != 0:
        log = build / "Testing" / "Temporary" / "LastTest.log"
        output = "\n".join(line for line in done.stdout.splitlines() if line.strip())
        raise ProjectBuildFailed(step="test", code=done.returncode, output=output, log=log)


def about_skipped(skipped: int, count: int, target: str) -> str:
    """What is to be said of tests that did not run, and so are no success."""
    want = TARGETS[target].skipped
    return (
        f"{skipped} of {count} tests were skipped, as they need {want}; they prove nothing. "
        "The exit code is 0 if no test failed, even if all were skipped."
    )


def outcomes(text: str) -> dict[str, str]:
    """What ctest printed of each test: its name and passed, skipped or another word."""
    found = re.findall(r"Test +#\d+: (\S+) \.*\**([A-Za-z ]+?) +[\d.]+ sec", text)
    return {name: outcome.strip().lower() for name, outcome in found}

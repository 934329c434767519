"""A built project, opened so that its entries can be called: inputs, weights, outputs, refusals."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any, cast

import numpy as np
import numpy.typing as npt
from safetensors.numpy import save

from lumigen.build import load_module
from lumigen.cli.manifest import fault
from lumigen.directory import MANIFEST, read_manifest
from lumigen.dtype import DTYPES
from lumigen.errors import (
    BadInput,
    CallRefused,
    FileRefused,
    NotBuilt,
    UnknownEntry,
    UnknownOption,
)
from lumigen.missing import advice
from lumigen.model_weights import weights_path
from lumigen.weights import open_weights
from lumigen.weights.json_text import CONFIG

Array = npt.NDArray[Any]
Entry = Mapping[str, Any]  # as the manifest has it
NUMPY = {np.dtype(d.numpy).name: np.dtype(d.numpy) for d in DTYPES}
NO_NUMBER = (KeyError, ValueError, TypeError, SyntaxError, ArithmeticError, RecursionError)
INTERNAL = 11  # the status of the C interface that is our fault


def manifest_of(command: str, directory: Path) -> dict[str, Any]:
    """The manifest of an emitted project; refuses any other directory."""
    found = read_manifest(directory)
    if found is not None:
        if why := fault(found) or _fault_of_entries(found):
            remedy = "Restore the file, or compile the model again into an empty directory."
            raise FileRefused(command=command, file=directory / MANIFEST, why=why, remedy=remedy)
        return found
    file = directory / MANIFEST
    instead = "Name a directory that `lumigen compile` made."
    remedy = advice(directory, instead, lambda p: (p / MANIFEST).is_file())
    if (directory / CONFIG).is_file():
        remedy = f"What is in a checkpoint says `lumigen compile {directory} --explain`."
    if file.is_file():
        why = "it is damaged, or of another program"
        remedy = "Compile the model again into an empty directory."
        raise FileRefused(command=command, file=file, why=why, remedy=remedy)
    why = (
        "it holds no manifest.json of lumigen"
        if directory.is_dir()
        else "it is no directory"
        if directory.exists()
        else "there is no such directory"
    )
    raise FileRefused(command=command, file=directory, why=why, remedy=remedy)


def _fault_of_entries(manifest: Mapping[str, Any]) -> str:
    """What of the entries no type tells: names of dtypes, and numbers that can be computed."""
    if not manifest["entries"]:
        return "it has no entries"
    for entry in manifest["entries"]:
        sizes = {d["name"]: d["typical"] for d in entry["dims"]}
        for port in (*entry["inputs"], *entry["outputs"]):
            try:
                NUMPY[port["dtype"]]
                for e in port["shape"]:
                    extent(e, sizes)
                lo, hi = port.get("range") or (0, 1)
                _ = lo + hi + 1
            except NO_NUMBER:
                return f"its port {port['name']} has a type, a shape or a range that cannot be"
        for launch in entry["launches"]:
            try:
                for what in ("flops", "bytes_read", "bytes_written"):
                    extent(launch[what], sizes)
            except NO_NUMBER:
                return f"its launch of {launch['kernel']} has work that cannot be"
    return ""


@dataclass(frozen=True)
class Project:
    """An emitted and built project."""

    command: str
    directory: Path
    manifest: Mapping[str, Any]
    module: ModuleType

    @property
    def name(self) -> str:
        return str(self.manifest["model"])

    @property
    def entries(self) -> list[Entry]:
        return self.manifest["entries"]

    def entry(self, name: str | None) -> Entry:
        """The entry of that name; the first without one."""
        if name is None:
            return self.entries[0]
        for e in self.entries:
            if e["name"] == name:
                return e
        raise UnknownEntry(model=self.name, name=name, known=[e["name"] for e in self.entries])

    def check_dims(self, entries: Sequence[Entry], given: Mapping[str, int]) -> None:
        """Refuse sizes of dims that none of the entries has."""
        known = dict.fromkeys(str(d["name"]) for e in entries for d in e["dims"])
        if lacking := [name for name in given if name not in known]:
            option = f"dim {', '.join(lacking)} in {', '.join(e['name'] for e in entries)}"
            raise UnknownOption(command=self.command, name=option, known=list(known))

    @contextmanager
    def refusals(self) -> Generator[None]:
        """What the model refuses is the user's mistake, but for what it calls internal."""
        try:
            yield
        except self.module.Error as e:
            if getattr(e, "status", None) == INTERNAL:
                raise
            raise CallRefused(text=str(e)) from None

    def model(self, weights: str | None, *, may_be_random: bool = False) -> Any:
        """The model with its weights: of a file, of the directory, or random."""
        with self.refusals():
            if weights is not None:
                return self.module.Model(weights=self._source(weights))
            if self._has_weights() or not self.manifest["weights"]:
                return self.module.Model()
            if may_be_random:
                return self.module.Model(weights=self._random())
        raise FileRefused(
            command=self.command,
            file=weights_path(self.directory, self.name),
            why=f"it is not there, and {self.name} needs its weights",
            remedy="Pass --weights FILE, or pass it to `lumigen compile`.",
        )

    def _has_weights(self) -> bool:
        embedded = "src/embedded.cpp" in self.manifest["files"]
        return embedded or weights_path(self.directory, self.name).is_file()

    @property
    def uses_random_weights(self) -> bool:
        """Whether `model` without a file can only make weights up."""
        return bool(self.manifest["weights"]) and not self._has_weights()

    def _source(self, weights: str) -> str | bytes:
        """What the module opens itself, or any other file's tensors in that form."""
        path = Path(weights)
        if path.is_file() and path.suffix == ".safetensors":
            return str(path)
        opened = open_weights(path)
        return save({w["name"]: np.asarray(opened[w["name"]]) for w in self.manifest["weights"]})

    def _random(self) -> bytes:
        rng = np.random.default_rng(0)
        return save(
            {
                w["name"]: random_array(rng, NUMPY[w["dtype"]], tuple(w["shape"]), None, 0.05)
                for w in self.manifest["weights"]
            }
        )


def open_project(command: str, directory: Path) -> Project:
    """The project of a directory, its module loaded."""
    manifest = manifest_of(command, directory)
    try:
        return Project(command, directory, manifest, load_module(directory))
    except NotBuilt:
        raise NotBuilt(command=command, directory=directory) from None


# --- inputs ---------------------------------------------------------------------------------------


def inputs_for(
    project: Project,
    entry: Entry,
    files: Mapping[str, str],
    dims: Mapping[str, int],
) -> tuple[dict[str, Array], list[str]]:
    """The inputs of an entry by name, and what to note of them: rounded, or random for want of a file.

    `dims` may size those of other entries too.
    """
    known = [p["name"] for p in entry["inputs"]]
    for name in files:
        if name not in known:
            raise UnknownOption(command=project.command, name=f"input {name}", known=known)
    given = {name: read_array(project.command, Path(path)) for name, path in files.items()}
    notes: list[str] = []
    for port in entry["inputs"]:
        name = str(port["name"])
        if name in given:
            read = given[name]
            given[name] = fitted(read, NUMPY[port["dtype"]])
            if given[name].dtype != read.dtype and read.dtype.kind == "f":
                notes.append(
                    f"{files[name]} is {read.dtype}, rounded to {port['dtype']} for {name}"
                )
            _check_dtype(entry, port, given[name].dtype, files[name])
    sizes = sizes_of(entry, {**_sizes_in(entry, given), **dims})
    for port in entry["inputs"]:
        if port["name"] in given:
            _check_dims(entry, port, given[port["name"]].shape, sizes, dims)
    rng = np.random.default_rng(0)
    arrays: dict[str, Array] = {}
    made: list[str] = []
    for port in entry["inputs"]:
        name = str(port["name"])
        if name in given:
            arrays[name] = given[name]
            continue
        made.append(name)
        shape = tuple(extent(e, sizes) for e in port["shape"])
        arrays[name] = random_array(rng, NUMPY[port["dtype"]], shape, port.get("range"))
    if made:
        notes.append(f"random numbers for {', '.join(made)}")
    return arrays, notes


def sizes_of(entry: Entry, given: Mapping[str, int]) -> dict[str, int]:
    """The size of every dim of an entry: what is given, else what is typical."""
    return {d["name"]: given.get(d["name"], d["typical"]) for d in entry["dims"]}


def fitted(array: Array, dtype: np.dtype[Any]) -> Array:
    """The array of a file for an input of 16-bit floats, which hardly any file holds.

    Wider floats are rounded; elements of two bytes and no type are what numpy.save makes of bf16.
    """
    if dtype.name not in ("float16", "bfloat16"):
        return array
    if dtype.name == "bfloat16" and array.dtype == np.dtype("V2"):
        return array.view(dtype)
    if array.dtype.name not in ("float32", "float64"):
        return array
    with np.errstate(all="ignore"):  # what is too great becomes infinite
        return array.astype(dtype)


def _sizes_in(entry: Entry, given: Mapping[str, Array]) -> dict[str, int]:
    """The dims that stand bare in the shape of a given input."""
    names = {d["name"] for d in entry["dims"]}
    found: dict[str, int] = {}
    for port in entry["inputs"]:
        array = given.get(port["name"])
        if array is not None and array.ndim == len(port["shape"]):
            pairs = zip(port["shape"], array.shape, strict=True)
            found |= {str(e): size for e, size in pairs if e in names}
    return found


def _check_dtype(entry: Entry, port: Mapping[str, Any], found: np.dtype[Any], file: str) -> None:
    """Refuse an array of another type, with the call that converts the file: nothing is converted unasked."""
    wanted = NUMPY[port["dtype"]]
    if found == wanted:
        return
    name = "float32" if wanted.name == "bfloat16" else wanted.name  # numpy's files have no bfloat16
    raise BadInput(
        entry=entry["name"],
        name=f"{port['name']} in {file}",
        got=found.name,
        expected=wanted.name,
        remedy=f"Convert the file: np.save({file!r}, np.load({file!r}).astype(np.{name})).",
    )


def _check_dims(
    entry: Entry,
    port: Mapping[str, Any],
    shape: tuple[int, ...],
    sizes: Mapping[str, int],
    given: Mapping[str, int],
) -> None:
    """Refuse an array whose shape differs from what --dims says; any other the model refuses itself."""
    for e, size in zip(port["shape"], shape, strict=False):
        named = given.keys() & set(re.findall(r"\w+", str(e)))
        if named and len(shape) == len(port["shape"]) and size != extent(e, sizes):
            said = ",".join(f"{name}={given[name]}" for name in sorted(named))
            raise BadInput(
                entry=entry["name"],
                name=port["name"],
                got=f"of size {size} in {e}",
                expected=f"of size {extent(e, sizes)} there, as --dims {said} says",
                remedy="Leave that dim out of --dims, or pass another file.",
            )


def read_array(command: str, path: Path) -> Array:
    """The array of a .npy file."""
    remedy = "Pass a file that numpy.save wrote."
    if not path.is_file():
        why = "it is no regular file" if path.exists() else "there is no such file"
        remedy = remedy if path.exists() else advice(path, remedy)
        raise FileRefused(command=command, file=path, why=why, remedy=remedy)
    try:
        found = np.load(path, allow_pickle=False)
    except OSError:
        raise
    except Exception:  # noqa: BLE001  # numpy parses a header as Python, which may raise anything
        why = "it is no .npy file of numbers"
        raise FileRefused(command=command, file=path, why=why, remedy=remedy) from None
    if not isinstance(found, np.ndarray):
        found.close()
        why = "it is an archive of arrays, as numpy.savez writes"
        raise FileRefused(command=command, file=path, why=why, remedy=remedy)
    return cast("Array", found)


def random_array(
    rng: np.random.Generator,
    dtype: np.dtype[Any],
    shape: tuple[int, ...],
    bounds: tuple[int, int] | None,
    scale: float = 1.0,
) -> Array:
    """Normal floats; integers in their range, 0 and 1 without one."""
    if dtype.kind == "b":
        return rng.integers(0, 2, shape).astype(dtype)
    if dtype.kind in "iu":
        lo, hi = bounds or (0, 1)
        return rng.integers(lo, hi, shape, endpoint=True).astype(dtype)
    return (rng.standard_normal(shape, np.float32) * scale).astype(dtype)


_OPERATORS: dict[type[ast.operator], Callable[[int, int], int]] = {
    ast.Add: lambda a, b: a + b,
    ast.Sub: lambda a, b: a - b,
    ast.Mult: lambda a, b: a * b,
    ast.FloorDiv: lambda a, b: a // b,
    ast.Mod: lambda a, b: a % b,
}


def extent(text: int | str, dims: Mapping[str, int]) -> int:
    """The value of an extent as the manifest has it, such as `2*batch + 1`."""
    return text if isinstance(text, int) else _evaluated(ast.parse(text, mode="eval").body, dims)


def _evaluated(e: ast.expr, dims: Mapping[str, int]) -> int:
    match e:
        case ast.Constant(value=int(value)):
            return value
        case ast.Name(id=name):
            return dims[name]
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return -_evaluated(operand, dims)
        case ast.BinOp(left=left, op=op, right=right):
            return _OPERATORS[type(op)](_evaluated(left, dims), _evaluated(right, dims))
        case ast.Call(func=ast.Name(id="min" | "max" as name), args=args):
            values = [_evaluated(a, dims) for a in args]
            return min(values) if name == "min" else max(values)
        case _:
            raise ValueError(f"{ast.unparse(e)} is no extent")


# --- outputs --------------------------------------------------------------------------------------


def named_outputs(entry: Entry, found: Any) -> dict[str, Array]:
    """What a call of an entry gives, by name."""
    names = [str(p["name"]) for p in entry["outputs"]]
    values = (found,) if len(names) == 1 else tuple(found)
    return dict(zip(names, map(np.asarray, values), strict=True))

"""Reading a user's model.py: a module of its own, its model found or built, its mistakes told.

Promises that whatever goes wrong in the file is an error that names a line of it, without a
traceback; and that nothing of it is left for the next file.
"""

from __future__ import annotations

import builtins
import contextlib
import importlib.util
import inspect
import io
import os
import sys
import types
import typing
from collections.abc import Callable, Generator, Mapping
from pathlib import Path
from typing import Any, Literal, TextIO

from lumigen.dtype import BY_NAME, DType
from lumigen.errors import (
    BadArgument,
    LumigenError,
    ModelFileError,
    SourceLocation,
    UnknownOption,
    first_line,
)
from lumigen.frontend.misuse import explained
from lumigen.frontend.model import Model
from lumigen.frontend.nn.module import spelled
from lumigen.missing import advice
from lumigen.weights import Weights

Options = Mapping[str, Any]
WEIGHTS = (".safetensors", ".gguf", ".npz", ".pt", ".pth", ".bin", ".json")
STREAMS = ("stdin", "stdout", "stderr")
MODULE = "lumigen_model_file"  # no module of ours: its lines are the user's


def load_model_file(
    path: str | Path,
    name: str | None = None,
    weights: Weights | None = None,
    options: Options | None = None,
) -> Model:
    """The model of a file, traced: `name` in it, else `model`, else of `build(weights, **options)`.

    Options are texts (or values) by name, parsed by the annotations of `build`; UnknownOption for
    one that it does not take. ModelFileError where there is no model, where options are given and
    there is no function to take them, or where the file raises.
    """
    file = Path(os.path.realpath(path))
    if file.is_dir():
        files = sorted(p.name for p in file.glob("*.py"))[:3]
        remedy = f"Name a Python file in it{': ' if files else '.'}{', '.join(files)}"
        raise _error(path, "it is a directory", remedy.rstrip(".") + ".")
    if file.exists() and file.suffix in WEIGHTS:
        remedy = "Name the Python file of the model, and these weights with --weights."
        if file.suffix in (".pt", ".pth"):
            remedy += " A module is compiled as a .pt2, which torch.export.save writes, or by lg.from_torch."
        raise _error(path, f"a {file.suffix} file holds no model", remedy)
    if file.exists() and file.suffix == ".onnx":
        raise _error(path, "it is a file of ONNX", "Pass it to lg.from_onnx.")
    if file.exists() and file.suffix != ".py":
        why = f"it ends in {file.suffix or 'nothing'}, and Python files end in .py"
        raise _error(path, why, "Name a Python file that defines a model.")
    if not file.is_file():
        remedy = advice(Path(path), "Name a Python file that defines a model.", _is_model)
        raise _error(path, "there is no such file", remedy)
    with _reporting(file), _unharmed(file), _alone(file):
        found = _find(file, _execute(file), name)
        model = (
            _build(file, found, weights, options or {}) if not isinstance(found, Model) else found
        )
        if isinstance(found, Model) and options:
            key = next(iter(options))
            why = f"{name or 'model'} is an lg.Model and no function such as build(), so it takes no option {key}"
            remedy = (
                f"Leave {key} out, or define build(weights=None, {key}=...) that returns the model."
            )
            raise _error(path, why, remedy)
        model.trace()
    return model


def _is_model(file: Path) -> bool:
    return file.is_file() and file.suffix in (".py", ".onnx", ".pt2")


def _execute(file: Path) -> types.ModuleType:
    """The file as a fresh module."""
    found = importlib.util.spec_from_file_location(MODULE, file)
    assert found is not None
    assert found.loader is not None
    module = importlib.util.module_from_spec(found)
    sys.modules[MODULE] = module  # dataclasses look their module up
    found.loader.exec_module(module)
    return module


@contextlib.contextmanager
def _alone(file: Path) -> Generator[None]:
    """The file's directory leads sys.path; modules from there are forgotten afterwards."""
    folder = str(file.parent)
    before, path, bytecode = set(sys.modules), list(sys.path), sys.dont_write_bytecode
    sys.path.insert(0, folder)
    sys.dont_write_bytecode = True
    try:
        yield
    finally:
        sys.path[:] = path
        sys.dont_write_bytecode = bytecode
        for key in set(sys.modules) - before:
            origin = getattr(sys.modules[key], "__file__", None)
            if key == MODULE or (origin and Path(origin).is_relative_to(folder)):
                del sys.modules[key]


@contextlib.contextmanager
def _unharmed(file: Path) -> Generator[None]:
    """What the file changes of Python itself is put back, before anything of ours needs it, and refused."""
    kept, streams = dict(builtins.__dict__), (sys.stdin, sys.stdout, sys.stderr)
    were_open = [_is_open(s) for s in streams]
    try:
        yield
    finally:
        now = builtins.__dict__
        changed = [n for n, value in kept.items() if n != "_" and now.get(n) is not value]
        now.update(kept)
        sys.stdin, sys.stdout, sys.stderr = streams
        closed = [
            name
            for name, stream, was_open in zip(STREAMS, streams, were_open, strict=True)
            if was_open and not _is_open(stream)
        ]
        for name in closed:
            setattr(sys, name, open(os.devnull, "r" if name == "stdin" else "w"))  # noqa: PTH123, SIM115
        if changed or closed:
            did = f"it replaced {changed[0]}() of Python" if changed else f"it closed {closed[0]}"
            raise _error(file, did, "Leave it as it is: the rest of the program needs it.")


def _is_open(stream: TextIO | None) -> bool:
    """Whether a stream can be used, and the file that it stands for is there."""
    if stream is None or stream.closed:
        return False
    try:
        os.fstat(stream.fileno())
    except (io.UnsupportedOperation, AttributeError):  # one in memory
        return True
    except OSError:
        return False
    return True


@contextlib.contextmanager
def _reporting(file: Path) -> Generator[None]:
    """Any exception but ours as a ModelFileError that names the user's innermost line."""
    try:
        with explained():
            yield
    except LumigenError:
        raise
    except SyntaxError as e:
        where = SourceLocation(e.filename or str(file), e.lineno or 1)
        remedy = "Correct the line."
        raise _error(file, f"it is not valid Python: {e.msg}", remedy, where) from None
    except KeyboardInterrupt:
        raise
    except BaseException as e:  # noqa: BLE001  # a user's file may raise anything
        text = first_line(e)[:300]
        said, _, remedy = text.rpartition(". ")
        if not remedy.startswith("Did you mean"):
            said, remedy = text, _instead(e) or "Correct the line."
        why = f"it raised {type(e).__name__}" + (f": {said.rstrip('.')}" if said else "")
        raise _error(file, why, remedy, _place(file, e)) from None


FRAMEWORKS = ("torch", "tensorflow", "keras", "jax", "flax", "mlx")


def _instead(error: BaseException) -> str:
    """What to do about a module that is not there; nothing about any other error."""
    if not isinstance(error, ModuleNotFoundError) or not error.name:
        return ""
    if error.name.partition(".")[0] in FRAMEWORKS:
        return (
            "A model is written with lumigen's own modules, by PyTorch's names: import lumigen as lg, "
            "from lumigen import nn, from lumigen import functional as F."
        )
    return f"Correct the name, or install it for {sys.executable}."


def _place(file: Path, error: BaseException) -> SourceLocation | None:
    """The innermost line of the traceback that lies in the file's directory."""
    found = None
    trace = error.__traceback__
    while trace is not None:
        code = trace.tb_frame.f_code
        inside = Path(code.co_filename)
        if inside == file or (
            inside.is_relative_to(file.parent) and "site-packages" not in inside.parts
        ):
            found = SourceLocation(code.co_filename, trace.tb_lineno, code.co_name)
        trace = trace.tb_next
    return found


def _error(
    path: str | Path, why: str, remedy: str, where: SourceLocation | None = None
) -> ModelFileError:
    shown = Path(path).name if where and where.file == str(path) else str(path)  # once is enough
    return ModelFileError(file=shown, why=why.rstrip("."), remedy=remedy, where=where)


def _find(file: Path, module: types.ModuleType, name: str | None) -> Model | Callable[..., Any]:
    names = [name] if name else ["model", "build"]
    for key in names:
        found = getattr(module, key, None)
        if hasattr(found, "state_dict") and not inspect.isclass(found):
            why = f"{key} is of type {spelled(found)}, and no lg.Model"
            remedy = 'Pass modules of lumigen.nn to lg.Model("name", net), and declare an entry.'
            raise _error(file, why, remedy)
        if isinstance(found, Model) or (found is not None and callable(found)):
            return found
    others = [k for k, v in vars(module).items() if isinstance(v, Model)]
    if name:
        there = f"; there is {', '.join(others)}" if others else ""
        why = f"it defines no model or function {name}{there}"
        raise _error(file, why, "Correct the name after the colon.")
    remedy = "Assign model = lg.Model(...), or define build(weights, **options) that returns one."
    if others:
        remedy = f"Name one of them, as in {file.name}:{others[0]}."
    raise _error(file, "it defines neither model nor build()", remedy)


def _build(
    file: Path, function: Callable[..., Any], weights: Weights | None, options: Options
) -> Model:
    """function(weights, **options), the options parsed by its annotations, or by the defaults of those without."""
    signature = inspect.signature(function)
    parameters = list(signature.parameters.values())
    args: list[Any] = []
    if parameters and parameters[0].kind in (
        inspect.Parameter.POSITIONAL_ONLY,
        inspect.Parameter.POSITIONAL_OR_KEYWORD,
    ):
        first = parameters.pop(0)
        if weights is None and first.default is first.empty:
            why = f"{function.__name__}() takes its configuration from a weights file"
            raise _error(file, why, "Pass the file with --weights.")
        args.append(weights)
    hints = typing.get_type_hints(function)
    named = [p for p in parameters if p.kind is not p.VAR_KEYWORD]
    known = {p.name: hints.get(p.name, _of_default(p.default)) for p in named}
    for key in options:
        if key not in known:
            raise UnknownOption(command="model", name=f"option {key}", known=sorted(known))
    for p in parameters:
        if p.name in known and p.default is p.empty and p.name not in options:
            raise BadArgument(
                op="model",
                name=f"option {p.name}",
                value="left out",
                expected=f"--set {p.name}=VALUE",
            )
    parsed = {key: parse_option(key, value, known[key]) for key, value in options.items()}
    model = function(*args, **parsed)
    if not isinstance(model, Model):
        why = f"{function.__name__}() returned a {type(model).__name__}"
        raise _error(file, why, "Return the lg.Model.")
    return model


# --- options --------------------------------------------------------------------------------------


def _of_default(value: object) -> type:
    """What an option without an annotation is parsed as."""
    return type(value) if isinstance(value, bool | int | float) else str


_TRUE = ("true", "1", "yes", "on")
_FALSE = ("false", "0", "no", "off")


def parse_option(name: str, value: Any, wanted: Any) -> Any:
    """The value of a text as the annotation asks; a value that is no text stays as it is."""
    if not isinstance(value, str):
        return value
    for choice in _choices(wanted):
        try:
            return _parsed(value, choice)
        except (ValueError, KeyError):
            continue
    raise BadArgument(
        op="model", name=f"option {name}", value=repr(value), expected=_described(wanted)
    )


def _choices(wanted: Any) -> tuple[Any, ...]:
    if typing.get_origin(wanted) in (typing.Union, types.UnionType):
        return typing.get_args(wanted)
    return (wanted,)


def _parsed(text: str, wanted: Any) -> Any:
    if wanted is bool:
        return {**dict.fromkeys(_TRUE, True), **dict.fromkeys(_FALSE, False)}[text.lower()]
    if wanted is type(None):
        return {"none": None, "": None}[text.lower()]
    if wanted is DType:
        return BY_NAME[text]
    if typing.get_origin(wanted) is Literal:
        return {str(c): c for c in typing.get_args(wanted)}[text]
    if wanted in (int, float, str, Path):
        return wanted(text)
    if wanted is Any or wanted is inspect.Parameter.empty:
        return text
    raise ValueError(text)


def _described(wanted: Any) -> str:
    phrases = {int: "an integer", float: "a number", bool: "true or false", type(None): "none"}
    phrases |= {DType: f"one of {', '.join(BY_NAME)}", str: "a text", Path: "a path"}
    parts: list[str] = []
    for choice in _choices(wanted):
        if typing.get_origin(choice) is Literal:
            parts.append("one of " + ", ".join(map(str, typing.get_args(choice))))
        else:
            parts.append(phrases.get(choice, str(choice)))
    return " or ".join(parts)

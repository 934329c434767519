"""Every error that lumigen raises on purpose: one class a mistake, its text a class attribute.

Promises that a text names the place, says what is wrong with the values in it, and says what to do;
that a raise site which forgets or misspells a fact fails at once; and that errors survive
pickling.
"""

from __future__ import annotations

import functools
import os
import string
import sys
import sysconfig
import threading
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import ClassVar

MAX_LISTED = 8  # a longer list of names is cut: an error is at most eight lines
MAX_LINES = 5  # of another program's output quoted in an error
OF_LINES = frozenset({"output", "text"})  # facts that may be texts of many lines


@dataclass(frozen=True)
class SourceLocation:
    """A line of somebody's source file; `function` is the name of the code object it stands in."""

    file: str
    line: int
    function: str = ""

    @property
    def spot(self) -> str:
        """Where in the file, as comments of emitted code name it."""
        return str(self.line)

    def __str__(self) -> str:
        """`file:line`, the file relative to the working directory where it lies below it."""
        here = f"{Path.cwd()}{os.sep}"
        return f"{self.file.removeprefix(here)}:{self.line}"


class LumigenError(Exception):
    """The root. Only classes with a `message` of their own are raised.

    `message` is a template `[where] what is wrong, with the values. What to do.`; its fields are
    the facts that the constructor takes by keyword. `where` is the user's line, shown as
    `file:line:` in front, with the path of the `layer` that runs it where there is one. Facts are
    shown by kind: a tuple is a shape, `(batch, 784)`; a list or a set is an enumeration, `a, b, c`;
    of `output` and `text` the last few lines are kept; everything else is shown by `str`. Names may
    be a stranger's: control characters are shown as escapes.
    """

    exit_code: ClassVar[int]
    message: ClassVar[str]
    advice: ClassVar[str] = ""  # a further sentence that a whole family of errors ends with

    def __init__(
        self, *, where: SourceLocation | None = None, layer: str = "", **facts: object
    ) -> None:
        name = type(self).__name__
        if not hasattr(type(self), "message"):
            raise TypeError(f"{name} is a family of errors. Raise one of its subclasses.")
        wanted = fields(type(self))
        if facts.keys() != wanted:
            missing = _shown(sorted(wanted - facts.keys()))
            unknown = _shown(sorted(facts.keys() - wanted))
            raise TypeError(
                f"{name} takes {_shown(sorted(wanted))}; missing: {missing}, unknown: {unknown}."
            )
        self.where, self.layer = where, layer
        self.facts: Mapping[str, object] = MappingProxyType(facts)
        super().__init__(self._render())

    def _render(self) -> str:
        text = self.message.format_map(
            {
                name: _lines(value) if name in OF_LINES else _shown(value)
                for name, value in self.facts.items()
            }
        )
        layer = f" (layer {self.layer})" if self.layer else ""
        place = f"{self.where}{layer}: " if self.where else ""
        return f"{place}{text}{' ' if self.advice else ''}{self.advice}"

    def __reduce__(self) -> tuple[object, ...]:
        made_with = (type(self), self.where, self.layer, dict(self.facts))
        more = {k: v for k, v in vars(self).items() if k not in {"where", "layer", "facts"}}
        return (_restore, made_with, more) if more else (_restore, made_with)


class UserError(LumigenError):
    """Something the user can put right: one clear message, no traceback."""

    exit_code = 1


class InternalError(LumigenError):
    """Something only we can put right; it says so, and how to report it."""

    exit_code = 70
    advice = (
        "This is a bug in lumigen, not in your model. Please report it as CONTRIBUTING.md says, "
        "with this text, the command and the output of `lumigen doctor`, "
        "and attach the stages that LUMIGEN_DUMP=DIR writes."
    )


# --- shapes, types and arguments, found while tracing ---------------------------------------------


class ShapeMismatch(UserError):
    """`rule` says what must hold, as a clause; `remedy` is a sentence."""

    message = "[{op}] shapes {lhs} and {rhs} do not fit together: {rule}. {remedy}"


class RankMismatch(UserError):
    """`name` is the operand, `expected` the wanted form, such as `2 axes (rows, columns)`."""

    message = "[{op}] {name} has shape {shape}, must have {expected}. {remedy}"


class DtypeMismatch(UserError):
    """`name` is the operand; `got` and `expected` are dtypes or phrases such as `a float type`."""

    message = "[{op}] {name} is {got}, must be {expected}. {remedy}"


class BadAxis(UserError):
    """`axis` is one axis or the list of them; out of range, or named twice."""

    message = (
        "[{op}] axis {axis} does not name one axis of shape {shape}. "
        "Count axes from 0, or back from -1, and name each at most once."
    )


class BadReshape(UserError):
    """`why` is a clause, such as `6 elements cannot fill 8`."""

    message = (
        "[{op}] shape {shape} cannot become {target}: {why}. "
        "Keep the number of elements, and split an axis only by a factor that always divides it."
    )


class BadArgument(UserError):
    """`expected` completes `Pass ...`, such as `a number from 0 to 1`."""

    message = "[{op}] {name} cannot be {value}. Pass {expected}."


class NoGreatestSize(BadArgument):
    """Of dims of a program; `least` has the least size of each."""

    least: Mapping[str, int]


class BadSize(UserError, TypeError):
    """What is no size, or a size where a number is needed; `why` is a clause, `remedy` a sentence.

    Python's own protocols, such as `range`, ask for a TypeError.
    """

    message = "[size] {size} {why}. {remedy}"


# --- dims -----------------------------------------------------------------------------------------


class UnknownDim(UserError):
    """A dim is named that no spec declares."""

    message = (
        "[{entry}] there is no dim {name}; there are: {known}. "
        "Correct the name, or declare it with Dim(name, min, max) in a spec."
    )


class DimSpecialised(UserError):
    """`declared` is the dim's range and `needed` what the operation would force it to be."""

    message = (
        "[{op}] dim {dim} is declared as {declared}, but here it would have to be {needed}. "
        "Write this step so that it works for every value, write a separate entry for the sizes that "
        "differ, or use a fixed size instead of the Dim."
    )


class SizeSpecialised(DimSpecialised):
    """The same of a model that the user did not write; `option` is the size's name in the file."""

    message = (
        "[{op}] dim {dim} would have to be {needed} here. "
        "Give it one number, or a range of which that is true: --dim {option}=LEAST..GREATEST, "
        "or LEAST..GREATEST:STEP for the multiples of STEP."
    )


class DimConflict(UserError):
    """Two declarations of one name differ; both are shown."""

    message = (
        "[Dim] {dim} is declared as {first} and as {second}. "
        "A name stands for one dim with one range: "
        "share one Dim object, or rename one of the two."
    )


# --- weights --------------------------------------------------------------------------------------


class UnknownWeight(UserError):
    """`close` lists the most similar names in the file, `remedy` is a sentence."""

    message = "[weights] {file} has no tensor {name}; the closest names are: {close}. {remedy}"


class WeightMismatch(UserError):
    """`got` and `expected` are dtype and shape, as in `f32[256, 784]`; `remedy` is a sentence."""

    message = "[weights] {name} in {file} is {got}, but the model declares {expected}. {remedy}"


class WeightOverflow(UserError):
    """`value` is the weight's greatest number, `greatest` the dtype's."""

    message = (
        "[weights] {name} in {file} has {value}, but the greatest number of {dtype} is {greatest}. "
        "Compile with --dtype bf16 or --dtype f32, or scale the weight."
    )


class StateMismatch(UserError):
    """What `load_state_dict` is given and the module has: names, shapes or types as phrases; `remedy` is a sentence."""

    message = (
        "[load_state_dict] the given state does not fit {module}; missing: {missing}; unexpected: "
        "{unexpected}; of another shape or type: {unlike}. {remedy}"
    )


class BadWeightsFile(UserError):
    """The file is missing, truncated, untrue or of no kind we know; `why` is a clause, `remedy` a sentence."""

    message = "[weights] {file} cannot be used: {why}. {remedy}"


class NotComputed(BadWeightsFile):
    """A configuration asks for what this model does not compute, which another one may."""

    message = BadWeightsFile.message


# --- models of other programs ---------------------------------------------------------------------


class PackageMissing(UserError):
    """A model is read with a package that is not installed; the extra that installs it has its name."""

    message = "[{op}] it needs the package {package}, which is not there. Run pip install 'lumigen[{package}]'."


class BadCheckpoint(UserError):
    """A directory of Hugging Face is not what it says, or not what is read; `why` is a clause, `remedy` a sentence."""

    message = "[checkpoint] {directory} cannot be used: {why}. {remedy}"


class BadOnnxFile(UserError):
    """The file is missing, truncated, untrue or too large; `why` is a clause, `remedy` a sentence."""

    message = "[onnx] {file} cannot be used: {why}. {remedy}"


class UnsupportedNode(UserError):
    """A node that no static program computes; `why` is a clause, `remedy` a sentence."""

    message = "[{op}] this node cannot be compiled: {why}. {remedy}"


class NotConstant(UserError):
    """A node's operand decides shapes or what is run, and depends on inputs or sizes; `inputs` lists them."""

    message = (
        "[{op}] {name} must be known when the model is compiled, but it depends on: {inputs}. "
        "Give it its value, as {example} does, or export the model with constants there."
    )


class DimsWithoutRange(UserError):
    """Symbolic sizes of inputs that nobody has given; `dims` lists them, `example` how to give them."""

    message = (
        "[onnx] {file} has sizes without a range: {dims}. Give each a range or a number: {example}."
    )


class ProblemsInModel(UserError):
    """What `--explain` has found, already printed."""

    message = "[explain] {file} cannot be compiled as it is. Remove each reason of the list above ({count} in all)."


class RangesMissing(UserError):
    """What `--explain` says of a model that lacks nothing but ranges of sizes; `example` is how to give them."""

    message = (
        "[explain] {file} can be compiled once its sizes have ranges, and has no other problem. "
        "Give each a range or a number: {example}."
    )


class OriginalFailed(UserError):
    """What an imported model is compared with does not run on the inputs of the comparison; `why` is its error."""

    message = (
        "[check] the original of {model} ends with {why}. "
        "That says nothing of what is compiled: leave --check out, and compare on inputs of your own."
    )


class NotExported(UserError):
    """PyTorch cannot export a module; `why` is what it says, in short, and `remedy` a sentence."""

    message = "[from_torch] PyTorch cannot export {model}: {why}. {remedy}"


class NotImported(UserError):
    """What of another framework's model is not compiled, a line of `text` for each; `remedy` is a sentence."""

    message = "[{op}] {count} of {model} cannot be compiled:\n{text}\n{remedy}"


# --- the command line and the file system ---------------------------------------------------------


class ModelFileError(UserError):
    """The file is not there, has no model, or raised; `why` is a clause, `remedy` a sentence."""

    message = "[model] {file}: {why}. {remedy}"


class BadCall(UserError):
    """Arguments that a function of ours does not take, or lacks; `why` is Python's clause, `call` how it is called."""

    message = "[{op}] it {why}. Call it as {call}."


class UnknownOption(UserError):
    """A `--set` key, an option of a function, a dim or an input that nobody takes; `name` says which of them it is."""

    message = (
        "[{command}] there is no {name}; there are: {known}. Correct the name, or leave it out."
    )


class NotADirectory(UserError):
    """The output directory is a file."""

    message = (
        "[compile] {directory} is a file, and a project is a directory. "
        "Name another place with -o, or move the file away."
    )


class DirectoryNotOurs(UserError):
    """The output directory holds somebody's files."""

    message = (
        "[compile] {directory} is not empty and has no complete manifest.json of lumigen, "
        "so lumigen does not overwrite it. "
        "Choose another directory with -o, or empty this one yourself."
    )


class AnotherSource(UserError):
    """The output directory holds the project of a model that was imported from elsewhere."""

    message = (
        "[compile] {directory} holds the project of {before}, and this one is of {source}. "
        "Name another directory with -o, or pass --force (force=True) to replace it."
    )


class EditedFiles(UserError):
    """Emitted files were edited afterwards; `files` lists them."""

    message = (
        "[compile] these files in {directory} were edited after they were emitted: {files}. "
        "Move your changes elsewhere, or pass --force (force=True) to overwrite them."
    )


class NotAsEmitted(UserError):
    """A project differs from what was emitted, or its weights are another model's; `what` lists how."""

    message = (
        "[inspect] {directory} differs from what was emitted: {what}. "
        "Restore the files, or compile the model again: with --force if they were edited, "
        "with --weights FILE if its weights do not fit."
    )


class CompilerMissing(UserError):
    """`purpose` says what needs the tool; `remedy` is a sentence."""

    message = (
        "[build] {tool} was not found, and {purpose} needs it. {remedy} "
        "`lumigen doctor` lists every tool."
    )


class LimitsUnknown(UserError):
    """What a GPU can do at most cannot be measured; `why` is a clause, `remedy` a sentence."""

    message = "[bench] the limits of the GPU cannot be measured: {why}. {remedy}"


class BuildFailed(UserError):
    """`step` is configure, compile or test; `output` is what it printed."""

    message = (
        "[build] the {step} step stopped with exit code {code}:\n{output}\n"
        "Run `lumigen doctor` to check the tools."
    )


class ProjectBuildFailed(BuildFailed):
    """The same of a project, whose directory keeps a file with all that was printed, `log`."""

    message = (
        "[build] the {step} step stopped with exit code {code}:\n{output}\n"
        "The whole output is in {log}; `lumigen doctor` checks the tools."
    )


class NotBuilt(UserError):
    """A command needs the library of a directory that was only emitted."""

    message = (
        "[{command}] {directory} has no built Python module. "
        "Run the same `lumigen compile` without --no-build; `lumigen test` builds what it needs."
    )


class FileRefused(UserError):
    """What a command would read or write; `why` is a clause, `remedy` a sentence."""

    message = "[{command}] {file} cannot be used: {why}. {remedy}"


class BadPass(UserError):
    """A pass of the user's own gives what is no graph, or breaks a rule of graphs; `what` is a clause."""

    message = (
        "[{name}] the pass does not give what the next one can take: {what}. "
        "Correct the pass; lg.ir.verify tells the rules of a graph, lg.ir.show its text."
    )


class CallRefused(UserError):
    """A built model refuses a call; `text` is its own message, a fact and a remedy."""

    message = "{text}"


class BadInput(UserError):
    """What was passed to an entry breaks its contract."""

    message = "[{entry}] {name} is {got}, must be {expected}. {remedy}"


class UnknownEntry(UserError):
    """`model` has no entry of this name."""

    message = "[{model}] there is no entry {name}; there are: {known}. Name one of these."


class UnsupportedTarget(UserError):
    """The target does not exist, or cannot do what is asked; `why` is a clause."""

    message = "[target] {target} cannot be used: {why}. Choose one of: {known}."


class TooManyArguments(UserError):
    """A kernel takes more bytes of arguments than the target hands to a launch: 8 for each tensor and each size."""

    message = (
        "[compile] kernel {kernel} takes {bytes} bytes of arguments for its tensors and sizes, {target} takes at most "
        "{most}. Split the entry in two, or let fewer inputs meet in one expression."
    )


# --- bugs of ours ---------------------------------------------------------------------------------


class VerifyFailed(InternalError):
    """`after` is the pass whose result breaks a rule; `what` names the node and the rule."""

    message = "[{after}] the result does not verify: {what}."


class BadLaunch(InternalError):
    """The interpreter met a launch that its kernel cannot run as; `what` is a clause."""

    message = "[interp] a launch does not fit its kernel {kernel}: {what}."


class LoweringFailed(InternalError):
    """A pass met something it does not know; `what` names it."""

    message = "[{step}] there is no way to lower {what}."


class Unexpected(InternalError):
    """What nobody raised on purpose; `what` is the exception, `place` the line that raised it."""

    message = "[{command}] {what}, raised at {place}."


# --- how facts and places are found and shown -----------------------------------------------------


def fields(error: type[LumigenError]) -> frozenset[str]:
    """The facts that an error class takes: the fields of its message."""
    return frozenset(name for _, name, _, _ in string.Formatter().parse(error.message) if name)


def user_location(skip: int = 0) -> SourceLocation | None:
    """The innermost running line that is neither ours nor a library's; `skip` passes over so many.

    None where there is no such line, as in a command that has not reached the user's file yet.
    A place that `located` names goes before all lines.
    """
    if _LOCATED.places:
        return _LOCATED.places[-1]
    # inspect.stack() reads every source file on the way; this reads none
    frame = sys._getframe(1)  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]
    while frame is not None:
        code = frame.f_code
        if is_user_code(code.co_filename, frame.f_globals.get("__name__", "")):
            if skip == 0:
                return SourceLocation(code.co_filename, frame.f_lineno, code.co_name)
            skip -= 1
        frame = frame.f_back
    return None


class _Located(threading.local):
    """The places that are the user's line in a thread, the innermost last."""

    def __init__(self) -> None:
        self.places: list[SourceLocation | None] = []


_LOCATED = _Located()


@contextmanager
def located(place: SourceLocation | None) -> Generator[None]:
    """Inside, the user's line is this place: that of a model which is no Python that runs now."""
    _LOCATED.places.append(place)
    try:
        yield
    finally:
        _LOCATED.places.pop()


_OURS = str(Path(__file__).parent) + os.sep
_LIBRARY = sysconfig.get_paths()["stdlib"] + os.sep
_COMMANDS = (
    os.sep + "lumigen",
    os.sep + "lumigen-script.py",
)  # the console script is nobody's model


@functools.cache
def is_user_code(file: str, module: str) -> bool:
    """Whether a line of a file, run in a module, is neither ours nor a library's."""
    if module == "lumigen" or module.startswith(
        "lumigen."
    ):  # a method that dataclass wrote has no file
        return False
    if file.startswith((_OURS, _LIBRARY, "<frozen")) or file.endswith(_COMMANDS):
        return False
    return not any(place in file for place in ("site-packages", "dist-packages"))


def printable(text: str) -> str:
    r"""The text with what would steer a terminal, or leave its line, as escapes: `\x1b`, `\n`."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def as_word(name: str) -> str:
    r"""A name in a printed form: as it is, or quoted with escapes where it would leave its line.

    No two names look alike: one that begins like a quoted one is quoted too.
    """
    return name if name.isprintable() and name[:1] not in {"", "'", '"'} else repr(name)


def printable_lines(text: str) -> str:
    """Likewise, but for line feeds and tabs."""
    return "".join(c if c in "\n\t" else printable(c) for c in text)


def first_line(error: BaseException) -> str:
    """Of an exception's text; empty where it has none, or where its own `__str__` raises."""
    try:
        return next(iter(str(error).splitlines()), "")
    except Exception:  # noqa: BLE001  # a user's class may do anything
        return ""


def _shown(value: object) -> str:
    match value:
        case tuple():
            items: list[object] = list(value)  # pyright: ignore[reportUnknownArgumentType]
            texts = [printable(str(item)) for item in items]
            return f"({', '.join(texts)}{',' if len(texts) == 1 else ''})"
        case list() | set() | frozenset():
            names = [printable(str(item)) for item in value]  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]
            return listed(names if isinstance(value, list) else sorted(names))
        case _:
            return printable(str(value))


def _lines(value: object) -> str:
    return "\n".join(map(printable, str(value).rstrip().split("\n")[-MAX_LINES:]))


def listed(names: list[str], most: int = MAX_LISTED) -> str:
    """The first of the names, and how many more there are."""
    if not names:
        return "none"
    more = len(names) - most
    return ", ".join(names[:most]) + (f" and {more} more" if more > 0 else "")


def _restore(
    error: type[LumigenError], where: SourceLocation | None, layer: str, facts: dict[str, object]
) -> LumigenError:
    return error(where=where, layer=layer, **facts)

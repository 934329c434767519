"""checked: an archive of `torch.export.save`, read without running anything that is in it.

`torch.export.load` unpickles the example inputs and some weights, evaluates the text of sizes, looks operators up by
name, imports what a tree of inputs names, and writes names into Python code that it runs. Here it gets no bytes of a
pickle, and a program that is parsed and written anew: whatever is not known to be a name, a number, an operator or
arithmetic on sizes makes the archive one that has to be trusted.

Strings that are only kept are allowed: texts among the arguments of operators, and the lines of a user's source.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from importlib import import_module
from pathlib import Path
from typing import Any, cast

NAME = re.compile(r"[\w.@-]{0,512}")
OPERATOR = re.compile(
    r"torch\.ops\.(aten|prims|quantized_decomposed)\.(?!from_file)[A-Za-z]\w*(\.\w+)?"  # that one maps files
    r"|torch\.ops\.higher_order\.(cond|map_impl|scan|associative_scan|while_loop|wrap_with_\w+)"
    r"|_operator\.(getitem|add|sub|mul|floordiv|truediv|mod|neg|pow|eq|ne|lt|le|gt|ge|and_|or_|not_)"
    r"|math\.(ceil|floor|trunc|sqrt|pow)|torch\.sym_\w+"
)
# sizes are written as sympy does: Mul(Integer(2), Symbol('s77', positive=True, integer=True))
SIZE = re.compile(
    r"(?:Symbol\('[A-Za-z_]\w{0,63}'(?:, [a-z]+=(?:True|False)){0,8}\)|Integer\(-?\d{1,19}\)|"
    r"Rational\(-?\d{1,19}, \d{1,19}\)|"
    r"(?:Add|Mul|Pow|FloorDiv|ModularIndexing|PythonMod|Mod|CleanDiv|CeilToInt|FloorToInt|CeilDiv|IntTrueDiv|"
    r"FloatTrueDiv|TruncToInt|RoundToInt|ToFloat|Identity|Where|Max|Min|Abs|Equality|Unequality|StrictLessThan|"
    r"LessThan|StrictGreaterThan|GreaterThan|And|Or|Not)\(|true|false|[su]\d+|-?\d{1,19}|[), ])*+"
)
LONG_NUMBER = re.compile(r"\d{3}")
# what names a module to import, in a tree of inputs
IMPORTS = ("__enum__", "default_factory")
# of what is said of a node: the lines of the user's source
KEPT = ("stack_trace", "nn_module_stack")
PROGRAM = "model"  # as torch.export.save calls it
MOST_SIZE = 2048  # characters of the text of a size


class HasToBeTrusted(Exception):
    """What could run code; `str` is a clause."""


def read_checked(path: Path) -> Any:
    """The ExportedProgram; HasToBeTrusted where it has more than names, numbers and known operators."""
    try:  # no public reader takes parts
        package: Any = import_module("torch.export.pt2_archive._package")
        names: Any = import_module("torch.export.pt2_archive.constants")
        load, reader = package._load_exported_programs, package.PT2ArchiveReader  # noqa: SLF001
        handed_on: dict[str, Callable[[bytes], bytes]] = {
            names.ARCHIVE_FORMAT_PATH: bytes,
            names.ARCHIVE_VERSION_PATH: bytes,
            names.MODELS_FILENAME_FORMAT.format(PROGRAM): checked_program,
            names.WEIGHTS_CONFIG_FILENAME_FORMAT.format(PROGRAM): checked_payloads,
            names.CONSTANTS_CONFIG_FILENAME_FORMAT.format(PROGRAM): checked_payloads,
            names.SAMPLE_INPUTS_FILENAME_FORMAT.format(PROGRAM): lambda _: (
                b""
            ),  # then there are none
        }
    except (ImportError, AttributeError) as e:
        raise HasToBeTrusted("this PyTorch reads archives only by unpickling") from e

    class Reader(reader):
        """Gives no bytes of a pickle. What is not asked for here are tensors, which PyTorch maps."""

        def read_bytes(self, name: str) -> bytes:
            if name not in handed_on:
                raise HasToBeTrusted(f"its entry {name[:120]!r} is a pickle, or of another program")
            return handed_on[name](bytes(reader.read_bytes(self, name)))

    archive = Reader(str(path))
    programs = load(archive, archive.get_file_names(), None)
    if PROGRAM not in programs:
        raise ValueError(f"it has no program of the name {PROGRAM}")
    return programs[PROGRAM]


def checked_payloads(data: bytes) -> bytes:
    """What is said of the files of tensors. Written anew, so that no reader of pickles takes it for one."""
    said: Any = json.loads(data)
    match said:
        case {"config": dict()}:
            for name, payload in cast("dict[str, Any]", said["config"]).items():
                match payload:
                    case {"use_pickle": False}:
                        pass
                    case _:
                        raise HasToBeTrusted(f"its tensor {name[:120]!r} is a pickle")
        case _:
            raise ValueError("it does not say which files its tensors are in")
    return json.dumps(said).encode()


def checked_program(data: bytes) -> bytes:
    """The program without what is run when it is called, and of each node only where it is from."""
    program = json.loads(data)
    if isinstance(program, dict):
        cast("dict[str, Any]", program)["guards_code"] = []
    for key, value, holder in _strings(program):
        _check(key, value, holder)
    return json.dumps(program).encode()


def _strings(program: Any) -> Iterator[tuple[str, str, str]]:
    """(key, text, key of what holds it) of each text, and of each name of a field, in any depth."""
    stack: list[tuple[Any, str, str]] = [(program, "", "")]
    while stack:
        value, key, holder = stack.pop()
        if isinstance(value, str):
            yield key, value, holder
        elif isinstance(value, list):
            stack.extend((x, key, holder) for x in cast("list[Any]", value))
        elif isinstance(value, dict):
            fields = cast("dict[str, Any]", value)
            if key == "metadata":
                for name in fields.keys() - set(KEPT):
                    del fields[name]
            for name, x in fields.items():
                yield "", name, key
                stack.append((x, name, key))


def _check(key: str, text: str, holder: str) -> None:
    if holder == "metadata" and key in KEPT:
        return  # kept as it is: it becomes a comment at most
    if key in TREES:
        _check_tree(text)
        return
    allowed, what = KINDS.get(key, (_is_name, "a name"))
    if not allowed(text):
        raise HasToBeTrusted(f"{text[:80]!r} in it is not {what} as PyTorch writes it")


def _is_name(text: str) -> bool:
    return NAME.fullmatch(text) is not None


def _is_size(text: str) -> bool:
    if len(text) > MOST_SIZE or SIZE.fullmatch(text) is None:
        return False
    # a power of powers of numbers takes forever to evaluate
    powers = text.count("Pow(")
    return powers == 0 or (powers == 1 and not LONG_NUMBER.search(re.sub(r"'\w+'", "", text)))


def _is_text(text: str) -> bool:
    return not any(word in text for word in IMPORTS)


KINDS: dict[str, tuple[Callable[[str], bool], str]] = {
    "target": (lambda text: OPERATOR.fullmatch(text) is not None, "an operator"),
    "as_operator": (lambda text: OPERATOR.fullmatch(text) is not None, "an operator"),
    "expr_str": (_is_size, "a size"),
    "as_string": (_is_text, "a text"),
    "as_strings": (_is_text, "a text"),
    "torch_version": (lambda text: re.fullmatch(r"[\w.+-]*", text) is not None, "a version"),
}
TREES = ("in_spec", "out_spec")


def _check_tree(text: str) -> None:
    """Trees of inputs and outputs: what takes them apart imports nothing; names of arguments are names."""
    if not _is_text(text):
        raise HasToBeTrusted(f"its tree {text[:80]!r} names a class to import")
    if text:
        _check_keys(json.loads(text))


def _check_keys(tree: Any) -> None:
    """The keys of dicts may become names of arguments in code."""
    stack: list[Any] = [tree]
    while stack:
        value = stack.pop()
        if isinstance(value, list):
            stack.extend(cast("list[Any]", value))
        elif isinstance(value, dict):
            fields = cast("dict[str, Any]", value)
            stack.extend(fields.values())
            context = fields.get("context")
            if isinstance(context, str) and not re.fullmatch(r'[\w\s.,"\[\]{}:@-]*', context):
                raise HasToBeTrusted(f"{context[:80]!r} in its tree of inputs is not names")

"""The design as a test: imports point strictly down the table, and two doors have one key each."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent / "lumigen"

# Lowest first. The modules of a row (files or packages) know neither each other nor a row above.
LAYERS: tuple[frozenset[str], ...] = (
    frozenset(
        {
            "debug",
            "described",
            "errors",
            "files",
            "interrupt",
            "kernel_words",
            "machine",
            "memo",
            "missing",
            "names",
            "resources",
            "rounds",
        }
    ),
    frozenset({"child", "directory", "dtype", "index", "target_row", "tokenizer"}),
    frozenset({"application", "condition", "integers"}),
    frozenset({"intrinsics", "ops", "toolchain", "view"}),
    frozenset({"graph", "limits"}),
    frozenset({"pattern", "region"}),
    frozenset({"block_tile", "cost", "plan", "schedule"}),
    frozenset({"tile"}),
    frozenset({"program"}),
    frozenset({"interp", "printer", "trail", "verify", "weights"}),
    frozenset({"frontend", "ir", "lower", "passes", "progress"}),
    frozenset({"emit", "importers", "measuring", "model_weights"}),
    frozenset({"drawn", "targets"}),
    frozenset({"target"}),
    frozenset({"algebra", "build", "fast_lane", "kernel_source", "texts"}),
    frozenset({"search"}),
    frozenset(
        {
            "activations",
            "checks",
            "multiplied",
            "original",
            "quantise",
            "recall",
            "samples",
            "summary",
        }
    ),
    frozenset({"identity"}),
    frozenset({"pipeline"}),
    frozenset({"calibrate", "make_project"}),
    frozenset({"compile"}),
    frozenset({"compilers", "forms", "page", "why"}),
    frozenset({"cli", "context"}),
    frozenset({"__init__", "__main__"}),
)
LEVEL = {name: i for i, layer in enumerate(LAYERS) for name in layer}

FILES = sorted(ROOT.rglob("*.py"))


@cache
def parsed(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


def module_of(path: Path, root: Path = ROOT) -> str:
    """The module or package directly below lumigen/ that a file belongs to."""
    return path.relative_to(root).parts[0].removesuffix(".py")


def dotted(path: Path, root: Path = ROOT) -> list[str]:
    """The package that relative imports in a file start from, as its parts."""
    return ["lumigen", *path.relative_to(root).parent.parts]


def target(name: str, names: list[str], modules: set[str]) -> set[str]:
    """The modules `from <name> import <names>` reaches; a name that is none is of __init__."""
    parts = name.split(".")
    if parts[0] != "lumigen":
        return set()
    if len(parts) > 1:
        return {parts[1]}
    return {n if n in modules else "__init__" for n in names}


def imports(tree: ast.AST, package: list[str], modules: set[str]) -> set[str]:
    """Every module below lumigen/ that a file imports, late or for type checking alike."""
    found: set[str] = set()
    for node in ast.walk(tree):
        match node:
            case ast.Import(names=names):
                for alias in names:
                    found |= target(alias.name, ["__init__"], modules)
            case ast.ImportFrom(module=name, names=names, level=level):
                base = package[: len(package) - level + 1] if level else []
                full = ".".join([*base, *([name] if name else [])])
                found |= target(full, [alias.name for alias in names], modules)
            case ast.Call(func=func, args=[ast.Constant(value=str(name)), *_]) if ast.unparse(
                func
            ).rpartition(".")[2] in {"import_module", "__import__"}:
                level = len(name) - len(name.lstrip("."))
                base = package[: len(package) - level + 1] if level else []
                full = ".".join([*base, *([name.lstrip(".")] if name.lstrip(".") else [])])
                found |= target(full, ["__init__"], modules)
    return found


@cache
def present(root: Path = ROOT) -> set[str]:
    return {module_of(path, root) for path in root.rglob("*.py")}


def wrong_imports(module: str, found: set[str]) -> set[str]:
    """What a module may not import. Files of one package may import each other."""
    return {m for m in found if m != module and LEVEL.get(m, len(LAYERS)) >= LEVEL[module]}


def test_every_module_has_a_row() -> None:
    missing = present() - LEVEL.keys()
    assert not missing, (
        f"{sorted(missing)} stand in no row of LAYERS in tests/test_layers.py: put each into the "
        "lowest row above everything it imports, and say in lumigen/README.md what it is"
    )


def test_the_readme_has_the_rows() -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| (\d+) \| ([^|]+) \|", text, re.MULTILINE)
    listed = {int(n): frozenset(re.findall(r"`(\w+)`", modules)) for n, modules in rows}
    assert listed == dict(enumerate(LAYERS, 1))


@pytest.mark.parametrize("path", FILES, ids=lambda p: str(p.relative_to(ROOT)))
def test_imports_point_down(path: Path) -> None:
    module = module_of(path)
    if module not in LEVEL:
        pytest.fail(f"{module} has no row; see test_every_module_has_a_row")
    found = imports(parsed(path), dotted(path), present())
    wrong = wrong_imports(module, found)
    assert not wrong, (
        f"{module} may not import {sorted(wrong)}: imports point to lower rows only. "
        "Move what is shared down, or hand it over as a value"
    )


@pytest.mark.parametrize(
    "line",
    [
        "import lumigen.lower.fuse",
        "import lumigen.lower as l",
        "from lumigen.lower import fuse",
        "from lumigen import lower",
        "from ..lower import fuse",
        "from ..lower.fuse import fuse",
        "from .. import lower",
        "def f():\n    from lumigen import lower",
        "if TYPE_CHECKING:\n    from lumigen.lower import fuse",
        "importlib.import_module('lumigen.lower')",
        "import_module('..lower', __package__)",
        "__import__('lumigen.lower')",
    ],
)
def test_every_spelling_is_seen(line: str) -> None:
    assert imports(ast.parse(line), ["lumigen", "frontend"], {"lower"}) == {"lower"}
    assert wrong_imports("frontend", {"lower"}) == {"lower"}


@pytest.mark.parametrize(
    "line", ["import lumigen", "from lumigen import compile_it", "from .. import *"]
)
def test_the_package_itself_is_the_top(line: str) -> None:
    assert imports(ast.parse(line), ["lumigen", "frontend"], {"lower"}) == {"__init__"}
    assert wrong_imports("compile", {"__init__"}) == {"__init__"}


@pytest.mark.parametrize(
    "line", ["import numpy", "from os import path", "from . import nn", "from .nn import x"]
)
def test_other_imports_are_not_wrong(line: str) -> None:
    assert not wrong_imports(
        "frontend", imports(ast.parse(line), ["lumigen", "frontend"], {"lower"})
    )


def environment_reads(tree: ast.AST) -> Iterator[int]:
    """The lines that reach for the environment of the process."""
    names = {"environ", "environb", "getenv", "getenvb", "putenv", "unsetenv"}
    for node in ast.walk(tree):
        match node:
            case ast.Attribute(value=ast.Name(id="os" | "posix"), attr=attr) if attr in names:
                yield node.lineno
            case ast.ImportFrom(module="os" | "posix", names=aliases) if names & {
                a.name for a in aliases
            }:
                yield node.lineno


@pytest.mark.parametrize("path", FILES, ids=lambda p: str(p.relative_to(ROOT)))
def test_only_debug_reads_the_environment(path: Path) -> None:
    lines = list(environment_reads(parsed(path)))
    assert module_of(path) == "debug" or not lines, (
        f"lines {lines} read the environment; add a function to debug.py and call that"
    )


@pytest.mark.parametrize(
    "line", ["os.environ['A']", "os.getenv('A')", "from os import path, environ"]
)
def test_environment_reads_are_seen(line: str) -> None:
    assert list(environment_reads(ast.parse(line))) == [1]


@pytest.mark.parametrize("path", FILES, ids=lambda p: str(p.relative_to(ROOT)))
def test_only_emit_imports_jinja(path: Path) -> None:
    found = [n for n in ast.walk(parsed(path)) if isinstance(n, ast.Import | ast.ImportFrom)]
    names = {a.name for n in found if isinstance(n, ast.Import) for a in n.names}
    names |= {n.module or "" for n in found if isinstance(n, ast.ImportFrom)}
    jinja = {name for name in names if name.split(".")[0] == "jinja2"}
    assert module_of(path) == "emit" or not jinja, "only emit renders templates"

"""A file is one idea: its code lines are counted. Comments, docstrings and blank lines are free.

`python tests/test_size.py` prints how many each package has.
"""

from __future__ import annotations

import ast
import io
import re
import sys
import tokenize
from pathlib import Path

ROOT = Path(__file__).parent.parent
BUDGET = 450

# path: (code lines, why this file is still one idea); raised in the change that needs it
LARGER: dict[str, tuple[int, str]] = {
    "lumigen/frontend/functions.py": (700, "a namespace: a line for each name, and one in __all__"),
    "lumigen/frontend/tensor.py": (600, "one class, whose methods are PyTorch's, a line for each"),
    "lumigen/emit/expression.py": (560, "a text for each expression, alone and over lanes"),
    "lumigen/emit/reference.py": (460, "a plain text for each expression, in the loops it needs"),
    "lumigen/interp/tile.py": (610, "a meaning for each statement, over the same memory"),
    "lumigen/emit/statements.py": (460, "a text for each statement, over the same names"),
    "lumigen/tile.py": (500, "each statement with its meaning in a line"),
    "lumigen/verify/tile.py": (515, "a rule for each statement, over the same facts"),
    "lumigen/lower/assemble.py": (
        515,
        "one walk over the regions, whose tables all of its steps share",
    ),
    "lumigen/lower/simt.py": (
        475,
        "what a plan of vector loops says, and each way in which it runs",
    ),
    "lumigen/region.py": (590, "each expression with the one spelling that it has"),
    "lumigen/index/polynomial.py": (
        590,
        "arithmetic and proofs need each other: bounds simplify quotients",
    ),
}

FREE = {
    tokenize.COMMENT,
    tokenize.NL,
    tokenize.NEWLINE,
    tokenize.INDENT,
    tokenize.DEDENT,
    tokenize.ENCODING,
    tokenize.ENDMARKER,
}


def at_most(text: str) -> int:
    """No fewer lines than those of code, and quickly counted."""
    return sum(not line.isspace() for line in text.splitlines())


def code_lines(text: str) -> int:
    """The lines that hold a token of code, less those of docstrings."""
    lines: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type not in FREE:
            lines.update(range(token.start[0], token.end[0] + 1))
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            match node.body:
                case [ast.Expr(value=ast.Constant(value=str())) as doc, *_]:
                    lines -= set(range(doc.lineno, (doc.end_lineno or doc.lineno) + 1))
    return len(lines)


def packages() -> dict[str, list[Path]]:
    """The files of each package; those beside the packages are `lumigen`."""
    out: dict[str, list[Path]] = {}
    for path in sorted((ROOT / "lumigen").rglob("*.py")):
        first, *rest = path.relative_to(ROOT / "lumigen").parts
        out.setdefault(first if rest else "lumigen", []).append(path)
    return out


def test_the_page_on_the_middle_has_the_size_of_each_package() -> None:
    page = ROOT / "docs" / "design" / "0025-the-plan-is-the-program.md"
    rows = re.findall(r"^\| `(\w+)` \| [\d,]+ \|", page.read_text(encoding="utf-8"), re.MULTILINE)
    assert sorted(rows) == sorted(packages())


def test_files_stay_in_their_budget() -> None:
    over: list[str] = []
    for path in sorted((ROOT / "lumigen").rglob("*.py")):
        name = path.relative_to(ROOT).as_posix()
        text = path.read_text(encoding="utf-8")
        budget = LARGER.get(name, (BUDGET, ""))[0]
        if at_most(text) > budget and (count := code_lines(text)) > budget:
            over.append(f"{name}: {count} code lines, budget {budget}")
    assert not over, (
        "split these where a second idea begins, or raise the budget in LARGER with the reason:\n"
        + "\n".join(over)
    )


def test_larger_budgets_are_still_needed() -> None:
    for name, (budget, why) in LARGER.items():
        assert why, f"{name} has no reason"
        count = code_lines((ROOT / name).read_text(encoding="utf-8"))
        assert BUDGET < count <= budget, f"{name} has {count} code lines: take it out of LARGER"


def test_a_function_is_read_at_once() -> None:
    """The body of a function of the core has at most 60 lines, comments with them."""
    over: list[str] = []
    for path in sorted((ROOT / "lumigen").rglob("*.py")):
        if {"frontend", "nn"} & set(path.relative_to(ROOT).parts):
            continue
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                documented = ast.get_docstring(node) is not None and len(node.body) > 1
                first = node.body[documented].lineno
                lines = (node.end_lineno or first) - first + 1
                if lines > 60:
                    over.append(f"{path.relative_to(ROOT).as_posix()}: {node.name}, {lines} lines")
    assert not over, over


def test_only_code_counts() -> None:
    free = '"""Module.\n\nMore.\n"""\n\n# a comment\n'
    code = 'x = """two\nlines"""\n\n\ndef f():\n    """Doc."""\n    return x\n'
    assert code_lines(free) == 0
    assert code_lines(free + code) == 4
    assert at_most(free + code) >= 4


# class names that stand twice, and why
TWICE = {
    "Buffer": "PyTorch's name of a part of a module, beside the memory of a kernel",
    "Dim": "the size that users write, beside the one in index expressions",
}


def test_a_class_name_means_one_thing() -> None:
    seen: dict[str, list[str]] = {}
    for path in sorted((ROOT / "lumigen").rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ClassDef):
                seen.setdefault(node.name, []).append(path.relative_to(ROOT).as_posix())
    twice = {name: paths for name, paths in seen.items() if len(paths) > 1}
    assert set(twice) == set(TWICE), twice


def test_a_name_of_the_cuda_headers_means_one_thing() -> None:
    """Any of them may be read by the same kernel: types and constants of their namespace, other than in part."""
    declared = re.compile(
        r"^(?:template <.*>\n)?(?:struct|using|constexpr \w+) (\w+)(?: :| \{| =)", re.MULTILINE
    )
    seen: dict[str, list[str]] = {}
    for path in sorted((ROOT / "templates" / "cuda").iterdir()):
        if path.suffix in {".h", ".cuh"}:
            for name in set(declared.findall(path.read_text(encoding="utf-8"))):
                seen.setdefault(name, []).append(path.name)
    assert {"Vec", "Bits", "kOrdered"} <= set(seen)
    assert not {name: paths for name, paths in seen.items() if len(paths) > 1}


if __name__ == "__main__":
    for name, paths in packages().items():
        count = sum(code_lines(p.read_text(encoding="utf-8")) for p in paths)
        sys.stdout.write(f"{name} {count}\n")

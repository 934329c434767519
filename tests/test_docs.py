"""The documentation: links lead somewhere, blocks run, printed pages are up to date."""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import torch

import lumigen
from lumigen import debug, errors
from lumigen.cli import EXIT_CODES
from lumigen.cli import lumigen as command_line
from lumigen.emit.project import render_project
from lumigen.frontend import functions, load_model_file
from lumigen.pipeline import lower_model

ROOT = Path(__file__).parent.parent
SKIPPED = {"build", "node_modules"}
PAGES = sorted(
    p
    for p in ROOT.rglob("*.md")
    if not any(part in SKIPPED or part.startswith(".") for part in p.relative_to(ROOT).parts[:-1])
    and not any((d / "manifest.json").exists() for d in p.parents)  # a project compiled here
)
BLOCK = re.compile(r"^```.*?^```$", re.DOTALL | re.MULTILINE)
RUN = re.compile(
    r"<!-- run -->\n```python\n(.*?)^```\n(?:\n```text\n(.*?)^```\n)?", re.DOTALL | re.MULTILINE
)


def prose(text: str) -> str:
    """The page without what stands in blocks and between backticks."""
    return re.sub(r"`[^`\n]*`", "", BLOCK.sub("", text))


def anchor(heading: str) -> str:
    """What a heading is called in a link."""
    text = re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", heading).replace("`", "").strip().lower()
    return re.sub(r"[^\w\- ]", "", text).replace(" ", "-")


def anchors(page: Path) -> set[str]:
    text = BLOCK.sub("", page.read_text(encoding="utf-8"))
    return {anchor(h) for h in re.findall(r"^#+ (.*)$", text, re.MULTILINE)}


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.relative_to(ROOT).as_posix())
def test_links_lead_somewhere(page: Path) -> None:
    wrong: list[str] = []
    for link in re.findall(r"\]\(([^)\s]+)\)", prose(page.read_text(encoding="utf-8"))):
        if re.match(r"[a-z]+:", link):
            continue
        path, _, fragment = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        inside = target.is_relative_to(ROOT.resolve())
        if not inside or not target.exists() or (fragment and fragment not in anchors(target)):
            wrong.append(link)
    assert not wrong


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.relative_to(ROOT).as_posix())
def test_no_place_of_one_machine_is_named(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    assert not re.search(r"(?<![\w.])/(home|root|tmp|work|Users)/", text)


def test_the_list_of_pages_has_every_page() -> None:
    text = (ROOT / "docs" / "README.md").read_text(encoding="utf-8")
    pages = {p.relative_to(ROOT / "docs").as_posix() for p in (ROOT / "docs").rglob("*.md")}
    assert pages - {"README.md"} <= set(re.findall(r"\]\(([^)\s#]+)", text))


# --- printed pages --------------------------------------------------------------------------------


def script(name: str):
    spec = importlib.util.spec_from_file_location(name, ROOT / "docs" / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


TOUR = script("make_tour")
REFERENCE = script("make_reference")


@pytest.mark.parametrize("name", TOUR.PAGES)
def test_printed_pages_are_up_to_date(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    file = ROOT / "docs" / name
    page = file.read_text(encoding="utf-8")
    fresh = TOUR.render(page)
    if os.environ.get("LUMIGEN_ACCEPT") == "1":
        file.write_text(fresh, encoding="utf-8")
        page = fresh
    assert fresh == page, "review what the compiler prints now, then run `python docs/make_tour.py`"


def test_every_mark_has_a_block() -> None:
    for name in TOUR.PAGES:
        page = (ROOT / "docs" / name).read_text(encoding="utf-8")
        assert page.count("<!-- show:") == len(TOUR.MARKED.findall(page))


@pytest.fixture(scope="module")
def reference() -> str:
    """The page, which is made from the code and stored nowhere; a name without a docstring stops it."""
    return REFERENCE.render()


def test_the_reference_has_every_public_name(reference: str) -> None:
    assert REFERENCE.documented() - {"Live", "Result"} == set(lumigen.__all__)
    listed = set(re.findall(r"^\* `(\w+)", reference, re.MULTILINE))
    raised = {n for n, c in vars(errors).items() if "message" in getattr(c, "__dict__", ())}
    assert raised <= listed
    for space in (functions, lumigen.functional, *REFERENCE.SPACES.values()):
        missing = set(REFERENCE.public(space)) - set(re.findall(r"`(?:\w+\.)*(\w+)", reference))
        assert not missing, space.__name__


def test_the_reference_has_every_command_and_switch(reference: str) -> None:
    for name, command in command_line.commands.items():
        assert f"### lumigen {name}\n" in reference
        for option in (o for p in command.params for o in p.opts if o.startswith("--")):
            assert option in reference, f"{name} {option}"
    assert all(f"`{v.name}`" in reference for v in debug.VARIABLES)
    assert all(f"| {code} | {means} |" in reference for code, means in EXIT_CODES)


def test_the_reference_has_no_gaps(reference: str) -> None:
    """Each heading once and with something below it; links of the page itself lead to its headings."""
    headings = re.findall(r"^#+ (.*)$", BLOCK.sub("", reference), re.MULTILINE)
    assert sorted(set(headings)) == sorted(headings)
    assert not re.search(r"^(#{2,}) .*\n+\1 ", BLOCK.sub("", reference), re.MULTILINE)
    links = re.findall(r"\]\(([^)\s]+)\)", prose(reference))
    assert {x for x in links if not re.match(r"[a-z]+:", x)} <= {f"#{anchor(h)}" for h in headings}
    assert not re.search(r"(?<![\w.])/(home|root|tmp|work|Users)/|0x[0-9a-f]{6}", reference)


def test_the_reference_is_written_where_it_is_asked_for(
    reference: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "argv", ["make_reference.py", str(tmp_path / "new" / "page.md")])
    REFERENCE.main()
    assert (tmp_path / "new" / "page.md").read_text(encoding="utf-8") == reference


def test_a_public_name_without_a_docstring_is_found() -> None:
    with pytest.raises(SystemExit, match="bare has no docstring"):
        REFERENCE.item("bare", "bare()", lambda: None)


# --- blocks of the pages --------------------------------------------------------------------------

README = (ROOT / "README.md").read_text(encoding="utf-8")
SHIPPING = (ROOT / "docs" / "shipping.md").read_text(encoding="utf-8")
COMMANDS = (ROOT / "docs" / "commands.md").read_text(encoding="utf-8")
BLOCKS = [
    pytest.param(code, output, id=f"{page.relative_to(ROOT).as_posix()}-{i}")
    for page in PAGES
    for i, (code, output) in enumerate(RUN.findall(page.read_text(encoding="utf-8")))
]


def test_every_marked_block_is_run() -> None:
    pages = [page.read_text(encoding="utf-8").splitlines() for page in PAGES]
    marks = sum(lines.count("<!-- run -->") for lines in pages)
    assert marks == len(BLOCKS) > 0


def test_offered_ops_are_no_modules() -> None:
    """A function may have the name of a module of the package."""
    offered = (ROOT / "docs" / "ops.md").read_text(encoding="utf-8").partition("* nn.functional")[0]
    names = {n for n in re.findall(r"`(\w+)[`|]", offered) if callable(getattr(torch, n, None))}
    assert len(names) > 250
    found = {n: getattr(lumigen, n) for n in sorted(names) if n in vars(lumigen)}
    assert [n for n, f in found.items() if not callable(f)] == []
    assert found["tile"] is lumigen.Tensor.tile


def test_readme_is_short() -> None:
    assert len(README.splitlines()) <= 150


@pytest.mark.parametrize(("code", "output"), BLOCKS)
def test_marked_python_runs(code: str, output: str, tmp_path: Path) -> None:
    """In a process of its own, as a reader would run it."""
    file = tmp_path / "block.py"
    file.write_text(f"import sys; sys.path.insert(0, {str(ROOT)!r})\n{code}", encoding="utf-8")
    command = [sys.executable, file]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout == output


def test_readme_model_is_the_example() -> None:
    example = (ROOT / "examples" / "digits" / "model.py").read_text(encoding="utf-8")
    body = example.split('"""\n\n', 1)[1]
    assert f"```python\n{body}```" in README


@pytest.fixture(scope="module")
def digits(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The emitted headers of the digits example."""
    traced = load_model_file(ROOT / "examples" / "digits" / "model.py").trace()
    model = lower_model(traced, {}).model
    folder = tmp_path_factory.mktemp("digits")
    for path, text in render_project(model).items():
        if path.startswith("include/"):
            (folder / Path(path).name).write_text(text, encoding="utf-8")
    return folder


@pytest.mark.parametrize(("kind", "standard"), [("c", "c99"), ("cpp", "c++17")])
def test_programs_of_the_guide_compile(kind: str, standard: str, digits: Path) -> None:
    tool = shutil.which("cc" if kind == "c" else "c++")
    if tool is None:
        pytest.skip("no C or C++ compiler")
    (code,) = re.findall(rf"^```{kind}\n(.*?)^```$", SHIPPING, re.DOTALL | re.MULTILINE)
    source = digits / f"app.{kind}"
    source.write_text(code, encoding="utf-8")
    flags = [f"-std={standard}", "-Wall", "-Wextra", "-Werror", "-fsyntax-only", f"-I{digits}"]
    command = [tool, *flags, source]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_the_guide_lists_the_commands() -> None:
    listed = set(re.findall(r"^\| `lumigen (\w+)", COMMANDS, re.MULTILINE))
    assert listed == set(command_line.commands)


def test_readme_has_the_command_that_ci_extracts() -> None:
    block = README.partition("<!-- test-command -->\n```sh\n")[2].partition("```")[0]
    assert block.splitlines()[-1].startswith("python -m pytest -n 2")

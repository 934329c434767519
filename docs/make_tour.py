"""Puts what the compiler prints into the pages of PAGES, behind each line `<!-- show: ... -->`.

`<!-- show: graph softmax -->` shows a form of models/softmax.py; a fenced block follows, and only
that block is replaced. Usage: python docs/make_tour.py   (a test fails where a page is stale)
"""

import re
from functools import cache
from pathlib import Path
from textwrap import wrap

from lumigen.compile import lower_model
from lumigen.dtype import f32
from lumigen.emit.project import render_project
from lumigen.forms import text_after
from lumigen.frontend import load_model_file
from lumigen.lower.axes import unify_axes
from lumigen.lower.canonical import canonical
from lumigen.lower.cuts import Skeletons
from lumigen.lower.layout import choose_layouts
from lumigen.lower.partition import partition
from lumigen.lower.separate import separate
from lumigen.printer.plan import show_region_plan
from lumigen.printer.region import show, show_fold
from lumigen.region import Reduce, walk
from lumigen.targets.cpu.device import CPU

DOCS = Path(__file__).parent
ROOT = DOCS.parent
PAGES = ("tour.md", "design/walks.md")
MODELS = {
    **{name: DOCS / "models" / f"{name}.py" for name in ("softmax", "attention", "decode", "conv")},
    "digits": ROOT / "examples" / "digits" / "model.py",
}
MARKED = re.compile(
    r"<!-- show: (?P<what>[^>]+) -->\n+```(?P<kind>\w*)\n.*?^```$", re.DOTALL | re.MULTILINE
)


@cache
def traced(name):
    return load_model_file(MODELS[name]).trace()


@cache
def compilation(name):
    return lower_model(traced(name), {})


def plain(text):
    """The text with names of files where it had their places."""
    for path in MODELS.values():
        text = text.replace(str(path), path.name)
        if path.is_relative_to(Path.cwd()):
            text = text.replace(str(path.relative_to(Path.cwd())), path.name)
    return text


# --- forms that have no command -------------------------------------------------------------------


@cache
def regions(name):
    """The regions of a model as plans see them: over canonical buffers and axes, each once."""
    ((_, graph),) = compilation(name).graphs["fold"]
    skeletons = Skeletons(
        lambda r: CPU.runs_whole(r, f32),
        lambda r: CPU.in_loops(unify_axes(r)),
        lambda r: CPU.columns(unify_axes(r)),
        CPU.machine.storing,
        CPU.one_row,
    )
    cut = partition(graph, skeletons)
    found = (canonical(unify_axes(r)).region for r in choose_layouts(cut))
    return tuple(dict.fromkeys(found))


def fold_of(name, axis):
    """The loop that `separate` finds over an axis of a model's only region."""
    (region,) = regions(name)
    (store,) = region.stores
    found = (a for r in walk([store.value]) if isinstance(r, Reduce) for a in r.axes)
    (k,) = {a for a in found if a.name == axis}
    return show_fold(separate((store.value,), (k,)))


def plans(name):
    """The plan of each region, with its schedule below."""
    for region in regions(name):
        found = next(CPU.space(region))
        yield show_region_plan(found.plan, found.schedules)


def numbered(texts, wanted):
    """The wanted parts, or all, below their numbers; one part that is all stands alone."""
    parts = [t.rstrip("\n") for t in texts]
    if len(parts) == 1:
        return parts[0]
    numbers = [int(w) for w in wanted] or range(len(parts))
    return "\n\n".join(f"({i})\n{parts[i]}" for i in numbers)


def tree(name):
    """The files of the emitted project by folder."""
    folders: dict[str, list[str]] = {}
    for path in render_project(compilation(name).model):
        folder, _, file = path.rpartition("/")
        folders.setdefault(f"{folder}/" if folder else "", []).append(file)
    lines: list[str] = []
    for folder, files in sorted(folders.items()):
        lines += wrap(
            f"{folder:<18} {' '.join(files)}",
            100,
            subsequent_indent=" " * 19,
            break_on_hyphens=False,
        )
    return "\n".join(lines)


def body_of(text):
    """The function of an emitted kernel."""
    return re.search(r"^void .*?^}$", text, re.DOTALL | re.MULTILINE).group()


FORMS = {
    "file": lambda name: MODELS[name].read_text(encoding="utf-8"),
    "regions": lambda name, *some: numbered(map(show, regions(name)), some),
    "fold-loop": fold_of,
    "plan": lambda name, *some: numbered(plans(name), some),
    "kernel": lambda name, kernel: body_of(text_after(traced(name), "source", kernel)),
    "tree": tree,
}


def shown(what):
    form, name, *more = what.split()
    text = FORMS[form](name, *more) if form in FORMS else text_after(traced(name), form, *more)
    return plain(text).strip("\n")


def render(page):
    """The page with fresh blocks."""
    return MARKED.sub(
        lambda m: f"<!-- show: {m['what']} -->\n```{m['kind']}\n{shown(m['what'])}\n```", page
    )


def main():
    for name in PAGES:
        page = DOCS / name
        before = page.read_text(encoding="utf-8")
        after = render(before)
        if after != before:
            page.write_text(after, encoding="utf-8")
        print(f"{name}: {'unchanged' if after == before else 'written'}")


if __name__ == "__main__":
    main()

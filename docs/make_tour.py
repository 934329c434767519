"""Puts what the compiler prints into the pages of PAGES, after each line `<!-- show: ... -->`.

`<!-- show: graph softmax -->` shows a form of models/softmax.py; a fenced block follows, and only
that block is replaced. After the model may come names of kernels, and pairs of a word and its value:
`on` a target, `in` a dtype, `from` and `to` what the first and the last line of an excerpt contain.
Usage: python docs/make_tour.py   (a test fails where a page is stale)
"""

import re
import shlex
from functools import cache
from pathlib import Path
from textwrap import dedent, wrap

from lumigen.dtype import BY_NAME
from lumigen.emit.project import render_project
from lumigen.forms import text_after
from lumigen.frontend import load_model_file
from lumigen.lower.separate import separate
from lumigen.pipeline import lower_model
from lumigen.printer.region import show_fold
from lumigen.region import Reduce, walk

DOCS = Path(__file__).parent
ROOT = DOCS.parent
PAGES = ("tour.md", "tour_loss.md", "design/walks.md")
OPTIONS = ("on", "in", "from", "to")
MODELS = {
    **{
        name: DOCS / "models" / f"{name}.py"
        for name in ("softmax", "attention", "loss", "decode", "conv")
    },
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


def fold_of(name, axis):
    """The loop that `separate` finds over an axis of a model's only kernel."""
    (kernel,) = compilation(name).lowered.kernels
    (store,) = kernel.region.stores
    found = (a for r in walk([store.value]) if isinstance(r, Reduce) for a in r.axes)
    (k,) = {a for a in found if a.name == axis}
    return show_fold(separate((store.value,), (k,)))


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


FORMS = {
    "file": lambda name: MODELS[name].read_text(encoding="utf-8"),
    "fold-loop": fold_of,
    "tree": tree,
}


def body_of(text):
    """The function of an emitted kernel."""
    return re.search(r"^void .*?^}$", text, re.DOTALL | re.MULTILINE).group()


def printed(form, name, kernels, target="cpu", dtype="f32"):
    """What `lumigen show` prints of a model, or of the named kernels; `kernel` is their functions."""
    after = "source" if form == "kernel" else form
    texts = [text_after(traced(name), after, k, target, BY_NAME[dtype]) for k in kernels or [None]]
    return "\n".join(map(body_of, texts) if form == "kernel" else texts)


def excerpt(text, first, last):
    """The lines from one that contains `first` to one that contains `last`, less their indent."""
    lines = text.splitlines()
    begin = next(i for i, line in enumerate(lines) if first in line)
    end = next(i for i, line in enumerate(lines) if i >= begin and last in line)
    return dedent("\n".join(lines[begin : end + 1]))


def shown(what):
    form, name, *more = shlex.split(what)
    split = next((i for i, word in enumerate(more) if word in OPTIONS), len(more))
    options = dict(zip(more[split::2], more[split + 1 :: 2], strict=True))
    if form in FORMS:
        return plain(FORMS[form](name, *more[:split])).strip("\n")
    text = printed(form, name, more[:split], options.get("on", "cpu"), options.get("in", "f32"))
    if "from" in options:
        text = excerpt(text, options["from"], options["to"])
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

"""Writes the reference: every public name with its signature and docstring, every command, every error.

What it says comes from the code alone, the prose between is in this file. The page is made, not stored.
Usage: python docs/make_reference.py [FILE]   (build/docs/reference.md if left out)
"""

import inspect
import re
import sys
from pathlib import Path

import click

import lumigen as lg
from lumigen import cli, debug, errors, functional, nn
from lumigen.context import Live, Result
from lumigen.dtype import DTYPES
from lumigen.emit.project import render_project
from lumigen.frontend import functions
from lumigen.frontend.model import Entry, StateSpec, WeightSpec
from lumigen.frontend.spec import Spec
from lumigen.pipeline import lower_model

ROOT = Path(__file__).parent.parent
PAGE = ROOT / "build" / "docs" / "reference.md"
EXAMPLE = ROOT / "docs" / "models" / "decode.py"  # has states

HEAD = """# Reference

Every public name of `lumigen`, from its docstring. `import lumigen as lg` and `from lumigen import nn, functional`
are what the names below begin with. Signatures follow PyTorch where it has one.

Shapes are tuples of axis names, and `..` stands for any axes. In signatures an `Extent` is an int, a `Dim` or a `Size`:
what `.shape` holds, and arithmetic with it, an int or what `Dim` says of sizes; a `Value` is a tensor, a Python number
or an `Extent`; `Dims` is one dimension, several, or `None` for all; a `Pair` is one int for both directions, or
(vertical, horizontal).
"""

MODELS = (
    ("Model", lg.Model),
    ("Dim", lg.Dim),
    ("spec", lg.spec),
    ("TextGeneration", lg.TextGeneration),
    ("Traced", lg.Traced),
    ("compile", lg.compile),
    ("load", lg.load),
    ("from_torch", lg.from_torch),
    ("check", lg.check),
    ("load_model_file", lg.load_model_file),
    ("from_hugging_face", lg.from_hugging_face),
    ("from_onnx", lg.from_onnx),
    ("open_weights", lg.open_weights),
    ("Weights", lg.Weights),
)
RECORDS = (Spec, Entry, WeightSpec, StateSpec)  # what the above give, and nobody makes himself
SMALL_WAY = (
    ("Graph", lg.Graph),
    ("Live", Live),
    ("Result", Result),
    ("GenericCompiler", lg.GenericCompiler),
    ("HalfCompiler", lg.HalfCompiler),
    ("CPUCompiler", lg.CPUCompiler),
    ("CUDACompiler", lg.CUDACompiler),
)
SPACES = {
    "fft": lg.fft,
    "linalg": lg.linalg,
    "masked": lg.masked,
    "random": lg.random,
    "special": lg.special,
}
LARGE = {"Tensor", "DType", "nn", "functional", "errors", "signal", "ir", *SPACES}  # have sections
FAMILIES = {"LumigenError", "UserError", "InternalError"}


def documented():
    """The names of `lg` that the page has."""
    dtypes = {name for d in DTYPES for name in names_of(d)}
    own = {name for name, _ in (*MODELS, *SMALL_WAY)}
    return own | {*functions.__all__} | dtypes | LARGE | FAMILIES


def signature(name, thing):
    """As in the source: annotations as written, without `self`, or the first operand of a method."""
    found = inspect.signature(thing)
    parts, starred = [], False
    for k, p in enumerate(found.parameters.values()):
        if p.name == "self" or (k == 0 and name.startswith(".")):
            continue
        if p.kind is p.KEYWORD_ONLY and not starred:
            parts.append("*")
            starred = True
        starred = starred or p.kind is p.VAR_POSITIONAL
        star = {p.VAR_POSITIONAL: "*", p.VAR_KEYWORD: "**"}.get(p.kind, "")
        text = f"{star}{p.name}"
        if p.annotation is not p.empty:
            text += f": {_annotation(p.annotation)}"
        if p.default is not p.empty:
            text += f" = {p.default.__name__ if inspect.isfunction(p.default) else repr(p.default)}"
        parts.append(text)
    gives = found.return_annotation
    shown = "" if gives in (found.empty, None, "None") else f" -> {_annotation(gives)}"
    return f"{name}({', '.join(parts)}){shown}"


def _annotation(given):
    given = getattr(given, "__forward_arg__", given)  # of a named tuple
    return given if isinstance(given, str) else getattr(given, "__name__", str(given))


def text_of(name, thing):
    """The docstring; a public name without one of its own is a mistake."""
    own = thing.__doc__
    if not own or (inspect.isclass(thing) and "__doc__" not in vars(thing)):
        raise SystemExit(f"{name} has no docstring")
    return inspect.cleandoc(own)


def item(name, heading, thing):
    """One bullet: what it is called with, and what it says."""
    text = text_of(name, thing).replace("\n", "\n  ")
    return re.sub(r"[ ]+$", "", f"* `{heading}`\n\n  {text}\n", flags=re.MULTILINE)


def members(cls):
    """The public methods and properties that a class defines first."""
    known = {name for base in cls.__mro__[1:] for name in vars(base)}
    for name, thing in vars(cls).items():
        if name.startswith("_") or name in known:
            continue
        if not (callable(thing) or isinstance(thing, property)):
            continue
        if isinstance(thing, property):
            gives = _annotation(inspect.signature(thing.fget).return_annotation)
            yield item(f"{cls.__name__}.{name}", f".{name}: {gives}", thing.fget)
        elif thing.__name__ not in (name, f"__{name}__") and thing.__name__ in vars(cls):
            yield f"* `.{name}`: as `.{thing.__name__}`\n"  # a second name
        else:
            yield item(f"{cls.__name__}.{name}", signature(f".{name}", thing), thing)


def entry(name, thing):
    """A class with its members, or a function, under a heading of its own."""
    head = f"### {name}\n\n```python\n{signature(name, thing)}\n```\n\n{text_of(name, thing)}\n"
    return "\n".join([head, *members(thing)]) if inspect.isclass(thing) else head


def record(cls):
    fields = ", ".join(f"{f}: {t}" for f, t in cls.__annotations__.items())
    return item(cls.__name__, f"{cls.__name__}({fields})", cls)


def table(head, rows):
    cells = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(c.replace('|', chr(92) + '|') for c in r)} |" for r in cells)


def names_of(dtype):
    """The names of `lg` for a dtype, its own first; the others are PyTorch's."""
    own = "boolean" if dtype.is_bool else dtype.name
    return own, *(n for n in lg.__all__ if getattr(lg, n) is dtype and n != own)


def dtypes():
    rows = []
    for d in DTYPES:
        own, *others = (f"`lg.{name}`" for name in names_of(d))
        rows.append((own, ", ".join(others), d.kind.value, str(d.bits), f"`{d.numpy.__name__}`"))
    return table(("name", "in PyTorch's words", "kind", "bits", "numpy"), rows)


def items(module, names):
    return "\n".join(item(n, signature(n, vars(module)[n]), vars(module)[n]) for n in names)


def public(module):
    """The functions of a namespace that are at home there or in no other one."""
    known = {n for n, x in vars(module).items() if x is vars(lg.Tensor).get(n, module)}
    named = getattr(module, "__all__", None) or [
        n for n, x in vars(module).items() if getattr(x, "__module__", "") == module.__name__
    ]
    own = [n for n in named if vars(module)[n].__name__ == n and n not in known]
    return sorted(n for n in own if not n.startswith("_"))


def methods():
    """The functions of `lg` that are methods of tensors."""
    return [n for n in functions.__all__ if vars(functions)[n] is vars(lg.Tensor).get(n)]


def modules():
    bases = ("Module", "Parameter", "Buffer", "State", "IncompatibleKeys", "Sequential")
    bases += ("ModuleList", "ModuleDict", "ParameterList", "ParameterDict")
    layers = [n for n in dir(nn) if n not in bases]
    return "\n".join(
        [
            *(entry(n, vars(nn)[n]) for n in bases),
            "### Layers\n",
            *(item(n, signature(n, vars(nn)[n]), vars(nn)[n]) for n in layers),
        ]
    )


def stub():
    """What the Python module of a project has, by the example of one."""
    model = lower_model(lg.load_model_file(EXAMPLE).trace(), {}).model
    return render_project(model)[f"bindings/{model.name}.pyi"].strip("\n")


def faults(family):
    found = [
        c
        for c in vars(errors).values()
        if inspect.isclass(c) and issubclass(c, family) and "message" in vars(c)
    ]  # in the order of the file
    return "\n".join(f"{item(c.__name__, c.__name__, c)}\n  > {_escaped(c)}\n" for c in found)


def _escaped(error):
    text = " ".join(f"{error.message}".split())
    return re.sub(r"[<>*_`\[\]]", lambda m: f"\\{m[0]}", text)


def commands():
    parts = []
    parent = click.Context(cli.lumigen, info_name="lumigen", **cli.lumigen.context_settings)
    for name, command in cli.lumigen.commands.items():
        context = click.Context(command, parent, info_name=name)
        rows = []
        for p in command.get_params(context):
            if not isinstance(p, click.Option):
                continue
            found = p.get_help_record(context)
            if found is not None:
                does = " ".join(found[1].split()).replace("<", "\\<")
                rows.append((f"`{found[0]}`", does))
        usage = " ".join(command.collect_usage_pieces(context))
        example = command.epilog.removeprefix("\b\n")
        parts.append(
            f"### lumigen {name}\n\n`lumigen {name} {usage}`\n\n{inspect.cleandoc(command.help)}\n\n"
            f"{table(('option', 'does'), rows)}\n\n{example.replace('Example: ', 'Example: `')}`\n"
        )
    return "\n".join(parts)


def render():
    codes = table(("code", "means"), [(str(c), what) for c, what in cli.EXIT_CODES])
    switches = table(("variable", "effect"), [(f"`{v.name}`", v.effect) for v in debug.VARIABLES])
    parts = (
        HEAD,
        "## Models and projects\n",
        *(entry(name, thing) for name, thing in MODELS),
        "### What they give\n",
        *map(record, RECORDS),
        "## Dtypes\n",
        f"{text_of('DType', lg.DType)}\n\n{dtypes()}\n",
        "## Tensor\n",
        f"{text_of('Tensor', lg.Tensor)}\n",
        *members(lg.Tensor),
        "## Functions\n",
        (
            f"{text_of('functions', functions)} `lg` has them all. Methods that are functions too, "
            f"called with the tensor first: {', '.join(f'`{n}`' for n in methods())}.\n"
        ),
        items(functions, [n for n in functions.__all__ if n not in methods()]),
        "## functional\n",
        f"{text_of('functional', functional)}\n",
        items(functional, [n for n in functional.__all__ if n not in functions.__all__]),
        *(
            f"## {name}\n\n{text_of(name, space)}\n\n{items(space, public(space))}"
            for name, space in SPACES.items()
        ),
        f"## signal.windows\n\n{text_of('windows', lg.signal.windows)}\n",
        items(lg.signal.windows, public(lg.signal.windows)),
        "## nn\n",
        f"{text_of('nn', nn)}\n",
        modules(),
        "## The small way\n",
        "Tensors with values, passes and a backend, without a model.\n",
        *(entry(name, thing) for name, thing in SMALL_WAY),
        "## ir\n",
        f"{text_of('ir', lg.ir)}\n",
        f"The ops of nodes, `ir.Op`: {', '.join(f'`{o.name}`' for o in lg.ir.Op)}.\n",
        "What a list of compilers holds: `ir.Pass`, a function from graph to graph, and `ir.Backend`.\n",
        items(lg.ir, [n for n in lg.ir.__all__ if n not in ("Backend", "Op", "Pass")]),
        entry("Backend", lg.ir.Backend),
        "## The module of a project\n",
        (
            "What `lg.compile` and `lg.load` give, and `import` of a project's `python/`, by the example of "
            f"`{EXAMPLE.relative_to(ROOT).as_posix()}`: its own stub. The methods of "
            "states are there if the model has any; in C they are `<model>_state_reset` and so on.\n"
        ),
        f"```python\n{stub()}\n```\n",
        "## Errors\n",
        (
            "All in `lg.errors`, and all a `lg.LumigenError`. Below each, the text that it has; what is in "
            "braces comes from the place that raises it, and is in `facts` by that name.\n"
        ),
        (
            f"### UserError\n\n{text_of('UserError', errors.UserError)} Exit code "
            f"{errors.UserError.exit_code}.\n"
        ),
        faults(errors.UserError),
        (
            f"### InternalError\n\n{text_of('InternalError', errors.InternalError)} Exit code "
            f"{errors.InternalError.exit_code}.\n"
        ),
        faults(errors.InternalError),
        "## Commands\n",
        "Results go to stdout, progress and errors to stderr.\n",
        f"{codes}\n",
        commands(),
        "## Environment\n",
        "What changes what lumigen does, read when it is needed:\n",
        switches,
    )
    text = "\n".join(parts) + "\n"
    return re.sub(r"\n{3,}", "\n\n", text)


def main():
    page = Path(sys.argv[1]) if len(sys.argv) > 1 else PAGE
    page.parent.mkdir(parents=True, exist_ok=True)
    page.write_text(render(), encoding="utf-8")
    print(page)


if __name__ == "__main__":
    main()

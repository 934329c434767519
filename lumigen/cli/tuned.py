"""The command `tune`: searches a model without a project, and what searches have found on this machine, as a file."""

from __future__ import annotations

from pathlib import Path

import click
from click.core import ParameterSource

from lumigen.cli.options import (
    Dims,
    Duration,
    Settings,
    example,
    json_option,
    load,
    quiet_option,
    search_options,
    stored,
    stored_options,
    traced_options_if_any,
)
from lumigen.cli.terminal import progress, result, result_json, say
from lumigen.dtype import BY_NAME
from lumigen.errors import BadArgument
from lumigen.files import whole_file
from lumigen.page import tuning_page, write_page
from lumigen.pipeline import Compilation, lower_model
from lumigen.progress import Stages
from lumigen.search.asked import asked_for
from lumigen.search.book import text_of
from lumigen.search.crew import Crew
from lumigen.search.export import exported
from lumigen.search.tune import TOO_SHORT
from lumigen.target import parse_target

OF_EXPORT = ("model_file", "target", "file", "quiet", "as_json")  # what --export alone asks for


@click.command(epilog=example("tune model.py --time 2m --html search.html"))
@traced_options_if_any
@click.option(
    "--time",
    "seconds",
    metavar="TIME",
    type=Duration(),
    default="2m",
    show_default=True,
    help="How long to search a model.",
)
@search_options
@stored_options
@click.option(
    "--html",
    metavar="FILE",
    help="Write a page of the search: what was tried, what was not, what won; opens anywhere.",
)
@click.option(
    "--export",
    "file",
    metavar="FILE",
    type=click.Path(path_type=Path),
    help="Write what all searches on this machine have found, for compile --schedules.",
)
@quiet_option
@json_option
def tune(
    model_file: str | None,
    target: str,
    weights: str | None,
    settings: Settings,
    dims: Dims,
    trust: bool,
    dtype: str,
    seconds: float,
    seed: int | None,
    cold: bool,
    crew: Crew | None,
    numerics: str | None,
    weights_dtype: str | None,
    keep: tuple[str, ...],
    activations_dtype: str | None,
    html: str | None,
    file: Path | None,
    quiet: bool,
    as_json: bool,
) -> None:
    """Search a model for faster kernels on this machine, or write what searches have found.

    What is found is remembered: `compile --tune` takes it without a search of its own.
    """
    _check(click.get_current_context(), model_file, html, file)
    said: dict[str, object] = {}
    if model_file is not None:
        row = parse_target(target)
        asked = asked_for(
            row, seconds, None, seed, cold=cold, crew=crew, numerics=numerics, op="tune"
        )
        with progress(quiet=quiet) as listener:
            stages = Stages(listener)
            with stages.stage("trace"):
                model, opened, way, _ = load(model_file, settings, weights, dims, trust=trust)
            given = (weights_dtype, keep, activations_dtype)
            found = stored(model.trace(), opened, *given, stages)
            options = {"target": row.text, **asked.options}
            equal, left = asked.program(found.traced, row, BY_NAME[dtype], stages)
            made = lower_model(
                equal.traced, options, stages, row, dtype=BY_NAME[dtype], schedules=left.book
            )
        for note in filter(None, (way, *found.lines, *stages.said)):
            say(f"note: {note}")
        said = {"model": model.name, "faster": len(made.schedules.found)}
        said |= {"searched": TOO_SHORT not in stages.said, **_written(made, html)}
    if file is not None:
        book = exported(target)
        with whole_file(file) as out:
            out.write(text_of(book).encode())
        said |= {"file": str(file), "regions": len(book.found)}
    result_json(said) if as_json else result("\n".join(_lines(said)))


def _check(
    asked: click.Context, model_file: str | None, html: str | None, file: Path | None
) -> None:
    if model_file is None and file is None:
        expected = "a model to search, or --export"
        raise BadArgument(op="tune", name="the model", value="left out", expected=expected)
    told = [
        max(p.opts, key=len)
        for p in asked.command.params
        if p.name not in OF_EXPORT
        and asked.get_parameter_source(p.name or "") is ParameterSource.COMMANDLINE
    ]
    if model_file is None and told:
        value, expected = "given without a model", "it with one: it is of a search"
        raise BadArgument(op="tune", name=told[0], value=value, expected=expected)
    for name, place in (("--html", html), ("--export", file)):
        if place is not None:  # before the search, which is not done again
            _check_file(name, Path(place))


def _check_file(name: str, place: Path) -> None:
    if place.parent.is_dir() and not place.is_dir():
        return
    why = "which is a directory" if place.is_dir() else "in a directory that is not there"
    expected = "a file in a directory that is there"
    raise BadArgument(op="tune", name=name, value=f"{place}, {why}", expected=expected)


def _written(made: Compilation, html: str | None) -> dict[str, object]:
    """The page, if one is asked for and there was a search."""
    if html is None:
        return {}
    story = made.schedules.story
    if story is None:
        say("note: there was nothing to search, so no page is written: all was found today")
        return {}
    write_page(tuning_page(made, story), Path(html), "tune")
    return {"html": html}


def _lines(said: dict[str, object]) -> list[str]:
    regions = "1 region is" if said.get("faster") == 1 else f"{said.get('faster')} regions are"
    how = f"{regions} faster" if said.get("searched") else "the search was too short"
    lines = [f"{said['model']}: {how}"] if "model" in said else []
    lines += [f"{said['html']}: the search"] if "html" in said else []
    return [*lines, *([f"{said['file']}: {said['regions']} regions"] if "file" in said else [])]

"""The command `tune`: what searches have found on this machine, as a file."""

from __future__ import annotations

from pathlib import Path

import click

from lumigen.cli.options import example, json_option
from lumigen.cli.terminal import result, result_json
from lumigen.files import whole_file
from lumigen.search.book import text_of
from lumigen.search.export import exported
from lumigen.target import HOST


@click.command(epilog=example("tune --export schedules.json"))
@click.option(
    "--export",
    "file",
    required=True,
    metavar="FILE",
    type=click.Path(path_type=Path),
    help="Write what all searches on this machine have found, for compile --schedules.",
)
@click.option(
    "--target",
    default=HOST.name,
    show_default=True,
    help="The target whose kernels were searched.",
)
@json_option
def tune(file: Path, target: str, as_json: bool) -> None:
    """Write what `compile --tune` has found on this machine as a file of schedules."""
    book = exported(target)
    with whole_file(file) as out:
        out.write(text_of(book).encode())
    said = {"file": str(file), "regions": len(book.found)}
    result_json(said) if as_json else result(f"{file}: {len(book.found)} regions")

"""The Jinja environment: what every template may count on.

Promises that a name which a template misspells is an error, and that output depends on the context
alone.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path

import jinja2

from lumigen.resources import templates_dir
from lumigen.target_row import Target


@cache
def environment(name: str = "", folders: tuple[Path, ...] = ()) -> jinja2.Environment:
    """Templates by their path below `templates/`; those of `folders` by a path that begins with `name`."""
    loaders: list[jinja2.BaseLoader] = [jinja2.FileSystemLoader(templates_dir())]
    if folders:
        loaders.insert(0, jinja2.PrefixLoader({name: jinja2.FileSystemLoader(folders)}))
    return jinja2.Environment(
        loader=jinja2.ChoiceLoader(loaders),
        undefined=jinja2.StrictUndefined,
        # what is C++ and CMake stays as it is
        autoescape=jinja2.select_autoescape(("html.j2",), default=False),
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )


def render(folder: Path, template: str, **context: object) -> str:
    """The text of a template in a folder for a context, one object for each name."""
    return environment("own", (folder,)).get_template(f"own/{template}").render(**context)


def render_project_file(target: Target, template: str, **context: object) -> str:
    """The same for a file of a project: the target's own template, else the one of all targets."""
    names = [f"{target.name}/project/{template}", f"project/{template}"]
    found = environment(target.name, target.template_folders).select_template(names)
    return found.render(**context)

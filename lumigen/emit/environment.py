"""The Jinja environment: what every template may count on.

Promises that a name which a template misspells is an error, and that output depends on the context
alone.
"""

from __future__ import annotations

from functools import cache

import jinja2

from lumigen.resources import templates_dir


@cache
def environment() -> jinja2.Environment:
    """Templates by their path below `templates/`, such as `project/CMakeLists.txt.j2`."""
    return jinja2.Environment(
        loader=jinja2.FileSystemLoader(templates_dir()),
        undefined=jinja2.StrictUndefined,
        # what is C++ and CMake stays as it is
        autoescape=jinja2.select_autoescape(("html.j2",), default=False),
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )


def render(template: str, **context: object) -> str:
    """The text of a template for a context, one object for each name."""
    return environment().get_template(template).render(**context)


def render_project_file(target: str, template: str, **context: object) -> str:
    """The same for a file of a project: the target's own template, else the one of all targets."""
    names = [f"{target}/project/{template}", f"project/{template}"]
    return environment().select_template(names).render(**context)

"""Markdown pages from jinja2 templates: templates hold the text, Python computes the figures.

A template is a file ``NAME.md.j2``. Every value that it uses must be given; a missing one is an
error. Text is not escaped, since Markdown is not HTML.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from jinja2 import Environment

ENDING = ".md.j2"


def render_page(folder: Path, name: str, **values: Any) -> str:
    """The page from the template ``name`` in ``folder`` with ``values``."""
    return _environment(folder).get_template(f"{name}{ENDING}").render(**values)


@cache
def _environment(folder: Path) -> Environment:
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    return Environment(
        loader=FileSystemLoader(folder),
        undefined=StrictUndefined,
        autoescape=False,
        keep_trailing_newline=True,
        trim_blocks=True,
        lstrip_blocks=True,
    )

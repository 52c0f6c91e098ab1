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
_PART = "\n## "


def render_page(folder: Path, name: str, **values: Any) -> str:
    """The page from the template ``name`` in ``folder`` with ``values``."""
    return _environment(folder).get_template(f"{name}{ENDING}").render(**values)


def with_part(page: str, part: str) -> str:
    """``page`` with a new part, whose first line is ``## TITLE``, or with a new head.

    It takes the place of the part with its title, or comes last.

    >>> with_part("# All\\n\\n## A\\n\\n1\\n\\n## B\\n\\n2\\n", "## A\\n\\n3\\n")
    '# All\\n\\n## A\\n\\n3\\n\\n## B\\n\\n2\\n'
    """
    head, *parts = page.split(_PART)
    if not part.startswith(_PART[1:]):
        return _PART.join([part, *parts])
    texts = {one.partition("\n")[0]: one for one in parts}
    part = part.removeprefix(_PART[1:])
    return _PART.join([head, *(texts | {part.partition("\n")[0]: part}).values()])


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

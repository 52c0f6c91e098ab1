"""Markers in pages: ``<!-- made: MAKER WORDS -->`` stands for text that is made from code.

The markers are comments in Markdown, so a page reads well where nobody builds the site. Links to
folders of the repository become plain words, because a folder is no page.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from docs.building import citation, commands, figures, keys, tables

if TYPE_CHECKING:
    from sphinx.application import Sphinx

MAKERS: dict[str, Callable[[str], str]] = {
    "bibtex": citation.bibtex,
    "commands": commands.reference,
    "figures": figures.table_of,
    "keys": keys.reference,
    "names": tables.names,
    "tables": tables.reference,
}
"""Every maker by its name in a marker."""

MARKER = re.compile(r"^<!-- made: (\S+) ?(.*?) -->$", re.MULTILINE)
_LINK = re.compile(r"(?<!!)\[([^\]\[]+)\]\(([^)#\s:]+)\)")
_ANCHOR = re.compile(r'^<a id="([^"]+)"></a>', re.MULTILINE)


def replace_markers(app: Sphinx, name: str, source: list[str]) -> None:
    """Put what is made in place of the markers of a page."""
    if app.env.doc2path(name).suffix != ".md":
        return
    folder = app.env.doc2path(name).parent
    text = MARKER.sub(lambda marker: MAKERS[marker[1]](marker[2]), source[0])
    text = _LINK.sub(lambda link: _without_folder(link, folder, Path(app.srcdir)), text)
    source[0] = _ANCHOR.sub(r"(\1)=\n", text)


def _without_folder(link: re.Match[str], page: Path, top: Path) -> str:
    """The words of a link if it leads to a folder; else the whole link."""
    target = top / link[2][1:] if link[2].startswith("/") else page / link[2]
    return link[1] if target.is_dir() else link[0]

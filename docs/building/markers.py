"""Markers in pages: ``<!-- made: MAKER WORDS -->`` stands for text that is made from code.

The markers are comments in Markdown, so a page reads well where nobody builds the site. Links to
folders of the repository become plain words, because a folder is no page.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

from docs.building import commands, figures, keys
from docs.building.text import cell
from llmprism.io.tables import DIAGNOSIS
from prism_sim.commands.listing import everything, figures_data
from prism_sim.render.markdown import table
from prism_sim.run_folder import LOGS_TRUTH, TRUTH

if TYPE_CHECKING:
    import pyarrow as pa
    from sphinx.application import Sphinx


# The reference of tables and of names, from the schemas and registries of the code.

TABLES = {"diagnosis": DIAGNOSIS, "truth": TRUTH, "logs": LOGS_TRUTH}


def reference(group: str) -> str:
    """Every table of a group, with its columns and their types."""
    return "\n".join(_table(name, schema) for name, schema in TABLES[group].items())


def _table(name: str, schema: pa.Schema) -> str:
    rows = [(f"`{field.name}`", f"{field.type}") for field in schema]
    return f"### `{name}.parquet`\n\n{table(('column', 'type'), rows)}"


def names(topic: str) -> str:
    """The names that ``prism-sim list TOPIC`` prints, each with a sentence."""
    if topic == "figures":
        rows = [
            (f"`{each['figure']}`", cell(each["unit"]), cell(each["better"]), cell(each["about"]))
            for each in figures_data()["figures"]
        ]
        return table(("figure", "unit", "better", "meaning"), rows)
    rows_of_names = [(f"`{name}`", cell(about)) for name, about in everything()[topic].items()]
    return table(("name", "meaning"), rows_of_names)


# How to cite: entries of BibTeX, from ``CITATION.cff``.

CITATION = Path(__file__).resolve().parents[2] / "CITATION.cff"


def bibtex(_: str = "") -> str:
    """The entries of this release, and of the works that a user should cite too."""
    content = yaml.safe_load(CITATION.read_text(encoding="utf-8"))
    entries = [_entry("software", content), *(_entry("misc", it) for it in content["references"])]
    return "```bibtex\n" + "\n".join(entries) + "```\n"


def _entry(kind: str, work: Mapping[str, Any]) -> str:
    arxiv = [it["value"].removeprefix("arXiv:") for it in work.get("identifiers", ())]
    fields = {
        "title": f"{{{work['title']}}}",
        "author": " and ".join(f"{{{author['name']}}}" for author in work["authors"]),
        "year": work.get("year") or str(work["date-released"])[:4],
        "version": work.get("version"),
        "eprint": "".join(arxiv),
        "archiveprefix": "arXiv" if arxiv else None,
        "license": work.get("license"),
    }
    lines = [f"  {name} = {{{value}}},\n" for name, value in fields.items() if value]
    key = work["title"].partition(":")[0].lower()
    return f"@{kind}{{{key},\n{''.join(lines)}}}\n"


MAKERS: dict[str, Callable[[str], str]] = {
    "bibtex": bibtex,
    "commands": commands.reference,
    "figures": figures.table_of,
    "keys": keys.reference,
    "names": names,
    "tables": reference,
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

"""Reference pages have the text of their templates; only the tables are not in the templates."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from prism_sim.render.pages import ENDING
from prism_sim.toolkit import render_page

ROOT = Path(__file__).resolve().parents[2]
TEMPLATES = ROOT / "evaluation" / "templates"
REFERENCE = ROOT / "results" / "reference"
TABLE = re.compile(r"(?:^\|.*\n)+", re.MULTILINE)
TABLES = {
    "captures": ("prism", "exports", "paper"),
    "workloads": ("steps", "plain", "bytes"),
    "twins": (
        *("silences", "counts", "spread", "pairs", "steps", "scores"),
        *("lab_bounds", "lab_counts", "lab_steps"),
    ),
}


def facts(text: str) -> dict[str, Any]:
    """The other values of the templates, read from the committed page."""
    errors = re.findall(
        r"^- (.+), (\d+) runs: median (.+?) %, mean (.+?) %, largest (.+?) %\.$", text, re.MULTILINE
    )
    keys = ("gpu", "runs", "median", "mean", "largest")
    return {"errors": [dict(zip(keys, row, strict=True)) for row in errors]}


def test_every_template_is_checked() -> None:
    names = {path.name.removesuffix(ENDING) for path in TEMPLATES.glob(f"*{ENDING}")}
    elsewhere = {"exam", "operations", "production"}  # in tests of their own
    assert names == {*TABLES, *elsewhere, "evidence"}  # of which there is no page yet


@pytest.mark.parametrize("name", TABLES)
def test_a_committed_page_has_the_words_of_its_template(name: str) -> None:
    text = (REFERENCE / f"{name}.md").read_text()
    template = (TEMPLATES / f"{name}{ENDING}").read_text()
    tables = [table for table in TABLE.findall(text) if table not in template]
    assert len(tables) == len(TABLES[name])
    values = dict(zip(TABLES[name], tables, strict=True))
    assert render_page(TEMPLATES, name, **values, **facts(text)) == text


def test_a_missing_value_is_an_error(tmp_path: Path) -> None:
    from jinja2 import UndefinedError

    (tmp_path / f"x{ENDING}").write_text("{{ there }}, {{ missing }}\n")
    with pytest.raises(UndefinedError, match="missing"):
        render_page(tmp_path, "x", there=0)

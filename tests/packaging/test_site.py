"""The documentation site: its pages have every part that they stand for, and its links are checked.

``make docs`` builds the site, and runs its tutorials and its gallery; these tests need no Sphinx.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import typer

from docs.building.commands import PROGRAMS, reference
from docs.building.gallery import programs
from docs.building.keys import reference as keys
from docs.building.links import broken_links
from docs.building.markers import MAKERS, MARKER, bibtex
from llmprism.io.tables import DIAGNOSIS
from prism_sim import __version__
from prism_sim.faults import KINDS
from prism_sim.loading.bundled import find
from prism_sim.loading.loader import load
from prism_sim.run_folder import TRUTH

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
PAGES = [path for path in DOCS.rglob("*.md") if "made" not in path.relative_to(DOCS).parts]
MARKERS = [
    (path, *found) for path in PAGES for found in MARKER.findall(path.read_text(encoding="utf-8"))
]
EXAMPLES = [*(DOCS / "examples").rglob("plot_*.py")]


@pytest.mark.parametrize(("page", "maker", "words"), MARKERS)
def test_every_marker_stands_for_text(page, maker, words):
    assert MAKERS[maker](words).strip(), page


@pytest.mark.parametrize("program", PROGRAMS)
def test_the_reference_has_every_command_with_every_option(program):
    module = __import__(PROGRAMS[program], fromlist=["app"])
    command = typer.main.get_command(module.app)
    page = reference(program)
    for name in getattr(command, "commands", {}):
        assert f"### {program} {name}\n" in page
        inner = command.commands[name]
        for option in (opt for param in inner.params for opt in param.opts if opt[:2] == "--"):
            assert option in page or option == "--help"


def test_the_reference_has_every_key_of_a_scenario():
    page = keys("scenario")
    assert all(f"## `{kind}`\n" in page for kind in KINDS)
    assert "| `measure_faults` | true or false, default `false` |" in page


def test_the_reference_has_every_table():
    page = "".join(MAKERS["tables"](group) for group in ("diagnosis", "truth"))
    for name, schema in {**DIAGNOSIS, **TRUTH}.items():
        assert f"### `{name}.parquet`" in page
        assert all(f"| `{column}` |" in page for column in schema.names)


def test_the_citation_is_of_this_release():
    assert f"version = {{{__version__}}}" in bibtex()
    assert "eprint = {2505.00342}" in bibtex()


def test_the_gallery_shows_every_kind_of_fault():
    made = programs()
    text = "".join([*made.values(), *(path.read_text(encoding="utf-8") for path in EXAMPLES)])
    scenarios = [load(find(name)) for name in set(re.findall(r'"(faults/[\w-]+)"', text))]
    shown = {fault.kind for scenario in scenarios for fault in scenario.faults}
    shown |= set(re.findall(r'"kind": "(\w+)"', text))
    assert shown >= KINDS.keys()
    assert len(EXAMPLES) + len(made) >= 16


@pytest.mark.parametrize(("name", "text"), programs().items())
def test_a_program_of_the_table_is_python_and_names_scenarios(name, text):
    compile(text, name, "exec")
    scenarios = re.findall(r'"(faults/.*?)"', text)
    assert scenarios
    assert all(find(scenario).is_file() for scenario in scenarios)


def test_links_of_the_site_that_lead_nowhere_are_found(tmp_path):
    (tmp_path / "a.html").write_text('<p id="top"><a href="b.html#end">b</a><a href="#top">t</a>')
    (tmp_path / "b.html").write_text('<a href="https://example.org/x">x</a><img src="c.png">')
    assert sorted(broken_links(tmp_path)) == ["a.html: b.html#end", "b.html: c.png"]

"""README and guides are short, their figures are today's, and what they name is there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from docs.building.figures import with_figures
from guides import README, TEXT, THREE_COMMANDS, blocks
from prism_sim.toolkit import load_scenario

ROOT = Path(__file__).resolve().parents[2]
MOST_WORDS = {"README.md": 900, "ARCHITECTURE.md": 1_200}


@pytest.mark.parametrize("page", MOST_WORDS)
def test_a_stranger_reads_it_in_minutes(page):
    assert len((ROOT / page).read_text(encoding="utf-8").split()) <= MOST_WORDS[page]


def test_files_that_a_stranger_looks_for_are_where_the_architecture_says():
    page = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")
    section = page.split("## Where it happens\n")[1].split("\n## ")[0]
    named = re.findall(r"`(\w+/[\w/.]+)`", section)
    assert len(named) >= 10
    assert {name for name in named if not (ROOT / name).exists()} == set()


def test_its_figures_are_those_of_their_pages():
    assert re.findall(r"figures: (\w+)", README) == ["exam", "evidence"]
    assert with_figures(README) == README


def test_the_guide_has_the_same_three_commands():
    assert blocks("").count("\n".join([*THREE_COMMANDS, ""])) == 2


def test_its_make_targets_exist():
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    named = re.findall(r"(?:^|`)make ([a-z-]+)(?:`|$)", TEXT, re.MULTILINE)
    assert {"quickstart", "test"} <= set(named) <= targets


def test_its_scenario_is_one(tmp_path):
    (text,) = blocks("yaml")
    path = tmp_path / "readme.yaml"
    path.write_text(text)
    assert load_scenario(path).jobs[0].model.name == "llama-13b"

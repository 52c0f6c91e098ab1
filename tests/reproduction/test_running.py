"""All experiments: their runs, their files, and the page."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from prism_common.errors import UserError
from reproduction import base, running, writing
from reproduction.base import Experiment, Trial


def ran(experiment: Experiment, folder: Path, seeds: Sequence[int], **how: bool) -> tuple[int, int]:
    return running.run_trials({"toy": experiment.trials(seeds, False)}, folder, 1, **how)


def test_a_key_covers_only_scenario_settings_and_measurement(toy: Experiment) -> None:
    plain, reduced = toy.trials([1], False)[0], toy.trials([1], True)[0]
    renamed = Trial("toy", "other", plain.scenario.model_copy(update={"name": "x"}), plain.settings)
    assert toy.key(renamed) == toy.key(plain)
    assert toy.key(reduced) != toy.key(plain)


def test_sources_of_pages_do_not_count(tmp_path: Path) -> None:
    (tmp_path / "measure.py").write_text("1")
    (tmp_path / "page.py").write_text("1")
    before = base.sources_digest(tmp_path)
    (tmp_path / "page.py").write_text("2")
    base.sources_digest.cache_clear()
    assert base.sources_digest(tmp_path) == before
    (tmp_path / "measure.py").write_text("2")
    base.sources_digest.cache_clear()
    assert base.sources_digest(tmp_path) != before


def test_the_file_of_a_trial_has_its_scenario(toy: Experiment, tmp_path: Path) -> None:
    ran(toy, tmp_path, [7])
    (path,) = (tmp_path / running.CASES).glob("*.json")
    content = json.loads(path.read_text())
    assert (content["experiment"], content["case"], content["scenario"]["seed"]) == (
        "toy",
        "toy seed 7",
        7,
    )
    assert content["result"] == {"twice": 14}


def test_the_page_has_results_failures_and_gaps(toy: Experiment, tmp_path: Path) -> None:
    ran(toy, tmp_path, [1, 2, 3])
    results = running.results_of({"toy": toy.trials([1, 2, 3], False)}, tmp_path)
    page = tmp_path / "reference" / "paper.md"
    writing.write_page(results, [1, 2, 3], False, page)
    text = page.read_text()
    parts = ["seeds 1 to 3", "## Toy: twice", "ours: 3 (2 to 4)",
             "**seed 3 failed:** ValueError",
             "## What we cannot reproduce, and why", "- only 2 worlds"]  # fmt: skip
    places = [text.index(part) for part in parts]
    assert places == sorted(places)
    assert "Reduced form" not in text
    assert "CPU minutes" not in text  # seconds
    slow = [replace(one, cpu_seconds=3661.0) for one in results]
    writing.write_page(slow, [1, 2, 3], False, page)
    assert "All cases together took 61 CPU minutes." in page.read_text()


def test_an_unknown_experiment_is_refused_with_the_nearest(toy: Experiment) -> None:
    with pytest.raises(UserError, match="did you mean toy"):
        running.chosen(["tov"])
    assert running.chosen(["toy"]) == [toy]
    assert toy in running.chosen([])

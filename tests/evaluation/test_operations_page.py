"""The page of operations has every bundled study, every published figure, and theory's tables."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from evaluation.operations.published import BY_NAME, CLUSTERS
from evaluation.paths import REFERENCE
from prism_sim.loading.bundled import folder
from prism_sim.operations import theory

PAGE = (REFERENCE / "operations.md").read_text(encoding="utf-8")
STUDIES = sorted((folder() / "operations").glob("*.yaml"))


@pytest.mark.parametrize("name", BY_NAME)
def test_published_figures_stand_beside_ours(name: str) -> None:
    figure = BY_NAME[name]
    (row,) = (line for line in PAGE.splitlines() if line.startswith(f"| {figure.what} |"))
    published, simulated = row.split("|")[2:4]
    assert published.strip() == figure.value
    assert any(letter.isdigit() for letter in simulated)


@pytest.mark.parametrize("path", STUDIES, ids=lambda path: path.stem)
def test_policies_of_all_studies_are_on_the_page(path: Path) -> None:
    study = yaml.safe_load(path.read_text())
    names = [policy["name"] for policy in study.get("policies", [])]
    assert [name for name in names if f"| {name} |" not in PAGE] == []


def test_outcomes_of_published_clusters_add_up() -> None:
    for cluster in CLUSTERS.values():
        for of in ("rate_gpu", "rate_gpu_time"):
            parts = [cluster[f"{how}_{of}"] for how in ("complete", "cancel", "fail")]
            assert sum(parts) == pytest.approx(1, abs=0.002)


def test_closed_forms_on_the_page_are_those_of_the_code() -> None:
    for mttf, work, stall, restart in ((108, 22.9, 1, 15), (474, 23.9, 0.6, 15)):
        exact = theory.ettr(work, stall, restart, mttf)
        assert f"| {mttf} | {work:g} | {stall:g} | {restart} | {exact:.3f} |" in PAGE

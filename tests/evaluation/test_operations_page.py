"""The page of operations has every published figure, measured ones, and theory's tables."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from evaluation.operations import page
from evaluation.operations.page import BY_NAME
from evaluation.paths import REFERENCE
from prism_sim.operations import theory
from prism_sim.operations.reading import read_operations
from prism_sim.operations.results import LABELS
from prism_sim.toolkit import scenarios_folder

PAGE = (REFERENCE / "operations.md").read_text(encoding="utf-8")
MEASURED = json.loads((scenarios_folder() / "operations/measured.json").read_text())


@pytest.mark.parametrize("name", BY_NAME)
def test_published_figures_stand_beside_ours(name: str) -> None:
    figure = BY_NAME[name]
    (row,) = (line for line in PAGE.splitlines() if line.startswith(f"| {figure['what']} |"))
    published, simulated = row.split("|")[2:4]
    assert published.strip() == figure["value"]
    assert any(letter.isdigit() for letter in simulated)


def test_methods_have_the_figures_of_their_pages(tmp_path: Path) -> None:
    """If this fails: ``python -m evaluation operations`` reads them, and makes the page again."""
    page.write_measured(path=tmp_path / "measured.json")
    assert json.loads((tmp_path / "measured.json").read_text()) == MEASURED


def test_other_figures_on_their_pages_change_the_study(tmp_path: Path) -> None:
    """The page shows the study, and the study has no numbers of its own."""
    exam = json.loads((REFERENCE / "exam.json").read_text())
    figures = exam["sets"]["exam"]["prism"]["findings"]
    figures["recall"]["value"], figures["precision"]["value"] = 0.8, 0.9
    figures["culprit first"]["value"] = 0.6
    (tmp_path / "exam.json").write_text(json.dumps(exam))
    logs = json.loads((REFERENCE / "logs.json").read_text())
    logs["figures"]["exam"]["prism"]["top_1"]["value"] = 0.707
    (tmp_path / "logs.json").write_text(json.dumps(logs))
    page.write_measured(tmp_path, tmp_path / "measured.json")
    copy = tmp_path / "study.yaml"
    copy.write_text((scenarios_folder() / "operations/what-diagnosis-brings.yaml").read_text())
    study = read_operations(copy)
    assert study.worth is not None
    prism = study.worth.methods["prism"]
    assert (prism.recall, prism.precision, prism.right) == (0.8, 0.9, 0.75)
    assert study.worth.methods["llmlog"].right == 0.707
    (policy,) = (one for one in study.policies if one.name == "standby, prism")
    flows = policy.localisation[0]
    assert (flows.names, flows.right) == (0.8, 0.75)


@pytest.mark.parametrize("method", ["paper", "prism", "llmlog"])
def test_methods_are_on_the_page_at_their_measured_figures(method: str) -> None:
    rows = [line.split(" | ") for line in PAGE.splitlines() if line.startswith(f"| {method} | ")]
    shown = {row[1]: float(row[2]) for row in rows}
    labels = {LABELS[name]: MEASURED[method][name] for name in LABELS if name in MEASURED[method]}
    assert shown == pytest.approx(labels, rel=1e-4)


def test_closed_forms_on_the_page_are_those_of_the_code() -> None:
    for mttf, work, stall, restart in ((108, 22.9, 1, 15), (474, 23.9, 0.6, 15)):
        exact = theory.ettr(work, stall, restart, mttf)
        assert f"| {mttf} | {work:g} | {stall:g} | {restart} | {exact:.3f} |" in PAGE

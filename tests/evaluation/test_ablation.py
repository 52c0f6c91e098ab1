"""Variants of the methods differ from them in one part, and the page follows from its figures."""

from __future__ import annotations

import json

import pytest

from evaluation.study import ablation, hostile, variants
from llmprism import methods
from llmprism.pipeline import diagnose_files
from prism_sim.run_folder import Run
from prism_sim.simulate import simulate

WITHOUT = [one.name for one in variants.REDUCED]
WITH = [one.name for one in variants.REPAIRED]


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    run = Run(tmp_path_factory.mktemp("ablation") / "run")
    simulate(hostile.scenario_of("late-gathers", 21), run)
    return run


def diagnosed(run, method):
    return diagnose_files(run.flows, run.topology, method=method)


@pytest.mark.parametrize("name", [*WITH, *WITHOUT])
def test_a_variant_has_every_table_and_leaves_the_methods_as_they_are(run, name, whole):
    assert len(diagnosed(run, name).pairs) > 0
    after = methods.get("prism")
    assert diagnosed(run, "prism").steps.equals(whole)
    assert after is methods.get("prism")


@pytest.fixture(scope="module")
def whole(run):
    return diagnosed(run, "prism").steps


def test_without_late_gathers_steps_end_later(run, whole):
    other = diagnosed(run, "prism - late gathers").steps
    assert (other["dp_end_ns"] > whole["dp_end_ns"]).any()


def test_kinds_and_jobs_of_prism_are_those_that_paper_returns(run):
    given, ours = diagnosed(run, "paper + all four"), diagnosed(run, "prism")
    kinds = ours.pairs.set_index(["src", "dst"])["kind"]
    found = given.pairs.set_index(["src", "dst"])["kind"]
    both = found.index.intersection(kinds.index[kinds.isin(["dp", "pp"])])
    assert len(both) > 0
    assert found[both].equals(kinds[both])
    assert sorted(given.jobs["address"]) == sorted(ours.jobs["address"])


def test_the_page_follows_from_the_figures_beside_it():
    results = json.loads(ablation.PAGE.with_suffix(".json").read_text())
    assert set(results) == {*hostile.families(), ablation.CAPTURES}
    assert ablation.page_of(results) == ablation.PAGE.read_text()

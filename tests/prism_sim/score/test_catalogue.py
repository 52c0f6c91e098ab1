"""The catalogue has every figure of every score, each with a direction or explicitly none."""

import pytest

from prism_sim.loading.bundled import bundled
from prism_sim.score import CATALOGUE, Score
from prism_sim.score.declare import Better, Figure, Words, declarations
from prism_sim.score.encoding import flatten
from prism_sim.toolkit import Run, load_scenario

DESCRIPTIVE = {
    "counts of the truth or of the answer, neither good nor bad": {
        "jobs.true", "jobs.found", "pairs.total", "timeline.steps_true", "timeline.steps_inferred",
        "timeline.per_job.JOB.steps_true", "faults.injected", "faults.findings",
        "faults.uncounted", "faults.by_kind.FAULT.injected", "faults.matches.FAULT.alarms",
        "parallelism.jobs.JOB.groups.AXIS.true", "meta.rows.SIDE.TABLE", "meta.intake.FIELD",
        "meta.intake.FIELD.REASON",
    },
    "values of the truth or of the answer": {
        "parallelism.jobs.JOB.true.AXIS", "parallelism.jobs.JOB.inferred.AXIS",
        "parallelism.jobs.JOB.micro_batches.true", "parallelism.jobs.JOB.micro_batches.inferred",
        "faults.matches.FAULT.start_ns", "faults.matches.FAULT.end_ns",
        "faults.matches.FAULT.finding",
    },
}  # fmt: skip
"""Figures that are meant to have no direction, by the reason; a new one is added on purpose."""


def test_a_figure_without_a_direction_is_one_on_purpose():
    found = {figure.path for figure in CATALOGUE if not figure.is_judged}
    assert found == set().union(*DESCRIPTIVE.values())


def test_every_figure_has_a_unit_and_a_description():
    for figure in CATALOGUE:
        assert figure.about
        assert figure.unit in ("fraction", "count", "ns") or figure.path.endswith(".finding")
        assert ("ns" in figure.path.rsplit(".")[-1].split("_")) == (figure.unit == "ns")


def test_no_path_is_there_twice():
    paths = CATALOGUE.paths()
    assert len(paths) == len(set(paths))


def check(score):
    """Every number of ``score.json`` is in the catalogue, and every name read back is the same."""
    content = score.to_json()
    numbers = {name for name, value in flatten(content).items() if value is not None}
    numbers.remove("meta.schema")  # the version of the keys, not a figure
    assert [name for name in numbers if CATALOGUE.find(name) is None] == []
    assert Score.from_json(content) == score


def test_every_figure_of_a_perfect_diagnosis_is_in_the_catalogue(world):
    check(Score.from_json(world.score()))


def scored(name, folder):
    """The score of a bundled scenario, whose jobs are cut to a few steps."""
    from llmprism.pipeline import diagnose
    from prism_sim.toolkit import score_run, simulate

    run = Run(folder)
    simulate(load_scenario(bundled()[name]), run)
    diagnose(run.flows, run.topology, method="paper").write(run.diagnosis_folder)
    return score_run(run)


@pytest.mark.parametrize("name", ["tiny/pair", "workloads/experts"])
def test_every_figure_of_a_scenario_is_in_the_catalogue(name, tmp_path):
    check(scored(name, tmp_path))


def test_a_name_in_a_path_matches_anything_and_the_same_thing_twice():
    correct = CATALOGUE.find("pairs.confusion.dp.dp")
    wrong = CATALOGUE.find("pairs.confusion.dp.pp")
    assert (correct.better, wrong.better) == (Better.HIGHER, Better.LOWER)
    assert CATALOGUE.find("timeline.per_job.my.job.coverage").better is Better.HIGHER
    assert CATALOGUE.find("timeline.per_job.coverage") is None
    assert Figure("a.b", "").fits("aXb") is False


def test_every_field_of_every_part_is_declared():
    """A field is a figure, a table, a nested score, or text, but never an undeclared number."""
    seen = [Score]
    for part in seen:
        for name, kind, declaration in declarations(part):
            if declaration is None:
                seen.append(kind)
                assert hasattr(kind, "__dataclass_fields__"), f"{part.__name__}.{name}"
            assert not isinstance(declaration, Words) or declaration.about

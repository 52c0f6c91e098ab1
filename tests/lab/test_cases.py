"""Cases: every one is a scenario that can be simulated, and mistakes are reported at once."""

from __future__ import annotations

from pathlib import Path

import pytest

from lab.case import CASES, find, read_case, twin
from lab.plan import plans
from lab.trainers import MPI, TORCH
from prism_common.errors import UserError

PATHS = sorted(CASES.glob("*.yaml"))


@pytest.mark.parametrize("path", PATHS, ids=lambda path: path.stem)
def test_every_case_has_a_trainer_for_each_job_and_a_twin(path: Path, tmp_path: Path) -> None:
    case = read_case(path)
    assert case.name == path.stem
    assert set(case.lab.trainers.values()) <= set(TORCH) | set(MPI)
    assert len(twin(path).faults) == len(case.scenario.faults) + len(case.lab.pauses)
    for plan in plans(case, tmp_path, tmp_path / "reports"):
        assert len(set(plan.servers)) == plan.ranks
        assert all(len(s.shares) == len(s.parameters) for s in plan.stages)
        assert all(sum(stage.shares) == pytest.approx(1) for stage in plan.stages)


def test_there_are_enough_cases_of_every_kind() -> None:
    cases = [read_case(path) for path in PATHS]
    faulty = [case for case in cases if case.scenario.faults or case.lab.pauses]
    assert len(cases) >= 16
    assert 6 <= len(faulty) <= len(cases) - 6
    assert {name for case in cases for name in case.lab.trainers.values()} == set(TORCH) | set(MPI)
    assert {case.lab.mpi_all_reduce for case in cases} >= {"recursive_doubling", "rabenseifner"}


def test_a_pause_lengthens_its_step_in_the_twin_by_as_much() -> None:
    """Passes that take T, at factor f, take T / f: the difference is the pause."""
    path = find("ddp8-pause")
    case, fault = read_case(path), twin(path).faults[0]
    stage = plans(case, Path(), Path())[0].stages[0]
    work_ms = case.jobs[0].micro_batches * (stage.forward_ns + stage.backward_ns) / 1e6
    assert fault.speed is not None
    assert work_ms / fault.speed - work_ms == pytest.approx(case.lab.pauses[0].pause_ms)


def test_all_mistakes_of_a_case_are_reported_at_once(tmp_path: Path) -> None:
    path = tmp_path / "wrong.yaml"
    text = find("ddp4").read_text().replace("servers: [s0006, s0001, s0004, s0003]", "")
    text = text.replace("placement: {}", "placement: spread").replace("{A: ddp}", "{B: ddp}")
    path.write_text(text)
    with pytest.raises(UserError) as caught:
        read_case(path)
    message = str(caught.value)
    assert "placement must list servers" in message
    assert "'A'" in message
    assert "'B'" in message


def test_a_case_without_its_section_or_with_an_unknown_key_is_refused(tmp_path: Path) -> None:
    text = find("ddp4").read_text()
    path = tmp_path / "case.yaml"
    path.write_text(text.partition("lab:")[0])
    with pytest.raises(UserError, match="`lab` is missing"):
        read_case(path)
    path.write_text(text + "  colour: blue\n")
    with pytest.raises(UserError, match=r"lab\.colour"):
        read_case(path)


def test_an_unknown_case_lists_the_known_ones() -> None:
    with pytest.raises(UserError, match="ddp8-pause"):
        find("nonesuch")

"""A second fault of a job is found beside the first one, and each has its own cost."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from llmprism.methods.prism import faults
from llmprism.methods.prism.faults.suspects import alternatives
from llmprism.methods.prism.faults.suspects.suspects import Suspect
from slow_jobs import STEP_NS
from slow_jobs import job_with as slow_job


def job_with(*slow: tuple[int, int, float]) -> Any:
    """A job some stretches of which are slower by a share; shares add up."""
    return slow_job({(first, last): share for first, last, share in slow})


def rank(job: Any, name: str, first: int, last: int, lost: float, sure: float = 0.9) -> Suspect:
    facts = ("slow_gpu", "address", name, first, last, 0.3, sure, {"one_of": [name]})
    return Suspect(job, "rank", "slow_passes", *facts, lost_share=lost)


def pausing(job: Any, name: str, steps: Sequence[int], lost: float) -> Suspect:
    one = rank(job, name, min(steps), max(steps), lost, 0.8)
    return replace(one, symptom="pauses", evidence={**one.evidence, "steps": [*steps]})


def nic(job: Any, name: str, first: int, last: int, sure: float = 0.8) -> Suspect:
    """A NIC whose transfers take three times as long."""
    evidence = {"slow_bundles": 3, "bundles": 64, "time_ratio": 3.0, "pace_ratio": 3.0}
    facts = ("slow_nic", "address", name, first, last, 0.7, sure, evidence)
    return Suspect(job, "network", "slow_transfers", *facts, lost_share=2.0)


def incast(job: Any, name: str, first: int, last: int, sure: float = 0.9) -> Suspect:
    facts = ("incast_burst", "address", name, first, last, 0.3, sure)
    return Suspect(job, "network", "other_traffic", *facts, lost_share=0.3)


@pytest.fixture
def found(monkeypatch):
    """First and last step, and cost as a share of a step, of the findings by culprit."""

    def of(*suspects: Suspect) -> dict[str, tuple[int, int, float]]:
        monkeypatch.setattr(faults, "CAUSES", (lambda _: suspects,))
        for of_records in ("more_work", "shares_links"):  # there are none
            monkeypatch.setattr(faults, of_records, lambda *_: False)
        monkeypatch.setattr(alternatives, "lost_share", lambda *_, **__: None)
        names = [*"abcd"]
        topology = SimpleNamespace(
            codes={name: code for code, name in enumerate(names)}, addresses=names,
            servers=np.arange(4), endpoints=[SimpleNamespace(server=f"s{i}") for i in range(4)],
        )  # fmt: skip
        context: Any = SimpleNamespace(jobs=[], topology=topology)
        rows = [*faults.find_findings(context).itertuples()]
        return {row.culprit: (row.first_step, row.last_step, row.cost / STEP_NS) for row in rows}

    return of


def test_each_of_two_overlapping_faults_has_its_own_cost(found) -> None:
    """Steps 16 to 19 have both; 12 to 15 only the NIC, 20 to 25 only the rank."""
    job = job_with((12, 19, 0.4), (16, 25, 0.15))
    both = found(nic(job, "a", 12, 19), rank(job, "b", 16, 25, 0.15))
    assert {name: row[:2] for name, row in both.items()} == {"a": (12, 19), "b": (16, 25)}
    assert both["a"][2] == pytest.approx(8 * 0.4, rel=0.05)
    assert both["b"][2] == pytest.approx(10 * 0.15, rel=0.05)


def test_a_view_of_the_same_fault_is_none_of_its_own(found) -> None:
    job = job_with((12, 25, 0.4))
    assert list(found(nic(job, "a", 12, 25), rank(job, "b", 16, 25, 0.2, 0.7))) == ["a"]


@pytest.mark.parametrize(("sure", "named"), [(0.8, ["a"]), (0.45, [])])
def test_steps_that_vary_with_another_fault_are_no_healthy_ones(found, sure, named) -> None:
    """The NIC is slow in 6 to 12; in most steps from 13 on a rank pauses, for longer or less."""
    job = job_with((6, 12, 0.2))
    job.between_ends_ns[13:32] += STEP_NS * np.random.default_rng(4).choice([0.05, 0.3, 0.6], 19)
    own = nic(job, "a", 6, 12, sure)
    assert not found(own)
    both = found(own, pausing(job, "b", range(13, 32), 0.6))
    assert [name for name in both if name == "a"] == named


def test_other_traffic_explains_no_transfers_that_are_slow_only_in_some_of_its_steps(found) -> None:
    """The burst goes on for six steps after the NIC has its full rate again."""
    job = job_with((12, 19, 2.0), (10, 25, 0.05))
    both = found(incast(job, "c", 10, 25), nic(job, "a", 12, 19))
    assert both["a"][2] == pytest.approx(8 * 2.0, rel=0.05)
    assert both["c"][2] == pytest.approx(16 * 0.05, rel=0.3)


def test_other_traffic_that_costs_nothing_beside_what_is_surer_is_no_finding(found) -> None:
    job = job_with((12, 19, 2.0))
    assert list(found(incast(job, "c", 10, 25), nic(job, "a", 12, 19, 0.95))) == ["a"]


@pytest.mark.parametrize(("name", "sure", "named"), [
    ("a", 0.95, ["a", "c"]), ("a", 0.85, ["c"]), ("c", 0.95, ["c"]),
])  # fmt: skip
def test_other_traffic_at_one_nic_explains_no_other_nic(found, name, sure, named) -> None:
    job = job_with((12, 19, 0.3), (12, 21, 0.02))
    assert sorted(found(incast(job, "c", 12, 21), nic(job, name, 12, 19, sure))) == named


def test_other_traffic_that_goes_on_is_not_why_a_rank_was_slow(found) -> None:
    job = job_with((8, 16, 0.3))
    assert list(found(rank(job, "a", 8, 16, 0.3), incast(job, "c", 11, 20))) == ["a"]


def test_a_rank_explains_no_more_than_it_lost(found) -> None:
    """It pauses from 6 on; from 17 to 24 steps are longer by three times as much as it loses."""
    job = job_with((6, 16, 0.2), (17, 24, 0.6))
    both = found(pausing(job, "b", range(6, 25), 0.2), nic(job, "a", 17, 24, 0.7))
    assert list(both) == ["b", "a"]


def test_a_fault_may_begin_in_the_step_in_which_another_one_ends(found) -> None:
    job = job_with((8, 13, 0.06), (14, 24, 0.12))
    both = found(rank(job, "a", 8, 14, 0.06, 0.7), rank(job, "b", 14, 24, 0.12))
    assert {name: row[:2] for name, row in both.items()} == {"a": (8, 14), "b": (14, 24)}


def test_steps_in_which_another_fault_is_are_no_pauses_of_the_same_rank(found) -> None:
    """What pauses in 6 to 9 and 12 to 13 was slow until 9; the NIC makes 11 to 16 longer."""
    job = job_with((6, 9, 0.3), (11, 16, 0.6))
    slow = rank(job, "b", 6, 9, 0.3)
    pauses = pausing(job, "b", (6, 7, 8, 9, 12, 13), 0.3)
    both = found(slow, pauses, nic(job, "a", 11, 16))
    assert both["b"][:2] == (6, 9)
    assert both["b"][2] == pytest.approx(4 * 0.3, rel=0.05)

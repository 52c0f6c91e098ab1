"""The simulation of failures against closed forms."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from prism_sim.operations import theory
from prism_sim.operations.job import Job
from prism_sim.operations.study import Study

MINUTE_S = 60.0


def study_of(mttf_min: float, work_min: float, stall_min: float, restart_min: float) -> Study:
    """A job whose failures are exponential, and known and localised at once."""
    policy: dict[str, Any] = {
        "name": "only",
        "checkpoint": {
            "kind": "sync",
            "stall_s": stall_min * MINUTE_S,
            "interval": {"kind": "fixed", "every_s": work_min * MINUTE_S},
        },
        "detection": {"kind": "timeout", "error_s": 0},
        "localisation": {"kind": "flows", "takes_s": 0},
        "recovery": {"kind": "requeue", "requeue_s": restart_min * MINUTE_S},
    }
    rate = theory.SECONDS_A_DAY / (100 * mttf_min * MINUTE_S)
    failures = {"per_server_day": rate, "causes": ["CPU out of memory"]}
    return Study.model_validate(
        {"servers": 100, "days": 1000, "failures": failures, "policies": [policy], "seeds": 2}
    )


def simulated(study: Study, seeds: int) -> float:
    """The mean effective training time ratio."""
    ends_s = study.days * theory.SECONDS_A_DAY
    runs = [Job(study, study.policies[0], seed).run()[1].work_s for seed in range(seeds)]
    return float(np.mean(runs)) / ends_s


CASES = [(108, 22.9, 1, 15), (474, 23.9, 0.6, 15), (108, 60, 2, 15)]


@pytest.mark.parametrize(("mttf", "work", "stall", "restart"), CASES)
def test_the_ratio_is_that_of_theory(
    mttf: float, work: float, stall: float, restart: float
) -> None:
    expected = theory.ettr(work, stall, restart, mttf)
    found = simulated(study_of(mttf, work, stall, restart), 4)
    assert found == pytest.approx(expected, abs=0.003)


def test_the_approximation_holds_only_where_failures_are_rare() -> None:
    exact, approximate = (
        [form(work, stall, restart, mttf) for mttf, work, stall, restart in CASES]
        for form in (theory.ettr, theory.approximate_ettr)
    )
    assert approximate[1] == pytest.approx(exact[1], abs=0.003)
    assert abs(approximate[0] - exact[0]) > 0.02
    assert abs(approximate[2] - exact[2]) > 0.05


def test_a_sweep_finds_the_optimal_interval() -> None:
    tried = [6.0, 9.0, 14.0, 22.0, 33.0]
    ratios = [simulated(study_of(108, work, 1, 15), 2) for work in tried]
    assert tried[int(np.argmax(ratios))] == 14.0
    assert theory.daly_s(1, 108) == pytest.approx(14.0, abs=0.1)
    assert theory.young_s(1, 108) == pytest.approx(14.7, abs=0.1)


@pytest.mark.parametrize("faulty", [0.00117, 0.0012, 0.00125])
def test_standbys_are_as_published(faulty: float) -> None:
    sizes = [theory.standby_size(servers, faulty, 0.99) for servers in (128, 256, 512, 1024)]
    assert sizes == [2, 2, 3, 4]


@pytest.mark.parametrize("faulty", [0.0011, 0.0014])
def test_other_probabilities_give_other_standbys(faulty: float) -> None:
    sizes = [theory.standby_size(servers, faulty, 0.99) for servers in (128, 256, 512, 1024)]
    assert sizes != [2, 2, 3, 4]


@pytest.mark.parametrize(("gpus", "hours"), [(16_384, 1.8), (131_072, 0.23)])
def test_projections_of_meta_follow_from_the_rate(gpus: int, hours: float) -> None:
    assert theory.mttf_s(gpus // 8, 0.0065) / 3600 == pytest.approx(hours, rel=0.03)


def test_the_measured_mttf_at_1024_gpus_does_not_follow_from_the_rate() -> None:
    """Meta measured 7.9 h. Smaller jobs are interrupted by more than failures of servers."""
    assert theory.mttf_s(128, 0.0065) / 3600 > 3 * 7.9

"""The simulation of failures against closed forms."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from prism_sim.operations import theory
from prism_sim.operations.checkpoints import CHECKPOINTS
from prism_sim.operations.detections import DETECTIONS
from prism_sim.operations.intervals import INTERVALS
from prism_sim.operations.job import Job, failures_of
from prism_sim.operations.localisations import LOCALISATIONS
from prism_sim.operations.recoveries import RECOVERIES
from prism_sim.operations.study import Study
from prism_sim.operations.times import TIMES

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


def policy_of(checkpoint: dict[str, Any]) -> dict[str, Any]:
    return {
        "name": "only",
        "checkpoint": checkpoint,
        "detection": {"kind": "timeout", "error_s": 0},
        "localisation": "flows",
        "recovery": {"kind": "requeue", "requeue_s": 900},
    }


def test_a_learned_interval_comes_close_to_the_best() -> None:
    """The guess is wrong by a factor of 13; after some failures it does not matter."""
    study = study_of(108, 14, 1, 15)
    learned = {"kind": "sync", "stall_s": 60, "interval": {"kind": "learned", "guess_s": 86_400}}
    policies = [policy_of(learned)]
    found = Study.model_validate(study.model_dump(mode="json") | {"policies": policies})
    assert simulated(found, 2) == pytest.approx(simulated(study, 2), abs=0.003)


@pytest.mark.parametrize(("shape", "variation"), [(1.0, 1.0), (0.6, 1.76)])
def test_weibull_times_vary_as_those_of_the_public_trace(shape: float, variation: float) -> None:
    """InfiniteHBD's times between faults have a coefficient of variation of 1.76."""
    between = {"kind": "weibull", "shape": shape}
    failures = {"per_server_day": 0.0065, "between": between}
    data = study_of(108, 14, 1, 15).model_dump(mode="json") | {"failures": failures, "days": 3000}
    times_s = [one.at_s for one in failures_of(Study.model_validate(data), 1)]
    gaps = np.diff(times_s)
    assert gaps.std() / gaps.mean() == pytest.approx(variation, rel=0.1)


@pytest.mark.parametrize("kind", TIMES)
def test_durations_have_the_mean_that_a_study_gives(kind: str) -> None:
    shape = {"weibull": {"shape": 0.6}, "lognormal": {"sigma": 1}}.get(kind, {})
    durations = TIMES[kind].model_validate(shape).unit(np.random.default_rng(3), 200_000)
    assert durations.min() > 0
    assert durations.mean() == pytest.approx(1, abs=0.02)


NEEDED: dict[str, dict[str, Any]] = {
    "sync": {"stall_s": 60},
    "async": {"stall_s": 1, "write_s": 60},
    "every_step": {"step_s": 10},
    "fixed": {"every_s": 1800},
    "steps": {"every": 180, "step_s": 10},
    "diagnoser": {"recall": 0.5, "precision": 0.5},
    "evict_group": {"group_servers": 4, "spares": 8},
}
"""What kinds of parts need in a study."""
PARTS = {"detection": DETECTIONS, "localisation": LOCALISATIONS, "recovery": RECOVERIES}
KINDS = [(part, kind) for part, kinds in PARTS.items() for kind in kinds]
KINDS += [("checkpoint", kind) for kind in CHECKPOINTS]
KINDS += [("interval", kind) for kind in INTERVALS]


@pytest.mark.parametrize(("part", "kind"), KINDS)
@pytest.mark.parametrize("seed", [1, 77])
def test_every_kind_of_every_part_keeps_account(part: str, kind: str, seed: int) -> None:
    """Time is either kept or lost to a cause, under any policy."""
    built = {"kind": kind} | NEEDED.get(kind, {})
    saved = {"kind": "sync", "stall_s": 60, "interval": built}
    policy = policy_of({"kind": "sync", "stall_s": 60})
    policy |= {"checkpoint": saved} if part == "interval" else {part: built}
    failures = {"per_server_day": 0.05, "slow": 0.1}
    data = {"servers": 100, "days": 60, "failures": failures, "policies": [policy]}
    study = Study.model_validate(data)
    ledger, progress = Job(study, study.policies[0], seed).run()
    whole_s = study.days * theory.SECONDS_A_DAY
    assert 0 < progress.work_s < whole_s
    assert progress.work_s + sum(ledger.lost_s.values()) == pytest.approx(whole_s, rel=0.002)


def test_few_servers_have_the_published_share_of_failures() -> None:
    failures = {"per_server_day": 0.0065, "offenders": {"part": 0.0575, "share": 0.28}}
    data = study_of(108, 14, 1, 15).model_dump(mode="json")
    study = Study.model_validate(data | {"failures": failures, "servers": 400, "days": 3650})
    found = failures_of(study, 1)
    few = [one for one in found if one.server < 23]
    assert len(few) / len(found) == pytest.approx(0.28, abs=0.02)
    repeated = sum(one.repeated for one in few) / len(few)
    assert repeated == pytest.approx(1 - (0.72 / 0.9425) / (0.28 / 0.0575), abs=0.03)


def test_a_spike_of_the_loss_costs_all_work_until_it_is_noticed() -> None:
    """One spike: the time until it is noticed, the search and the restart are lost."""
    failures = {"per_server_day": 0.001, "causes": ["NaN"]}
    by_hand = policy_of({"kind": "every_step", "step_s": 10, "stall_s": 0})
    by_program = by_hand | {
        "name": "program",
        "detection": "loss_monitor",
        "recovery": ["rollback", "requeue"],
    }
    data = {"servers": 100, "days": 100, "failures": failures, "policies": [by_hand, by_program]}
    study = Study.model_validate(data)
    number = len(failures_of(study, 1))
    lost_s = [
        study.days * theory.SECONDS_A_DAY - Job(study, policy, 1).run()[1].work_s
        for policy in study.policies
    ]
    assert lost_s[0] == pytest.approx(number * (3600 + 900 + 900), rel=0.01)
    assert lost_s[1] == pytest.approx(number * (60 + 65), rel=0.1)


def test_a_rollback_goes_to_a_checkpoint_before_the_spike() -> None:
    """On average, half of an interval was done since that checkpoint."""
    every_s = 7200
    fixed = {"kind": "fixed", "every_s": every_s}
    policy = policy_of({"kind": "sync", "stall_s": 0.001, "interval": fixed})
    policy |= {"detection": "loss_monitor", "recovery": "rollback"}
    failures = {"per_server_day": 0.005, "causes": ["NaN"]}
    data = {"servers": 100, "days": 1000, "failures": failures, "policies": [policy]}
    study = Study.model_validate(data)
    number = len(failures_of(study, 1))
    lost_s = study.days * theory.SECONDS_A_DAY - Job(study, study.policies[0], 1).run()[1].work_s
    assert lost_s / number == pytest.approx(every_s / 2 + 60 + 65, rel=0.06)


def test_retired_servers_fail_as_ordinary_ones() -> None:
    """Of the failures of repeat offenders, those that an ordinary server would have remain."""
    failures = {"per_server_day": 0.02, "offenders": {"part": 0.05, "share": 0.4}}
    kept = policy_of({"kind": "every_step", "step_s": 10})
    retired = kept | {"name": "retire", "retire_after": 1}
    data = {"servers": 100, "days": 1000, "failures": failures | {"causes": ["GPU memory"]}}
    study = Study.model_validate(data | {"policies": [kept, retired]})
    handled = [len(Job(study, policy, 1).run()[0].recover_s) for policy in study.policies]
    prevented = sum(one.repeated for one in failures_of(study, 1))
    assert handled[0] == pytest.approx(len(failures_of(study, 1)), abs=2)
    assert handled[0] - handled[1] == pytest.approx(prevented, abs=7)

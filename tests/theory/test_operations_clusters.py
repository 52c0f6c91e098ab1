"""Clusters of operations studies against closed forms: shared links, queues, single trials."""

from __future__ import annotations

from math import factorial

import pytest
import simpy

from prism_sim.operations.evaluating.cluster import Cluster
from prism_sim.operations.evaluating.link import SharedLink
from prism_sim.operations.evaluating.study import Evaluation, Scheduler
from prism_sim.operations.evaluating.trials import packed, trials_of
from prism_sim.operations.quarter import results
from prism_sim.operations.quarter.study import Quarter


def test_transfers_share_a_link_equally() -> None:
    env = simpy.Environment()
    link, log = SharedLink(env, rate=2.0), []

    def transfer(at_s: float, size: float) -> object:
        yield env.timeout(at_s)
        yield link.transfer(size)
        log.append((round(env.now, 9), size))

    for at_s, size in ((0.0, 4.0), (0.0, 8.0), (3.0, 1.0)):
        env.process(transfer(at_s, size))
    env.run()
    # Rates: 1 and 1 until 3 s, 2/3 each until the third ends at 4.5 s, and the first with it.
    assert log == [(4.5, 4.0), (4.5, 1.0), (6.5, 8.0)]


BASE = Scheduler(name="base")
SHARED = Scheduler(name="all", shared_memory=True, metric_on_cpu=True, packing=True)


def test_a_single_trial_takes_the_sum_of_its_phases() -> None:
    study = Evaluation(datasets=1, schedulers=(BASE,))
    (trial,) = trials_of(study, 3)
    alone_s = 14 / (25 / 8) + trial.preprocess_s + trial.inference_s + trial.metric_s
    assert Cluster(study, BASE, 1, 3).run().makespan_s == pytest.approx(alone_s)


def test_loading_takes_as_long_as_all_models_take_through_the_link() -> None:
    study = Evaluation(datasets=8, preprocess_s=0, schedulers=(BASE, SHARED))
    apart = Cluster(study, BASE, 1, 3).run().phases_s["load"]
    assert apart == pytest.approx(8 * 8 * 14 / (25 / 8))
    shared = study.model_copy(update={"part_s": 1e9})
    once = Cluster(shared, SHARED, 1, 3).run().phases_s["load"]
    assert once == pytest.approx(8 * (14 / (25 / 8) + 14 / 20))


def test_parts_keep_all_work_and_are_as_short_as_asked() -> None:
    study = Evaluation(schedulers=(BASE,))
    trials = trials_of(study, 1)
    parts = packed(trials, 60)
    for phase in ("preprocess_s", "inference_s", "metric_s"):
        done, asked = (sum(getattr(one, phase) for one in several) for several in (parts, trials))
        assert done == pytest.approx(asked)
    lengths = [part.prior_s for part in parts]
    assert lengths == sorted(lengths, reverse=True)
    assert lengths[0] <= 60


def test_no_scheduler_beats_the_work_or_the_longest_part() -> None:
    study = Evaluation(schedulers=(BASE, SHARED))
    for scheduler in study.schedulers:
        outcome = Cluster(study, scheduler, 1, 5).run()
        assert outcome.makespan_s >= outcome.held_s / study.gpus_per_node - 1e-6


def erlang_c(servers: int, load: float) -> float:
    """Probability that a job of an M/M/c queue waits, for an offered load [erlang]."""
    last = load**servers / factorial(servers) * servers / (servers - load)
    return last / (sum(load**n / factorial(n) for n in range(servers)) + last)


def test_the_queue_is_that_of_erlang() -> None:
    gpus, load, run_s = 8, 6.0, 3600.0
    one = {"name": "one", "share": 1, "gpus": {1: 1}, "run_s": run_s, "spread": "exponential"}
    study = Quarter.model_validate(
        {
            "servers": 1,
            "days": 365,
            "jobs_per_day": load * 24,
            "per_server_day": 0,
            "types": [one],
            "seeds": 3,
        }
    )
    found = results.summary(study, results.table_of(study))
    expected_s = erlang_c(gpus, load) * run_s / (gpus - load)
    assert found["avg_que_time_gpu"] == pytest.approx(expected_s, rel=0.05)
    assert found["utilisation"] == pytest.approx(load / gpus, rel=0.01)


def test_faulty_servers_end_jobs_at_their_rate() -> None:
    one = {"name": "one", "share": 1, "gpus": {16: 1}, "run_s": 86_400, "spread": "exponential"}
    study = Quarter.model_validate(
        {"servers": 50, "days": 365, "jobs_per_day": 10, "per_server_day": 0.05, "types": [one]}
    )
    found = results.summary(study, results.table_of(study))
    # Two servers fail 0.1 times a day in all, a job ends by itself once a day.
    assert found["fail_rate_gpu"] == pytest.approx(0.1 / 1.1, abs=0.006)

"""Steps that are longer for a while are reported, also where no rank or link stands apart."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

from llmprism.methods.prism.faults.causes.unexplained import unexplained


def phases_of(*restarts: int) -> SimpleNamespace:
    return SimpleNamespace(classes=[], first_of_epoch=np.array([0, *restarts]))


def job_of(
    slow: dict[int, float], steps: int = 30, noise: float = 0.01, restarts: tuple[int, ...] = ()
) -> SimpleNamespace:
    """Steps of 100 ms, some of them longer by a factor."""
    duration = 1e8 * (1 + noise * np.random.default_rng(4).standard_normal(steps))
    for step, factor in slow.items():
        duration[step] *= factor
    job = SimpleNamespace(name="job-0", duration_ns=duration, phases=phases_of(*restarts))
    job.between_ends_ns, job.tick_ns, job.period_ns = duration, 0.0, 0.0
    job.count = steps
    return job


def found(job, named=()):
    job.between_ends_ns = job.duration_ns
    return [(s.first, s.last) for s in unexplained(SimpleNamespace(jobs=[job], measured={}), named)]


@pytest.mark.parametrize("factor", [1.1, 1.4])
def test_a_lasting_stretch_is_reported_with_its_steps(factor):
    assert found(job_of(dict.fromkeys(range(10, 18), factor))) == [(10, 17)]


def test_a_lasting_stretch_is_reported_in_spite_of_checkpoints():
    slow = dict.fromkeys(range(11, 18), 1.18)
    slow |= {step: slow.get(step, 1.0) * 2.8 for step in range(5, 30, 5)}
    assert found(job_of(slow)) == [(11, 17)]


def test_work_that_becomes_uneven_is_reported_to_the_end():
    """Its steps vary by a quarter, and last for most of the recording."""
    rng = np.random.default_rng(5)
    uneven = {step: 1.15 + 0.6 * rng.random() for step in range(7, 30)}
    assert found(job_of(uneven, noise=0.003)) == [(7, 29)]


def test_the_longest_of_uneven_steps_are_not_all_of_them():
    """At the end they are longer still, and only these stand out from what the others vary."""
    rng = np.random.default_rng(6)
    uneven = {step: 1.08 + 0.3 * rng.random() for step in range(9, 21)}
    uneven |= {step: 1.6 + 0.2 * rng.random() for step in range(21, 30)}
    assert found(job_of(uneven, noise=0.003)) == [(9, 29)]


def test_steps_that_are_far_longer_are_a_stretch_of_their_own():
    """After a fault the steps of a real job need not be as short as before it [ms]."""
    job = job_of({})
    before, slow = [923, 855, 883, 851, 854, 842, 816, 848], [4744, 4717, 4667, 4743, 4623]
    job.duration_ns = 1e6 * np.array([*before, *slow, 979, 971, 1230, 675, 923])
    assert found(job) == [(8, 12)]


@pytest.mark.parametrize("seed", range(40))
def test_steps_that_always_vary_are_not_reported(seed):
    duration = 1e8 * np.random.default_rng(seed).lognormal(0, 0.15, 30)
    job = job_of({})
    job.duration_ns = duration
    assert found(job) == []


def test_the_magnitude_is_the_share_of_speed_that_is_lost():
    job = job_of(dict.fromkeys(range(10, 18), 1.25))
    (suspect,) = unexplained(SimpleNamespace(jobs=[job], measured={}), [])
    assert suspect.magnitude == pytest.approx(0.2, abs=0.02)


@pytest.mark.parametrize(
    "slow",
    [
        {},
        dict.fromkeys(range(4, 30, 5), 1.8),
        dict.fromkeys(range(10, 13), 1.5),
        dict.fromkeys(range(5), 1.5),
    ],
    ids=["healthy", "checkpoints", "three steps", "warm-up"],
)
def test_pauses_and_the_first_steps_are_not(slow):
    assert found(job_of(slow)) == []


def test_a_stretch_that_a_finding_explains_is_not_reported_again():
    job = job_of(dict.fromkeys(range(10, 18), 1.3))
    other = SimpleNamespace(job=SimpleNamespace(name="job-1"), first=10, last=17)
    assert found(job, [SimpleNamespace(job=job, first=8, last=11)]) == []
    assert found(job, [other]) == [(10, 17)]


@pytest.mark.filterwarnings("error")
def test_steps_of_unknown_length_are_left_out_silently():
    job = job_of(dict.fromkeys(range(20, 30), 1.3))
    job.duration_ns[:8] = np.nan
    assert found(job) == [(20, 29)]
    job.duration_ns[20:] /= 1.3
    assert found(job) == []


def context_of(*volumes: tuple[int, int, int], again: bool = True) -> SimpleNamespace:
    """A job that sends ``bytes`` of gradients from one endpoint to another in each step.

    Steps 10 to 19 are longer. Each connection begins 1 ms after the other, or in these steps at
    times that are divided ``again``.
    """
    job = job_of({step: 1.3 + 0.02 * (step % 5) for step in range(10, 20)}, noise=0.001)
    src, dst, size = (np.array(column) for column in zip(*volumes, strict=True))
    rows = np.arange(src.size * job.count)
    begins = 1e6 * np.random.default_rng(2).normal(1, 0.01, (job.count, src.size)).cumsum(axis=1).T
    begins[:, 10:20] *= np.random.default_rng(3).uniform(1, 2, 10) if again else 1.3
    start_ns = (begins + 1e8 * np.arange(job.count)).astype(np.int64).ravel()
    one = SimpleNamespace(connections=np.arange(src.size), traffic=SimpleNamespace(row=rows))
    part = SimpleNamespace(kind="dp", one=one, cells=lambda *_: (rows, rows))
    job.phases.classes.append(part)
    job.ranks = SimpleNamespace(origin_ns=0)
    of_row = np.repeat(np.arange(src.size), job.count)
    connections = SimpleNamespace(src=src, dst=dst, of_row=of_row, size=np.repeat(size, job.count))
    flows = SimpleNamespace(start_ns=start_ns, end_ns=start_ns + 123_457)
    return SimpleNamespace(jobs=[job], connections=connections, flows=flows, measured={})


RING = [(rank, (rank + 1) % 4, 100) for rank in range(4)]
EXPERTS = [(rank, (rank + 2) % 4, 900) for rank in range(4)]


IMBALANCES = {"length_imbalance", "expert_imbalance"}


@pytest.mark.parametrize(
    ("volumes", "cause"), [(RING, "length_imbalance"), ([*RING, *EXPERTS], "expert_imbalance")]
)
def test_steps_that_differ_more_than_healthy_ones_are_unevenly_divided_work(volumes, cause):
    """Ranks that reduce two sizes of gradients, in two groups, have experts; both are named."""
    (suspect,) = unexplained(context_of(*volumes), [])
    assert suspect.cause == cause
    assert {cause, *suspect.evidence["or_causes"]} == {*IMBALANCES, "unknown"}


def test_steps_of_experts_that_differ_are_none_if_collectives_begin_alike():
    """A rank that pauses makes steps differ, too, and the experts of its server wait for it."""
    (suspect,) = unexplained(context_of(*RING, *EXPERTS, again=False), [])
    assert suspect.cause == "unknown"


def guess_of(job, confidence):
    return SimpleNamespace(
        job=job, first=10, last=17, culprit_kind="link", culprit="a|b", confidence=confidence
    )


@pytest.mark.parametrize(("confidence", "named"), [(0.25, "a|b"), (0.1, "job-0")])
def test_a_guess_is_reported_only_where_nothing_else_explains_the_steps(confidence, named):
    job = job_of(dict.fromkeys(range(10, 18), 1.3))
    (one,) = unexplained(SimpleNamespace(jobs=[job], measured={}), [], [guess_of(job, confidence)])
    assert one.culprit == named


@pytest.mark.parametrize(("slow", "reported"), [(range(1, 14), []), (range(5, 12), [(5, 11)])])
def test_a_whole_attempt_that_is_slower_than_the_next_one_is_not_reported(slow, reported):
    """The job was restarted at step 14, and may run on other servers since."""
    assert found(job_of(dict.fromkeys(slow, 1.15), restarts=(14,))) == reported


@pytest.mark.parametrize(("first", "reported"), [(16, []), (19, [(19, 29)])])
def test_nearly_all_steps_after_a_restart_are_its_own_pace(first, reported):
    """The first step after it holds the silence, and another one may vary."""
    slow = dict.fromkeys(range(first, 30), 1.15)
    assert found(job_of(slow, restarts=(14,))) == reported


def test_checkpoints_that_vary_do_not_hide_two_levels():
    """Steps of the upper level vary so much that no step alone is out."""
    rng = np.random.default_rng(10)
    slow = {step: 1.03 + 0.15 * rng.random() for step in range(11, 30)}
    slow |= {step: slow.get(step, 1.0) + 1.2 for step in range(5, 30, 5)}
    slow[5] += 0.06
    slow[10] += 0.06
    assert found(job_of(slow, noise=0.004)) == [(11, 29)]

"""Which part of the network slow transfers accuse."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from llmprism.methods.prism.faults.causes.slow_parts import by_pace, less_sure, lost_by_time
from llmprism.methods.prism.faults.measures.bundles import Bundle, bundles_of
from llmprism.methods.prism.faults.measures.tomography import Part
from llmprism.methods.prism.faults.measures.wire_time import LostTime
from llmprism.methods.prism.faults.suspects.suspects import Suspect
from paces import rates_of


@pytest.mark.parametrize(("beside", "named"), [(False, None), (True, "leaf")])
def test_a_switch_that_all_transfers_cross_is_not_shown_by_the_time_that_they_take(
    monkeypatch, beside, named
):
    """All transfers last longer, as they also do while they wait for a late rank."""
    crosses = [frozenset({f"nic{i}", "leaf"}) for i in range(4)]
    crosses += [frozenset({"nic4", "other"})] * beside
    share = np.array([0.2] * 4 + [0.0] * beside)
    rates = SimpleNamespace(crosses=crosses, kind=["dp"] * share.size)
    lost = LostTime(rates, share, share, 1 + share)
    parts = [Part("leaf", 1.0, 1.0, 4), *(Part(f"nic{i}", 0.25, 1.0, 1) for i in range(4))]
    flows = SimpleNamespace(optional={}, meta={})
    context = SimpleNamespace(topology=SimpleNamespace(codes={}), flows=flows)
    job = SimpleNamespace(name="job-0")
    monkeypatch.setattr(Suspect, "is_believed", True)
    found = lost_by_time(context, job, lost, parts, (4, 9), "", "")
    assert (found and found.culprit) == named


@pytest.mark.parametrize("beside", [1.0, 3.0])
def test_hops_at_the_pace_of_a_slow_one_are_no_transfers_that_all_compete(beside):
    """All five hops of a ring go at the pace of the first one; another transfer is ``beside``."""
    ring = rates_of([3.0] * 5, [0.002] * 5, [3.0, 1.4, 1.3, 1.4, 1.4], [0] * 5)
    others = [Bundle("pp", frozenset({"nic9"}), False, beside)]
    bundles = [*bundles_of(ring, 6, 11), *others]
    flows = SimpleNamespace(optional={}, meta={})
    context = SimpleNamespace(topology=SimpleNamespace(codes={"nic0": 0}), flows=flows)
    none = LostTime(ring, *np.zeros((3, 5)))
    best, suspect = by_pace(context, SimpleNamespace(name="job-0"), bundles, (6, 11), [none], [])
    assert (best, suspect and suspect.culprit) == (("nic0", "nic0") if beside == 1 else ("", None))


LEAF = {"leaf": 0.3, "one uplink": 0.03}
"""What a hop over the other uplink of the leaf lost, of a step."""


@pytest.mark.parametrize(("lost_by", "named"), [("leaf", "leaf"), ("one uplink", "leaf|spine0")])
@pytest.mark.parametrize("way", ["|", ">"])
def test_a_switch_is_slow_if_its_other_transfers_lost_more_than_those_that_wait(
    lost_by, named, way
):
    """Three transfers share one uplink of a leaf, and a single one has the other uplink."""
    uplinks = ["leaf|spine0", "leaf>spine0", "leaf>up", "leaf"]
    other = ["leaf|spine1", "leaf>spine1", "leaf>up", "leaf"]
    crosses = [frozenset(uplinks)] * 3 + [frozenset(other)] + [frozenset({"rest"})] * 3
    share = np.array([1.0, 1.0, 1.0, LEAF[lost_by], 0.02, 0.0, 0.03])
    rates = SimpleNamespace(crosses=crosses, kind=["dp"] * 7, group=np.zeros(7, int))
    lost = LostTime(rates, share, share, 1 + share)
    slow = [Bundle("dp", cross, True, 4.0) for cross in crosses[:3]]
    rest = [Bundle("dp", cross, False, 1.0, i) for i, cross in enumerate(crosses[3:])]
    link = frozenset({f"leaf{way}spine0", "leaf", "leaf>up"})
    bundles = [*(replace(one, crosses=one.crosses & link) for one in slow), *rest]
    paths = ["leaf|spine0|?", "?|spine0|leaf"]
    flows = SimpleNamespace(optional={}, meta={}, paths=paths)
    context = SimpleNamespace(topology=SimpleNamespace(codes={}), flows=flows, measured={})
    job = SimpleNamespace(name="job-0")
    jobs = [LostTime(rates, *np.zeros((3, share.size))), lost]  # any job shows it
    suspect = by_pace(context, job, bundles, (4, 9), jobs, [])[1]
    assert suspect is not None
    assert suspect.culprit == named


def across_a_leaf(slow: list[bool], ratio: float, stages: int = 2) -> Suspect:
    """What is accused if some transfers of a job are slower, all of which cross one leaf."""
    paces = [ratio if one else 1.0 for one in slow]
    bundles = [
        Bundle("dp", frozenset({"leaf", f"nic{i}"}), one, pace, i)
        for i, (one, pace) in enumerate(zip(slow, paces, strict=True))
    ]
    flows = SimpleNamespace(optional={}, meta={}, paths=[])
    context = SimpleNamespace(topology=SimpleNamespace(codes={}), flows=flows, measured={})
    job = SimpleNamespace(name="job-0", pipelines=SimpleNamespace(length=stages))
    suspect = by_pace(context, job, bundles, (4, 9), [], [])[1]
    assert suspect is not None
    assert suspect.culprit == "leaf"
    return suspect


@pytest.mark.parametrize(
    ("slow", "ratio", "share"), [(8, 1.6, 1.0), (8, 1.3, 0.5), (4, 3.0, 0.5), (4, 1.3, 0.5)]
)
def test_a_switch_is_less_sure_if_its_transfers_may_as_well_wait(slow, ratio, share):
    """All transfers cross it: they take little longer, or half of them are as fast as ever."""
    one = across_a_leaf([True] * slow + [False] * (8 - slow), ratio)
    assert less_sure(one).confidence == pytest.approx(share * one.confidence)


@pytest.mark.parametrize(("jobs", "share"), [(["job-0"], 0.5), (["job-0", "job-1"], 1.0)])
def test_all_transfers_of_one_job_without_a_pipeline_may_wait_for_a_rank_that_pauses(jobs, share):
    """Those of two jobs do not wait for the same rank."""
    one = across_a_leaf([True] * 8, 3.0, stages=1)
    one = replace(one, evidence={**one.evidence, "slow_in_jobs": jobs})
    assert less_sure(one).confidence == pytest.approx(share * one.confidence)

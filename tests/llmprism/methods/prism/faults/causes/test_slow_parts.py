"""Which part of the network slow transfers accuse."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

from llmprism.methods.prism.faults.causes.slow_parts import by_pace, lost_by_time
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
    best, suspect = by_pace(context, SimpleNamespace(name="job-0"), bundles, (6, 11), [])
    assert (best, suspect and suspect.culprit) == (("nic0", "nic0") if beside == 1 else ("", None))

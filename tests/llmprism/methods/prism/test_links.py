"""Which fault a part of the network names that is slow in one direction."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from llmprism.methods.prism.links import culprit_of

TWO_TIERS = ["leaf0|spine0|leaf1", "leaf1|spine0|leaf0", "leaf0"]
THREE_TIERS = [*TWO_TIERS, "leaf0|spine0|core0|spine1|leaf2", "leaf2|spine1|core0|spine0|leaf0"]


@pytest.mark.parametrize(
    ("paths", "part", "cause"),
    [
        (TWO_TIERS, "leaf0>up", "misconfigured_switch"),
        (TWO_TIERS, "spine0>down", "slow_switch"),  # it sends nothing upwards
        (THREE_TIERS, "spine0>down", "misconfigured_switch"),
        (THREE_TIERS, "core0>down", "slow_switch"),
    ],
)
def test_a_switch_that_sends_one_way_only_is_slow_as_a_whole(paths, part, cause):
    flows = SimpleNamespace(paths=paths)
    context: Any = SimpleNamespace(flows=flows, topology=SimpleNamespace(codes={}), measured={})
    assert culprit_of(context, part) == ("switch", part.split(">")[0], cause)

"""Which of several parts of the network that explain as much comes first."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from llmprism.methods.prism.faults.measures.likelihood import preferred
from llmprism.methods.prism.faults.measures.tomography import Part


@pytest.mark.parametrize(
    ("parts", "first"),
    [
        (["a|spine", "b|spine", "spine"], "spine"),  # all that is slow crosses both of its links
        (["a|spine", "spine"], "a|spine"),  # the only link of it that is seen
        (["a|spine", "b|spine", "spine", "10.0.0.1"], "10.0.0.1"),
    ],
)
def test_a_switch_of_which_two_links_look_slow_is_likelier_than_either(parts, first):
    best = [Part(name, 1.0, 0.9, 5) for name in parts]
    context: Any = SimpleNamespace(topology=SimpleNamespace(codes={"10.0.0.1": 0}))
    assert preferred(context, best)[0].name == first


@pytest.mark.parametrize(("others", "first"), [(0.0, "10.0.0.2"), (0.6, "10.0.0.1")])
def test_the_end_of_a_slow_transfer_whose_other_transfers_lost_time_as_well_comes_first(
    others, first
):
    """All that is slow goes from the first to the second; else the receiver is likelier."""
    best = [Part(name, 1.0, 1.0, 1) for name in ("10.0.0.1>out", "10.0.0.2>in")]
    by_time = [*best, Part("10.0.0.1", 1.0, max(0.4, others), 2), Part("10.0.0.2", 1.0, 0.4, 1)]
    codes = {"10.0.0.1": 0, "10.0.0.2": 1}
    context: Any = SimpleNamespace(topology=SimpleNamespace(codes=codes))
    assert preferred(context, best, by_time)[0].name.split(">")[0] == first

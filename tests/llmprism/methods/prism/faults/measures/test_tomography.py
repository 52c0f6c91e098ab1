"""Which part of the network explains what is slow."""

from __future__ import annotations

from llmprism.methods.prism.faults.measures.tomography import equals, ranked


def through(*names):
    return [frozenset(one.split()) for one in names]


def test_the_part_that_explains_most_is_named_though_one_transfer_is_slow_by_itself():
    """Of a NIC all transfers are slow; of its switch half of them are healthy."""
    slow = through("nic switch", "nic switch", "other switch")
    healthy = through("third switch", "fourth switch", "fifth switch")
    assert [part.name for part in equals(ranked(slow, healthy))] == ["nic"]


def test_no_part_is_named_that_half_of_what_is_slow_does_not_cross():
    slow = through("a", "a", "b", "b")
    assert equals(ranked(slow, [])) == []

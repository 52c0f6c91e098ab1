"""What repeats may be buckets of a step."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from llmprism.methods.prism.classes.classes import Component
from llmprism.methods.prism.jobs.partial_steps import _are_buckets
from llmprism.methods.prism.segment.stepping import Part
from rings import ring, stepping

MS = 1_000_000


@pytest.mark.parametrize("silence_ms", [0, 20_000])
@pytest.mark.parametrize(
    ("rest_ms", "messages", "buckets"),
    [(-1, 1, True), (-1, 5, True), (16, 1, True), (16, 5, False), (40, 1, False)],
)
def test_what_repeats_with_little_rest_between_long_silences_are_buckets(
    silence_ms, rest_ms, messages, buckets
):
    """A step of one bucket rests for a forward pass; one of several may be slow to communicate."""
    ends = 100 * np.arange(1, 101)
    ends[50:] += silence_ms
    own = stepping(ends)
    own = replace(own, start_ns=own.end_ns + (rest_ms - 100) * MS)
    (one,) = ring(np.arange(100.0 * messages)).classes
    part = Part(Component(np.arange(4, dtype=np.int32), (one,)), own)
    assert _are_buckets(part) == (silence_ms > 0 and buckets)


def test_steps_without_rest_that_are_slow_for_a_while_are_no_buckets():
    """A slow link makes steps of sharded parameters five times as long: nothing is silent."""
    lengths = np.where((np.arange(100) > 30) & (np.arange(100) < 75), 500, 100)
    ends = np.cumsum(lengths)
    own = stepping(ends)
    own = replace(own, start_ns=own.end_ns - (lengths + 1) * MS)
    (one,) = ring([0.0, 1.0]).classes
    part = Part(Component(np.arange(4, dtype=np.int32), (one,)), own)
    assert not _are_buckets(part)

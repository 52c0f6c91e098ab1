"""Algorithm 2: DP or PP by the number of distinct sizes, refinement, and where it fails."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from llmprism.methods.paper.jobs import recognise_jobs
from llmprism.methods.paper.parallelism import classify_pairs
from llmprism.model import KINDS
from small_jobs import read_rows, simple_topology

Verdicts = dict[str, tuple[str, str, float]]

PP_SIZES = (5, 5, 5, 5)
DP_SIZES = (7, 9, 8, 7)


def steps_of(pair: str, *sizes_by_step: Sequence[int], begin: int = 0) -> list[Any]:
    """One second a step, a flow every 10 ms at its beginning; times in ns."""
    rows = []
    for step, sizes in enumerate(sizes_by_step):
        for i, size in enumerate(sizes):
            start = begin + step * 1_000_000_000 + i * 10_000_000
            rows.append((start, start + 5_000_000, pair[0], pair[1], size))
    return rows


def classify(*rows: list[Any]) -> Verdicts:
    """Classify rows; returns {pair: (kind, kind before refinement, confidence)}."""
    every = [row for part in rows for row in part]
    addresses = sorted({row[2] for row in every} | {row[3] for row in every})
    servers = [f"server-{address}" for address in addresses]
    flows, topology = read_rows(every, simple_topology(addresses, servers))
    pairs = classify_pairs(flows, recognise_jobs(flows, topology))
    return {
        flows.addresses[src] + flows.addresses[dst]: (KINDS[kind], KINDS[raw], sure)
        for src, dst, kind, raw, sure in zip(
            pairs.src, pairs.dst, pairs.kind, pairs.kind_unrefined, pairs.confidence, strict=True
        )
    }


def test_one_size_is_pp_and_several_are_dp() -> None:
    found = classify(steps_of("ab", *[PP_SIZES] * 8), steps_of("bc", *[DP_SIZES] * 8))
    assert found["ab"][:2] == ("pp", "pp")
    assert found["bc"][:2] == ("dp", "dp")


def test_directions_are_judged_apart() -> None:
    found = classify(steps_of("ab", *[DP_SIZES] * 8), steps_of("ba", *[(3, 3)] * 8, begin=1000))
    assert found["ab"][1] == "dp"
    assert found["ba"][1] == "pp"


def test_the_most_frequent_count_decides() -> None:
    often_one = [PP_SIZES] * 5 + [DP_SIZES] * 3
    assert classify(steps_of("ab", *often_one))["ab"][0] == "pp"
    often_three = [PP_SIZES] * 3 + [DP_SIZES] * 5
    assert classify(steps_of("ab", *often_three))["ab"][0] == "dp"


def test_between_equally_frequent_counts_the_smaller_is_the_mode() -> None:
    assert classify(steps_of("ab", *([PP_SIZES, DP_SIZES] * 4)))["ab"][0] == "pp"


def test_the_mode_is_of_counts_not_a_majority() -> None:
    """1 is the most frequent count although most steps have several sizes."""
    counts = [(5, 5, 5)] * 3 + [(5, 6, 5)] * 2 + [(5, 6, 7)] * 2 + [(5, 6, 7, 8)] * 2
    assert classify(steps_of("ab", *counts))["ab"][0] == "pp"


def test_confidence_is_the_share_of_steps_that_agree() -> None:
    found = classify(steps_of("ab", *([PP_SIZES] * 6 + [DP_SIZES] * 2)))
    assert found["ab"][2] == pytest.approx((6 + 1) / (8 + 2))


def test_refinement_repairs_dp_read_as_pp() -> None:
    """A ring a-b-c-d-a where one hop showed a single size only (lost records)."""
    ring = [steps_of(pair, *[DP_SIZES] * 8) for pair in ("ab", "bc", "cd")]
    found = classify(*ring, steps_of("da", *[PP_SIZES] * 8))
    assert found["da"][:2] == ("dp", "pp")
    assert found["da"][2] == pytest.approx((3 + 1) / (4 + 2))  # three of four pairs were DP
    assert {found[pair][0] for pair in ("ab", "bc", "cd")} == {"dp"}


def test_refinement_leaves_pipelines_between_groups_alone() -> None:
    groups = [steps_of(pair, *[DP_SIZES] * 8) for pair in ("ab", "ba", "cd", "dc")]
    found = classify(*groups, steps_of("ac", *[PP_SIZES] * 8), steps_of("bd", *[PP_SIZES] * 8))
    assert found["ac"][0] == found["bd"][0] == "pp"


def test_trap_4_one_wrong_pipeline_pair_changes_all_between_two_groups() -> None:
    """a-c shows a second size (a retransmission); b-d and e-f, untouched, flip with it."""
    groups = [steps_of(p, *[DP_SIZES] * 8) for p in ("ab", "be", "ea", "cd", "df", "fc")]
    wrong = steps_of("ac", *[(5, 5, 5, 6)] * 8)
    found = classify(
        *groups, wrong, steps_of("bd", *[PP_SIZES] * 8), steps_of("ef", *[PP_SIZES] * 8)
    )
    assert [found[pair][1] for pair in ("ac", "bd", "ef")] == ["dp", "pp", "pp"]
    assert [found[pair][0] for pair in ("ac", "bd", "ef")] == ["dp", "dp", "dp"]


def test_trap_5_buckets_of_one_size_look_like_pipelines() -> None:
    ring = [steps_of(pair, *[(7, 7, 7, 7)] * 8) for pair in ("ab", "bc", "ca")]
    found = classify(*ring)
    assert {verdict[:2] for verdict in found.values()} == {("pp", "pp")}


def test_trap_7_messages_of_varying_length_look_like_gradients() -> None:
    varying = [(5 + k, 6 + k, 7 + k) for k in range(8)]
    assert classify(steps_of("ab", *varying))["ab"][0] == "dp"


def test_a_missed_cut_does_not_make_a_pipeline_of_dp() -> None:
    """One flow a step cannot be cut: all of it is one step, with two sizes."""
    found = classify(steps_of("ab", *[(7,), (9,)] * 6))
    assert found["ab"][0] == "dp"

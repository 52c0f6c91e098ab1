"""Algorithms 1 and 2: jobs from communicating addresses, kinds of pairs, and where they fail."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from llmprism.methods.paper.parallelism import classify_pairs, recognise_jobs
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


def members(edges: list[str], addresses: str, servers: str | None = None) -> list[set[str]]:
    """Recognise jobs among edges; returns the members of each, in order of number."""
    homes = list(servers) if servers else None
    rows = [(i, i + 1, edge[0], edge[1], 10) for i, edge in enumerate(edges)]
    flows, topology = read_rows(rows, simple_topology(list(addresses), homes))
    jobs = recognise_jobs(flows, topology)
    found: list[set[str]] = [set() for _ in range(jobs.count)]
    for address, job in zip(flows.addresses, jobs.of_address.tolist(), strict=True):
        if job >= 0:
            found[job].add(address)
    return found


def test_connected_addresses_are_one_job() -> None:
    assert members(["ab", "bc", "de"], "abcdef", "123456") == [set("abc"), set("de")]


def test_clusters_on_the_same_servers_are_one_job() -> None:
    """Two rails of one job: a-b and c-d never communicate, but are in the same two servers."""
    assert members(["ab", "cd", "ef"], "abcdef", "121234") == [set("abcd"), set("ef")]


def test_overlapping_but_different_servers_stay_apart() -> None:
    assert members(["ab", "cd"], "abcd", "1213") == [set("ab"), set("cd")]


def test_an_idle_address_is_in_no_job() -> None:
    assert members(["ab"], "abz", "123") == [set("ab")]


def test_no_flows_no_jobs() -> None:
    assert members([], "ab") == []


def test_jobs_are_numbered_by_first_flow() -> None:
    assert members(["yz", "ab", "bc"], "abcyz", "12345") == [set("yz"), set("abc")]


def test_an_acknowledgement_changes_nothing() -> None:
    assert members(["ab", "ba", "ab", "cd"], "abcd", "1234") == [set("ab"), set("cd")]


# Trap 6, as published.


def test_two_jobs_on_the_same_servers_are_fused() -> None:
    assert members(["ab", "cd"], "abcd", "1212") == [set("abcd")]


def test_a_job_with_missing_flows_falls_apart() -> None:
    assert members(["ab", "bc", "cd"], "abcd", "1234") == [set("abcd")]
    assert members(["ab", "cd"], "abcd", "1234") == [set("ab"), set("cd")]


def test_a_common_storage_server_fuses_jobs() -> None:
    assert members(["ab", "cd", "as", "cs"], "abcds", "12345") == [set("abcds")]


def test_a_job_within_one_server_is_never_seen() -> None:
    """Its ranks use NVLink and have no flow, so only the other job is found."""
    assert members(["cd"], "abcd", "1123") == [set("cd")]

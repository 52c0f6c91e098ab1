"""Algorithm 1: jobs from communicating addresses, and the cases in which it fails."""

from __future__ import annotations

from llmprism.methods.paper.jobs import recognise_jobs
from small_jobs import read_rows, simple_topology


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

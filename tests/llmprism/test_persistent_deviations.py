"""What was slow before the recording began: transfers beside peers, and what is not judged."""

from __future__ import annotations

import pandas as pd
import pytest

from llmprism.conclusion import CALM, PARTLY, SLOW, conclude
from llmprism.io.flows import place
from llmprism.io.loading import adopt
from llmprism.io.topology import parse_topology
from llmprism.persistent_deviations import scopes_of

RAILS, SERVERS, STEPS = 4, 4, 10
SIZE, FAST_NS = 50_000_000, 1_000_000  # 400 Gbit/s


def address(server, rail):
    return f"10.0.{server}.{rail}"


def network(*, named=True):
    ends = [
        {
            "address": address(s, r),
            "server": f"s{s}" if named else address(s, r),
            "nic": r,
            "switch": f"leaf{r}",
        }
        for s in range(SERVERS)
        for r in range(RAILS)
    ]
    links = [{"a": end["address"], "b": end["switch"], "gbps": 400.0} for end in ends]
    switches = [{"name": f"leaf{r}", "tier": "leaf"} for r in range(RAILS)]
    return {"endpoints": ends, "switches": switches, "links": links}


HOPS = [(server, rail) for server in range(SERVERS) for rail in range(RAILS)]


NO_FINDINGS = pd.DataFrame(columns=["job", "culprit_kind", "culprit"])


def scopes(slow=(), topology=None, pp=1, dp=SERVERS, times=4.0, findings=NO_FINDINGS):
    """Rings of every rail over the servers; the transfers of ``slow`` NICs take longer."""
    rows = []
    for step in range(STEPS):
        for rail in range(RAILS):
            for server in range(SERVERS):
                other = (server + 1) % SERVERS
                last = times if (server, rail) in slow else 1.0
                begin = step * 100 * FAST_NS
                rows.append((begin, begin + round(last * FAST_NS), address(server, rail),
                             address(other, rail), SIZE, f"leaf{rail}"))  # fmt: skip
    names = ["start_ns", "end_ns", "src", "dst", "bytes", "path"]
    frame = pd.DataFrame(rows, columns=names)
    topology = parse_topology(topology or network())
    flows, _ = place(adopt(frame), topology)
    pairs = frame[["src", "dst"]].drop_duplicates().assign(job="job-0", kind="dp")
    tables = {
        "jobs": pd.DataFrame({"job": "job-0", "address": frame["src"].unique()}),
        "steps": pd.DataFrame({"job": ["job-0"] * STEPS, "step": range(STEPS)}),
        "layouts": pd.DataFrame([{"job": "job-0", "pp": pp, "dp": dp}]),
        "pairs": pairs,
        "findings": findings,
    }
    return scopes_of(flows, topology, tables)


def test_all_is_judged_in_a_pipeline_with_replicas():
    (scope,) = scopes(pp=2)
    assert (scope.slow, scope.not_judged) == ((), ())
    assert conclude([scope], [], 0).tone == CALM
    unanswered = conclude([scope], [], 0, left_out=["findings", "spans"])
    assert (unanswered.tone, "not answered" in unanswered.headline) == (PARTLY, True)


def test_ranks_without_a_pipeline_are_not_judged():
    conclusion = conclude(scopes(), [], 0)
    assert conclusion.tone == PARTLY
    assert "before the recording began" in conclusion.not_judged[0]
    assert "Nothing stands out." not in conclusion.lines()


@pytest.mark.parametrize(
    ("slow", "named"),
    [
        ([(0, 2), (1, 2)], "NIC 2 of server s1"),  # what it receives, and what it sends
        ([hop for hop in HOPS if hop[1] == 3], "leaf3"),
        ([(0, 1)], "NIC 1 of server s0"),
    ],
)
def test_the_part_that_all_slow_transfers_cross_is_named(slow, named):
    (scope,) = scopes(slow, pp=2)
    assert "4 times as long as their peers" in scope.slow[0]
    assert named in scope.slow[0]
    assert conclude([scope], [], 0).tone == SLOW


@pytest.mark.parametrize(
    ("kind", "culprit"), [("address", "10.0.1.2"), ("server", "s1"), ("switch", "leaf2")]
)
def test_what_a_finding_names_is_not_listed_again(kind, culprit):
    """All hops of a ring are slow; a finding names a part of it."""
    findings = pd.DataFrame([{"job": "job-0", "culprit_kind": kind, "culprit": culprit}])
    ring = [hop for hop in HOPS if hop[1] == 2]
    (scope,) = scopes(ring, pp=2, findings=findings)
    assert scope.slow == ()
    (scope,) = scopes([*ring, (3, 0)], pp=2, findings=findings)
    assert "1 of 16 transfers" in scope.slow[0]
    assert "leaf2" not in scope.slow[0]


@pytest.mark.parametrize(
    ("slow", "times"),
    [
        (HOPS[::4], 1.5),  # hosts and switches differ by as much
        ([hop for hop in HOPS if hop[1] < 3], 4.0),  # most of them: the others are fast
    ],
)
def test_small_differences_and_those_of_most_are_no_remark(slow, times):
    (scope,) = scopes(slow, times=times)
    assert scope.slow == ()


def test_without_servers_nothing_is_sure():
    (scope,) = scopes(topology=network(named=False), pp=2)
    assert "names no servers" in scope.not_judged[0]
    assert conclude([scope], [], 0).tone == PARTLY


def test_records_without_a_duration_show_no_rates():
    (scope,) = scopes(HOPS, times=0.0)
    assert any("no rates" in text for text in scope.not_judged)

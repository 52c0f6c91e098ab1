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


def test_a_single_replica_is_not_compared():
    conclusion = conclude(scopes(dp=1), [], 0)
    assert conclusion.tone == PARTLY
    assert "before the recording began" in conclusion.not_judged[0]
    assert "Nothing stands out." not in conclusion.lines()


@pytest.mark.parametrize(("times", "tone"), [(1.0, CALM), (4.0, SLOW)])
def test_a_job_whose_transfers_are_all_slow_is_never_calm(times, tone):
    (scope,) = scopes(HOPS, pp=2, times=times)
    assert conclude([scope], [], 0).tone == tone


def test_slow_transfers_are_listed_once():
    findings = pd.DataFrame([{"job": "job-0", "culprit_kind": "switch", "culprit": "leaf2"}])
    (scope,) = scopes(HOPS, pp=2, findings=findings)
    assert scope.slow == ()


def test_without_servers_nothing_is_sure():
    (scope,) = scopes(topology=network(named=False), pp=2)
    assert "names no servers" in scope.not_judged[0]
    assert conclude([scope], [], 0).tone == PARTLY


def test_records_without_a_duration_show_no_rates():
    (scope,) = scopes(HOPS, times=0.0)
    assert any("no rates are known" in text for text in scope.not_judged)

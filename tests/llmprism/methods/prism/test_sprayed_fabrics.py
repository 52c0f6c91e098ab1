"""A slow link of fabrics that spray messages: the leaf is named, and no link."""

from __future__ import annotations

import json

import pytest

MODEL = {"layers": 8, "hidden": 1024, "heads": 8, "vocab": 32000, "sequence_length": 1024}


def world(routing, split):
    fabric = {"kind": "tor", "leaf_ports": 4, "uplinks": 4, "spines": 4, "routing": routing}
    cluster = {"servers": 8, "gpus_per_server": 2, "nics_per_server": 2, "fabric": fabric}
    job = {"name": "a", "model": MODEL, "dp": 4, "pp": 2, "tp": 2, "micro_batches": 4,
           "steps": 16, "mfu": 0.2, "compute_jitter": 0.01}  # fmt: skip
    fault = {"kind": "slow_link", "a": "leaf000", "b": "spine01", "factor": 0.1, "job": "a",
             "from_step": 6, "to_step": 11}  # fmt: skip
    effects = [] if split is None else [{"kind": "paths", "split": split}]
    return json.dumps(
        {"cluster": cluster, "jobs": [job], "faults": [fault], "collector": {"effects": effects}}
    )


@pytest.mark.parametrize("split", [None, "one", "all"])
def test_of_sprayed_messages_the_leaf_is_named_and_no_link(scored, split):
    run = scored(world("spray", split))
    (finding,) = run.diagnosis.findings.to_dict("records")
    assert (finding["culprit_kind"], finding["culprit"]) == ("switch", "leaf000")
    conclusion = run.diagnosis.conclusion
    assert any("which link between switches" in text for text in conclusion.not_judged)


def test_of_hashed_messages_the_link_is_named_and_judged(scored):
    run = scored(world("ecmp", None))
    culprits = {(one["culprit_kind"], one["culprit"])
                for one in run.diagnosis.findings.to_dict("records")}  # fmt: skip
    assert culprits == {("link", "leaf000|spine01")}
    assert not any("which link" in text for text in run.diagnosis.conclusion.not_judged)


@pytest.mark.parametrize("routing", ["flowlet", {"kind": "adaptive", "per": "message"}])
def test_messages_that_choose_their_paths_are_no_reroute(scored, routing):
    """Each message may take another path; no uplink failed, and no hash is wrong."""
    run = scored(world(routing, None))
    wrong = {"failed_uplinks", "polarised_hashing", "job_congestion"}
    assert not wrong & {*run.diagnosis.findings["cause"]}

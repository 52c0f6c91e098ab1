"""First and last passes of stages whose messages are merged into one record."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest

from llmprism import diagnose
from llmprism.methods.prism import method
from llmprism.methods.prism.faults import find_findings
from llmprism.methods.prism.faults.passes.edges import edge_passes_ns

SILENCE_NS = 150_000_000  # longer than two passes, and shorter than the collectives of a step


def bridged(flows: pd.DataFrame) -> pd.DataFrame:
    """``flows`` as of an exporter that ends a record after a long silence only."""
    ordered = flows.sort_values(["src", "dst", "start_ns"])
    before = ordered.groupby(["src", "dst"])["end_ns"].shift()
    number = (~(ordered["start_ns"] - before < SILENCE_NS)).cumsum()
    named = ordered.groupby(number)
    merged = named.agg(
        {"start_ns": "min", "end_ns": "max", "src": "first", "dst": "first", "bytes": "sum",
         "path": "first"}
    )  # fmt: skip
    return merged.sort_values("start_ns").reset_index(drop=True)


@pytest.mark.parametrize("slow", [0, 1])
@pytest.mark.parametrize(("pp", "dp"), [(2, 2), (4, 2), (2, 3)])
def test_replicas_that_wait_for_a_slow_one_are_not_slow(monkeypatch, make_world, slow, pp, dp):
    """Collectives in which all begin together, so that who waits shows only by who came late."""
    taken: list[Any] = []
    monkeypatch.setattr(
        method, "find_findings", lambda one: taken.append(one) or find_findings(one)
    )
    steps = {(slow, step): 1.4 for step in range(8, 14)}
    world = make_world(dp=dp, pp=pp, steps=24, slow=steps)
    diagnose(bridged(world.flows), world.topology, method="prism")
    [job] = taken[0].jobs
    first = job.pipelines.stage == 0
    names = [taken[0].topology.addresses[end] for end in job.phases.endpoints[first].tolist()]
    back_ns = edge_passes_ns(taken[0], job)[first, :, 1]
    longer = np.nanmedian(back_ns[:, 8:14], axis=1) / np.nanmedian(back_ns[:, 14:], axis=1)
    assert (longer < 1.5).all(), dict(zip(names, longer, strict=True))

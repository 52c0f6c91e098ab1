"""Several jobs that share servers with nothing but a service."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest

from small_jobs import join_worlds, make_world

LATER = 1_700_000_000_333_000_000
SERVICE = "log.0"


@pytest.fixture
def tenants() -> Any:
    """Three jobs, of which one has a slow step and one begins later, and a service of all ranks."""
    world = join_worlds(
        make_world(name="a", pp=2, dp=3, tp=2, steps=16, jitter=0.02, slow={(1, 9): 2.5}),
        make_world(name="b", pp=1, dp=5, steps=20, start_ns=LATER, seed=4, jitter=0.02),
        make_world(name="c", pp=4, dp=2, steps=15, seed=5, jitter=0.02, micro=6),
    )
    ranks = world.ranks["address"].to_numpy()
    draw = np.random.default_rng(3)
    start = draw.integers(world.flows["start_ns"].min(), world.flows["end_ns"].max(), 400)
    logs = pd.DataFrame(
        {
            "start_ns": start,
            "end_ns": start + 20_000,
            "src": draw.choice(ranks, start.size),
            "dst": SERVICE,
            "bytes": draw.integers(500, 40_000, start.size),
            "path": "leaf0",
        }
    )
    flows = pd.concat([world.flows, logs]).sort_values("start_ns", kind="stable")
    ends = [*world.topology["endpoints"], {"address": SERVICE, "server": "log", "switch": "leaf0"}]
    topology = world.topology | {"endpoints": ends}
    return type(world)(flows, topology, world.ranks, world.steps, world.kinds)

"""A kind of culprit from outside: one function, and one registration."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path

import numpy as np
import pytest

import prism_sim as ps
from llmprism.methods.prism.culprits import KINDS
from llmprism.methods.prism.culprits.base import Attribution, Hypothesis, Lost, Scene

WORLD = """\
seed: 3
cluster: {servers: 8, gpus_per_server: 1, nics_per_server: 1,
          fabric: {kind: tor, leaf_ports: 2, spines: 2}}
jobs:
  - {name: train, model: {layers: 8, hidden: 2048, heads: 16, vocab: 32000, sequence_length: 2048},
     dp: 4, pp: 2, micro_batches: 8, steps: 24, mfu: 0.4, compute_jitter: 0.01}
faults:
  - {kind: slow_server, server: s0002, factor: 0.6, job: train, from_step: 10, to_step: 17}
  - {kind: slow_server, server: s0003, factor: 0.6, job: train, from_step: 10, to_step: 17}
"""


def racks(lost: Lost) -> Iterator[Hypothesis]:
    """All units below one leaf: they share a rack, and its power."""
    ends = lost.durations.context.topology.endpoints
    leaves = [ends[int(end)].switch or "" for end in lost.durations.job.phases.endpoints]
    for leaf in sorted({*leaves}):
        own = np.flatnonzero([other == leaf for other in leaves])
        series = np.median(lost.by_units[own], axis=0)
        yield Hypothesis("rack", series, partial(_rack, leaf), prior=1.0)


def _rack(leaf: str, scene: Scene, _: Hypothesis) -> Attribution:
    evidence = {"level": scene.window.level}
    return Attribution("rank", "slow_passes", "slow_server", "switch", leaf, evidence)


@pytest.fixture
def with_racks() -> Iterator[None]:
    KINDS["rack"] = racks
    yield
    del KINDS["rack"]


def culprits(folder: Path) -> list[str]:
    (folder / "world.yaml").write_text(WORLD)
    found = ps.run(folder / "world.yaml", out=folder / "run").diagnosis.findings
    return sorted(found["culprit"])


def test_without_a_kind_that_has_both_a_rank_is_named(tmp_path: Path) -> None:
    assert "leaf001" not in culprits(tmp_path)


@pytest.mark.usefixtures("with_racks")
def test_a_kind_that_is_registered_explains_them_as_one(tmp_path: Path) -> None:
    assert culprits(tmp_path) == ["leaf001"]

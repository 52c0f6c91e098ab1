"""What ``prism`` finds in a bundled scenario: the true data of the pictures.

Everything is taken from a replaced stage: the search for findings keeps what it was given, and goes
on as usual.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import pandas as pd

from evaluation.paths import ROOT
from llmprism.io.flows import place
from llmprism.io.loading import load as load_flows
from llmprism.io.topology import read_topology
from llmprism.methods.prism.context import Context, JobView
from llmprism.methods.prism.durations import Durations, durations_of
from llmprism.methods.prism.findings import find_findings
from llmprism.methods.prism.method import Prism
from prism_common.progress import silent
from prism_sim.loading.loader import load
from prism_sim.simulate import simulated


@dataclass(frozen=True)
class Scene:
    """One diagnosed scenario: what the search for findings starts from, and its result."""

    context: Context
    findings: pd.DataFrame

    @property
    def job(self) -> JobView:
        """The first job."""
        return self.context.jobs[0]

    def durations(self) -> Durations:
        """The durations of the first job."""
        found = durations_of(self.context, self.job)
        assert found is not None  # these scenarios show steps
        return found


@cache
def scene(name: str) -> Scene:
    """Simulate the bundled scenario ``name``, and diagnose its records."""
    kept: list[Context] = []

    def keep(context: Context) -> pd.DataFrame:
        kept.append(context)
        return find_findings(context)

    with simulated(load(ROOT / "scenarios" / f"{name}.yaml")) as run:
        topology = read_topology(run.topology)
        flows = place(load_flows(run.flows), topology)[0]
        tables = Prism(findings=keep)(flows, topology, silent)
    findings = tables["findings"]
    assert isinstance(findings, pd.DataFrame)
    return Scene(kept[0], findings)

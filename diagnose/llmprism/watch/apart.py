"""A diagnosis of a window without the jobs that go on as they were.

A job is diagnosed without the records of others, as in a file that is divided. But jobs that cross
the same switches show more about a part of the network than one of them. So if a finding about the
network is new, it is looked at again, together with all others that cross switches.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import numpy as np

from llmprism.diagnosis import Diagnosis
from llmprism.finding_fields import text
from llmprism.ingest.options import Options
from llmprism.io.flows import Rest
from llmprism.pipeline import diagnose
from llmprism.watch.matching import place_of
from llmprism.watch.network import Network
from llmprism.watch.settings import Settings
from llmprism.watch.state import State
from llmprism.watch.state_folder import StateFolder
from llmprism.watch.window import Span, write_window


def diagnose_window(
    folder: StateFolder,
    state: State,
    span: Span,
    network: Network,
    settings: Settings,
    others: frozenset[str],
    flows: Path,
) -> Diagnosis:
    """Write the flow table ``flows`` of a window without ``others``, jobs by name; diagnose it.

    Raises
    ------
    UserError : the records allow no diagnosis.
    """
    options = Options(homes=network.leaf_of)
    without = [one for one in state.jobs if one.name in others]
    seen = write_window(state.parts, folder.parts, span, options, flows, without)
    senders = np.isin(network.topology.addresses, [*seen.senders])
    codes = np.flatnonzero(senders).astype(np.int32)
    return diagnose(
        flows,
        network.topology,
        settings.method,
        records_at_once=settings.records_at_once,
        cluster=settings.cluster,
        rest=Rest(seen.recorded_ns, codes, have_steps=True) if others else None,
    )


def staying(
    diagnosis: Diagnosis, network: Network, state: State, others: frozenset[str]
) -> frozenset[str]:
    """Those of ``others`` that cannot have to do with what a diagnosis without them found.

    They are all, if it found nothing new about the network.
    """
    known = {one.place for one in state.incidents if one.stage != "resolved"}
    findings = diagnosis.findings[diagnosis.findings["level"] == "network"]
    culprits = ({"culprit": one} for one in findings["culprit"])
    if all(place_of(one, network.parts) in known for one in culprits):
        return others
    crossing = {one.name for one in state.jobs if _crosses(one.addresses, network)}
    return others - crossing


def _crosses(addresses: Iterable[str], network: Network) -> bool:
    """Whether traffic between some addresses leaves a switch, as far as is known."""
    leaves = {text(network.leaf_of.get(str(one))) for one in addresses}
    return len(leaves) > 1 or "" in leaves

"""Diagnosis of LLM training jobs from flow records.

``llmprism`` reads only flow records and the physical topology, and finds:
which addresses form a job, which pairs carry data-parallel and which
pipeline-parallel traffic, when each rank's steps begin and end, and which parts were slow.
It works on real data and never imports the simulator.

>>> import llmprism
>>> diagnosis = llmprism.diagnose("flows.parquet", "topology.json")  # doctest: +SKIP
>>> diagnosis.findings  # doctest: +SKIP
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from prism_common.errors import UserError
from prism_common.version import __version__

if TYPE_CHECKING:
    from llmprism.diagnosis import Diagnosis
    from llmprism.io.topology import Topology
    from llmprism.pipeline import diagnose

__all__ = ["Diagnosis", "Topology", "UserError", "__version__", "diagnose"]

_HOME = {
    "Diagnosis": "llmprism.diagnosis",
    "Topology": "llmprism.io.topology",
    "diagnose": "llmprism.pipeline",
}


def __getattr__(name: str) -> Any:
    """Import the public names on first use, so that ``import llmprism`` is fast."""
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(_HOME[name]), name)

"""The telemetry of a run as its sources send it, a class a format; ``llmprism`` reads all of them.

A new format is a class that derives from :class:`~prism_sim.exporters.base.RunExporter` (of flow
records: ``Exporter``), and one entry in :data:`EXPORTERS`; or an entry point of another package,
``prism_sim.exporters``.
"""

from __future__ import annotations

from prism_sim.exporters.base import Csv, Exporter, InspectorLines, RunExporter
from prism_sim.exporters.netflow import Ipfix, Netflow9
from prism_sim.exporters.sflow import Sflow
from prism_sim.registry import Registry

EXPORTERS: Registry[RunExporter] = Registry(
    "prism_sim.exporters",
    Ipfix(),
    Netflow9(),
    Sflow(),
    Csv(),
    InspectorLines(),
    name_of=lambda exporter: exporter.name,
)
"""Every format by its name."""

__all__ = ["EXPORTERS", "Exporter", "RunExporter"]

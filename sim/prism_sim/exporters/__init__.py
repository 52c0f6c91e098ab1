"""Flow records as exporters send them, one file a format; the readers of ``llmprism`` read them.

A new format is a new file with an :class:`~prism_sim.exporters.base.Exporter`, and one entry in
:data:`EXPORTERS`; or an entry point ``prism_sim.exporters`` of another package.
"""

from __future__ import annotations

from prism_sim.exporters.base import Exporter
from prism_sim.exporters.csv import Csv
from prism_sim.exporters.ipfix import Ipfix
from prism_sim.exporters.netflow9 import Netflow9
from prism_sim.exporters.sflow import Sflow
from prism_sim.registry import Registry

EXPORTERS: Registry[Exporter] = Registry(
    "prism_sim.exporters",
    Ipfix(),
    Netflow9(),
    Sflow(),
    Csv(),
    name_of=lambda exporter: exporter.name,
)
"""Every format by its name."""

__all__ = ["EXPORTERS", "Exporter"]

"""Policies of detection, one file a kind; a new kind is a new file and one entry below."""

from __future__ import annotations

from prism_sim.operations.detections.base import DetectionBase
from prism_sim.operations.detections.diagnoser import Diagnoser
from prism_sim.operations.detections.inspection import Inspection
from prism_sim.operations.detections.loss_monitor import LossMonitor
from prism_sim.operations.detections.timeout import Timeout
from prism_sim.operations.detections.zero_rdma import ZeroRdma
from prism_sim.registry import Registry, by_literal

DETECTIONS: Registry[type[DetectionBase]] = Registry(
    "prism_sim.operations.detections",
    Timeout,
    ZeroRdma,
    Inspection,
    Diagnoser,
    LossMonitor,
    name_of=by_literal,
)
"""Each kind by its name in a study."""

"""Faults of a simulated cluster, one file a kind.

A new kind is a new file with a class that derives from
:class:`~prism_sim.faults.base.FaultBase` and has a literal ``kind``, and one entry in
:data:`KINDS` below, or an entry point ``prism_sim.faults`` of another package. Schema, loading,
listing and truth follow from that. The parts of a cluster that a fault may change are in
:mod:`prism_sim.faults.target`.
"""

from __future__ import annotations

from prism_sim.faults.base import FaultBase
from prism_sim.faults.crash import Crash
from prism_sim.faults.degraded_nvlink import DegradedNvlink
from prism_sim.faults.expert_imbalance import ExpertImbalance
from prism_sim.faults.failed_leaf import FailedLeaf
from prism_sim.faults.failed_plane import FailedPlane
from prism_sim.faults.failed_uplinks import FailedUplinks
from prism_sim.faults.flapping_nic import FlappingNic
from prism_sim.faults.gc_pauses import GcPauses
from prism_sim.faults.hang import Hang
from prism_sim.faults.incast_burst import IncastBurst
from prism_sim.faults.intermittent_gpu import IntermittentGpu
from prism_sim.faults.job_congestion import JobCongestion
from prism_sim.faults.length_imbalance import LengthImbalance
from prism_sim.faults.loader_stalls import LoaderStalls
from prism_sim.faults.lossy_link import LossyLink
from prism_sim.faults.misconfigured_switch import MisconfiguredSwitch
from prism_sim.faults.paused_port import PausedPort
from prism_sim.faults.polarised_hashing import PolarisedHashing
from prism_sim.faults.slow_gpu import SlowGpu
from prism_sim.faults.slow_link import SlowLink
from prism_sim.faults.slow_nic import SlowNic
from prism_sim.faults.slow_server import SlowServer
from prism_sim.faults.slow_storage import SlowStorage
from prism_sim.faults.slow_switch import SlowSwitch
from prism_sim.faults.stopped_nic import StoppedNic
from prism_sim.faults.thermal_ramp import ThermalRamp
from prism_sim.faults.uneven_spraying import UnevenSpraying
from prism_sim.faults.uneven_stage import UnevenStage
from prism_sim.registry import Registry, by_literal

KINDS: Registry[type[FaultBase]] = Registry(
    "prism_sim.faults",
    SlowGpu,
    ThermalRamp,
    IntermittentGpu,
    SlowServer,
    GcPauses,
    LoaderStalls,
    UnevenStage,
    DegradedNvlink,
    LengthImbalance,
    ExpertImbalance,
    SlowNic,
    FlappingNic,
    SlowLink,
    LossyLink,
    SlowSwitch,
    MisconfiguredSwitch,
    FailedUplinks,
    FailedLeaf,
    FailedPlane,
    PolarisedHashing,
    UnevenSpraying,
    PausedPort,
    JobCongestion,
    IncastBurst,
    SlowStorage,
    Hang,
    Crash,
    StoppedNic,
    name_of=by_literal,
)
"""The class of each kind of fault, by its name in a scenario."""

__all__ = [
    "KINDS",
    "FailedUplinks",
    "FaultBase",
    "SlowGpu",
    "SlowLink",
    "SlowNic",
    "SlowSwitch",
]

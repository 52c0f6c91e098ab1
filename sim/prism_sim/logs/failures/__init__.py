"""All failure kinds, one file a kind.

A new kind is a new file with a class that derives from
:class:`~prism_sim.logs.failures.base.FailureKind`, and one entry in :data:`FAILURES`; or an entry
point ``prism_sim.failures`` of another package.
"""

from __future__ import annotations

from prism_sim.logs.failures.address_in_use import AddressInUse
from prism_sim.logs.failures.agent_killed import AgentKilled
from prism_sim.logs.failures.assertion_error import AssertionRaised
from prism_sim.logs.failures.attribute_error import AttributeRaised
from prism_sim.logs.failures.bad_argument import BadArgument
from prism_sim.logs.failures.base import FailureKind
from prism_sim.logs.failures.cable_fault import CableFault
from prism_sim.logs.failures.collective_mismatch import CollectiveMismatch
from prism_sim.logs.failures.connection_error import ConnectionRaised
from prism_sim.logs.failures.cuda_out_of_memory import CudaOutOfMemory
from prism_sim.logs.failures.dataset_loading_error import DatasetLoadingError
from prism_sim.logs.failures.disk_error import DiskError
from prism_sim.logs.failures.disk_full import DiskFull
from prism_sim.logs.failures.driver_mismatch import DriverMismatch
from prism_sim.logs.failures.false_out_of_memory import FalseOutOfMemory
from prism_sim.logs.failures.gpu_hang import GpuHang
from prism_sim.logs.failures.gpu_lost import GpuLost
from prism_sim.logs.failures.gpu_unknown_error import GpuUnknownError
from prism_sim.logs.failures.gsp_timeout import GspTimeout
from prism_sim.logs.failures.hbm_error import HbmError
from prism_sim.logs.failures.host_maintenance import HostMaintenance
from prism_sim.logs.failures.host_out_of_memory import HostOutOfMemory
from prism_sim.logs.failures.illegal_access_hardware import IllegalAccessHardware
from prism_sim.logs.failures.illegal_access_user import IllegalAccessUser
from prism_sim.logs.failures.import_error import ImportRaised
from prism_sim.logs.failures.index_error import IndexRaised
from prism_sim.logs.failures.kernel_panic import KernelPanic
from prism_sim.logs.failures.key_error import KeyRaised
from prism_sim.logs.failures.link_errors import LinkErrors
from prism_sim.logs.failures.loader_deadlock import LoaderDeadlock
from prism_sim.logs.failures.loader_killed import LoaderKilled
from prism_sim.logs.failures.lock_held import LockHeld
from prism_sim.logs.failures.memory_error import MemoryRaised
from prism_sim.logs.failures.missing_file import MissingFile
from prism_sim.logs.failures.model_loading_error import ModelLoadingError
from prism_sim.logs.failures.name_error import NameRaised
from prism_sim.logs.failures.nan_hardware import NanHardware
from prism_sim.logs.failures.nan_user import NanUser
from prism_sim.logs.failures.nic_down import NicDown
from prism_sim.logs.failures.no_interface import NoInterface
from prism_sim.logs.failures.node_power import NodePower
from prism_sim.logs.failures.nvlink_error import NvlinkError
from prism_sim.logs.failures.pcie_errors import PcieErrors
from prism_sim.logs.failures.permission_denied import PermissionDenied
from prism_sim.logs.failures.process_stopped import ProcessStopped
from prism_sim.logs.failures.rendezvous_failed import RendezvousFailed
from prism_sim.logs.failures.runtime_error import RuntimeRaised
from prism_sim.logs.failures.segmentation_fault import SegmentationFault
from prism_sim.logs.failures.slow_disk import SlowDisk
from prism_sim.logs.failures.slow_gpu import SlowGpu
from prism_sim.logs.failures.sram_error import SramError
from prism_sim.logs.failures.storage_error import StorageError
from prism_sim.logs.failures.storage_hang import StorageHang
from prism_sim.logs.failures.switch_fault import SwitchFault
from prism_sim.logs.failures.switch_not_ready import SwitchNotReady
from prism_sim.logs.failures.syntax_error import SyntaxRaised
from prism_sim.logs.failures.thermal_slowdown import ThermalSlowdown
from prism_sim.logs.failures.transport_stall import TransportStall
from prism_sim.logs.failures.type_error import TypeRaised
from prism_sim.logs.failures.value_error import ValueRaised
from prism_sim.logs.failures.zero_division import ZeroDivision
from prism_sim.registry import Registry

FAILURES: Registry[type[FailureKind]] = Registry(
    "prism_sim.failures",
    GpuLost,
    GpuUnknownError,
    IllegalAccessHardware,
    IllegalAccessUser,
    HbmError,
    SramError,
    NvlinkError,
    GspTimeout,
    NicDown,
    CableFault,
    SwitchFault,
    NodePower,
    KernelPanic,
    DiskError,
    MemoryRaised,
    GpuHang,
    TransportStall,
    LoaderDeadlock,
    CollectiveMismatch,
    StorageHang,
    LockHeld,
    ProcessStopped,
    ThermalSlowdown,
    SlowGpu,
    SlowDisk,
    LinkErrors,
    PcieErrors,
    BadArgument,
    ImportRaised,
    SyntaxRaised,
    NameRaised,
    TypeRaised,
    KeyRaised,
    MissingFile,
    PermissionDenied,
    ModelLoadingError,
    DatasetLoadingError,
    DriverMismatch,
    FalseOutOfMemory,
    AddressInUse,
    CudaOutOfMemory,
    AssertionRaised,
    RuntimeRaised,
    ValueRaised,
    AttributeRaised,
    ZeroDivision,
    IndexRaised,
    NanUser,
    NanHardware,
    DiskFull,
    StorageError,
    ConnectionRaised,
    HostOutOfMemory,
    LoaderKilled,
    SegmentationFault,
    HostMaintenance,
    AgentKilled,
    RendezvousFailed,
    NoInterface,
    SwitchNotReady,
    name_of=lambda kind: kind.name,
)
"""Every failure kind by its name."""

__all__ = ["FAILURES", "FailureKind"]

"""Naming causes: what the events of a culprit can mean, with shares if they leave a choice.

Shares are published ratios: ByteRobust (arXiv 2509.16293, Table 2) for illegal memory accesses,
NaN and hangs; Llama 3 (arXiv 2407.21783, Table 5) for memory of GPUs, networks and hosts.
"""

from __future__ import annotations

import re

from llmlog.connections import many_nodes_lost
from llmlog.events import Event, Evidence
from llmlog.roles import Culprit

Shares = dict[str, float]

_XIDS = {
    "48": {"hbm_error": 1.0},
    "63": {"hbm_error": 1.0},
    "64": {"hbm_error": 1.0},
    "74": {"nvlink_error": 1.0},
    "79": {"gpu_lost": 1.0},
    "92": {"hbm_error": 1.0},
    "94": {"hbm_error": 1.0},
    "119": {"gsp_timeout": 1.0},
    "120": {"gsp_timeout": 1.0},
    "171": {"hbm_error": 1.0},
    "172": {"sram_error": 1.0},
}
_ECC = {"hbm_error": 84.0, "sram_error": 19.0}  # Llama 3, Table 5
_ILLEGAL = {"illegal_access_user": 41.0, "illegal_access_hardware": 21.0}
_NAN = {"nan_hardware": 3.0, "nan_user": 1.0}
_HANG = {"gpu_hang": 14.0, "transport_stall": 7.0, "loader_deadlock": 5.0}
_PROGRAM = {"loader_deadlock": 5.0, "process_stopped": 2.0, "lock_held": 1.0}
_NETWORK = {"cable_fault": 35.0, "nic_down": 12.0}
_NODE = {"node_power": 16.0, "kernel_panic": 8.0}
_KINDS: dict[str, Shares] = {
    "nvswitch": {"switch_not_ready": 1.0},
    "panic": {"kernel_panic": 1.0},
    "node_failed": _NODE,
    "segfault": {"segmentation_fault": 1.0},
    "fatal": {"segmentation_fault": 1.0},
    "machine_check": {"memory_error": 1.0},
    "disk": {"disk_error": 1.0},
    "blocked": {"storage_hang": 1.0},
    "stuck": {"lock_held": 1.0},
    "link": {"nic_down": 1.0},
    "port": {"nic_down": 1.0},
    "no_interface": {"no_interface": 1.0},
    "preempted": {"host_maintenance": 1.0},
    "killed": {"agent_killed": 1.0},
}
_SLOW: dict[str, str] = {
    "throttled": "thermal_slowdown",
    "link": "link_errors",
    "bus": "pcie_errors",
    "late": "slow_disk",
}
_TEXTS: tuple[tuple[re.Pattern[str], Shares], ...] = tuple(
    (re.compile(pattern), shares)
    for pattern, shares in (
        (r"uncorrectable ECC", _ECC),
        (r"uncorrectable NVLink", {"nvlink_error": 1.0}),
        (r"illegal memory access", _ILLEGAL),
        (r"CUDA error: out of memory", {"false_out_of_memory": 1.0}),
        (r"CUDA out of memory|OutOfMemoryError", {"cuda_out_of_memory": 1.0}),
        (r"driver on your system is too old|driver version is insuff", {"driver_mismatch": 1.0}),
        (r"system not yet initialized", {"switch_not_ready": 1.0}),
        (r"CUDA error: (?:unknown|unspecified)", {"gpu_unknown_error": 1.0}),
        (r"found NaN|is nan\b|loss is NaN", _NAN),
        (r"DataLoader worker .* killed", {"loader_killed": 1.0}),
        (r"no socket interface found", {"no_interface": 1.0}),
        (r"loading state_dict|missing keys in state", {"model_loading_error": 1.0}),
        (r"\[Errno 28\]|No space left", {"disk_full": 1.0}),
        (r"\[Errno 5\]|Input/output error", {"disk_error": 1.0}),
        (r"botocore|An error occurred \(\w+\) when calling", {"storage_error": 1.0}),
        (r"EADDRINUSE|[Aa]ddress already in use", {"address_in_use": 1.0}),
        (r"timed out .* trying to connect|RendezvousConnection", {"rendezvous_failed": 1.0}),
        (r"DistNetworkError|DistStoreError|Connection refused", {"connection_error": 1.0}),
        (r"unrecognized arguments|SystemExit: 2", {"bad_argument": 1.0}),
        (r"ValueError: .*\b(?:samples|dataset)\b", {"dataset_loading_error": 1.0}),
    )
)
_EXCEPTIONS = {
    "ImportError": "import_error",
    "ModuleNotFoundError": "import_error",
    "FileNotFoundError": "missing_file",
    "PermissionError": "permission_denied",
    "ZeroDivisionError": "zero_division",
    "ConnectionError": "connection_error",
    "IndentationError": "syntax_error",
}
_WORD = re.compile(r"(?<=[a-z])(?=[A-Z])")


def name_causes(culprit: Culprit, evidence: Evidence) -> Shares:
    """Causes with their shares, the most probable first; empty if nothing tells."""
    weights = _weights(culprit, evidence)
    total = sum(weights.values())
    ordered = sorted(weights.items(), key=lambda item: -item[1])
    return {name: weight / total for name, weight in ordered}


def _weights(culprit: Culprit, evidence: Evidence) -> Shares:
    if culprit.how == "slow":
        kinds = [event.kind for event in culprit.events if event.kind in _SLOW]
        best = next((kind for kind in _SLOW if kind in kinds), None)
        return {_SLOW[best]: 1.0} if best else {"slow_gpu": 1.0}
    if culprit.how == "connection":
        return {"switch_fault": 1.0} if many_nodes_lost(evidence) else _NETWORK
    if culprit.how == "hang":
        return _of_hang(culprit, evidence)
    ways = (_of_kernel, _of_text, _of_kind)
    return next((found for way in ways for event in culprit.events if (found := way(event))), {})


def _of_kernel(event: Event) -> Shares:
    """Numbers of the GPU driver tell more than the exception that follows."""
    if event.kind != "xid":
        return {}
    if event.fields.get("code") == "95":
        return {"sram_error": 1.0} if "SRAM" in event.text else _ECC
    return _XIDS.get(event.fields.get("code") or "", {})


def _of_text(event: Event) -> Shares:
    """What an exception says."""
    if event.kind not in ("exception", "death", "cuda_failure"):
        return _KINDS.get(event.kind, {}) if event.writer.kernel else {}
    for pattern, shares in _TEXTS:
        if pattern.search(event.text):
            return shares
    if not event.error:
        return {}
    name = _EXCEPTIONS.get(event.error) or _WORD.sub("_", event.error).lower()
    return {name: 1.0}


def _of_kind(event: Event) -> Shares:
    if event.kind in ("out_of_memory", "job_out_of_memory"):
        return {"host_out_of_memory": 1.0}
    if event.kind == "failed":
        code = event.fields.get("code")
        return {"segmentation_fault": 1.0} if code == "-11" else {"host_out_of_memory": 1.0}
    return _KINDS.get(event.kind, {})


def _of_hang(culprit: Culprit, evidence: Evidence) -> Shares:
    kinds = {event.kind for event in culprit.events}
    if kinds & {"timeout", "odd_call"}:
        return {"collective_mismatch": 1.0}
    if "gpu_behind" in kinds:  # it was given the work, and does not do it
        return {"gpu_hang": 1.0}
    if kinds & {"not_entered", "no_dump"}:
        return _PROGRAM
    if not culprit.events:
        peers = [event for event in evidence.of("timeout") if event.node in culprit.nodes[:1]]
        if not peers:  # nothing of the node was kept
            return _HANG | _PROGRAM
        if len(culprit.ranks) == 1 and evidence.of("status"):
            return {"process_stopped": 1.0}  # else its watchdog would have shown its state
    if len(culprit.ranks) > 1:  # one GPU or process cannot stop several ranks
        return {"transport_stall": 1.0}
    if not culprit.events:
        return {**_HANG, "process_stopped": 2.0}
    return {name: share for name, share in _HANG.items() if name != "transport_stall"}

"""Naming causes: what the events of a culprit can mean, with shares if they leave a choice.

Shares are published ratios: ByteRobust (arXiv 2509.16293, Table 2) for illegal memory accesses,
NaN and hangs; Llama 3 (arXiv 2407.21783, Table 5) for memory of GPUs, networks and hosts.
"""

from __future__ import annotations

import re

from llmlog.catalogue import CAUSES, MEANINGS
from llmlog.connections import many_nodes_lost
from llmlog.evidence import Event, Evidence
from llmlog.failing import Culprit, signal_of

Shares = dict[str, float]

_ECC = {"hbm_error": 84.0, "sram_error": 19.0}  # Llama 3, Table 5
_OF_XIDS = (
    ("hbm_error", "48 63 64 92 94 171"), ("sram_error", "172"), ("gpu_lost", "79 167"),
    ("nvlink_error", "74 136 137 144 145 146 147 148 149 150"), ("gpu_hang", "109"),
    ("gsp_timeout", "119 120"),
)  # fmt: skip
_XIDS = {code: {cause: 1.0} for cause, codes in _OF_XIDS for code in codes.split()} | {"140": _ECC}
_ILLEGAL = {"illegal_access_user": 41.0, "illegal_access_hardware": 21.0}
_HANG = {"gpu_hang": 14.0, "transport_stall": 7.0, "loader_deadlock": 5.0}
_PROGRAM = {"loader_deadlock": 5.0, "process_stopped": 2.0, "lock_held": 1.0}
_NETWORK = {"cable_fault": 35.0, "nic_down": 12.0}
_SLOW: dict[str, str] = {
    "throttled": "thermal_slowdown",
    "link": "link_errors",
    "bus": "pcie_errors",
    "late": "slow_disk",
}
_STATING = ("exception", "death", "cuda_failure", "abort")
"""Kinds of events whose text states the fault."""
_PROGRAM_XIDS = {"13", "31"}
"""Numbers that a program's own mistake causes as well."""
_KILLED, _CRASH = {"host_out_of_memory": 1.0, "process_killed": 1.0}, {"segmentation_fault": 1.0}
"""Who sent SIGKILL, nobody says, and no ratio is published: equal shares."""
_VAGUE = {"gpu_unknown_error": 1.0}
"""What a process says if it does not know its fault: a speaker that says more counts."""
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
    ways = (_of_kernel, _of_text, _of_host_memory, _of_kind)
    candidates = [found for way in ways for event in culprit.events if (found := way(event))]
    return next(
        (found for found in candidates if found != _VAGUE), candidates[0] if candidates else {}
    )


def _of_kernel(event: Event) -> Shares:
    """Numbers of the GPU driver tell more than the exception that follows."""
    if event.kind != "xid":
        return {}
    if event.fields.get("code") == "95":
        return {"sram_error": 1.0} if "SRAM" in event.text else _ECC
    return _XIDS.get(event.fields.get("code") or "", {})


def _of_text(event: Event) -> Shares:
    """What an exception says."""
    if event.kind not in _STATING and event.group != "report":
        stating = event.writer.kernel and event.kind != "out_of_memory"  # whose, others say
        return CAUSES.get(event.kind, {}) if stating else {}
    if event.group == "report" and not event.error:
        return {}
    for text in dict.fromkeys((event.statement, event.text)):
        for meaning in MEANINGS:
            if meaning.pattern.search(text):
                return meaning.causes
        if event.group == "fault" and event.error:
            break
    if not event.error or event.group == "report":
        return {}
    name = _EXCEPTIONS.get(event.error) or _WORD.sub("_", event.error).lower()
    return {name: 1.0}


def _of_host_memory(event: Event) -> Shares:
    """The kernel ended a process, and no process says more."""
    return CAUSES[event.kind] if event.kind in ("out_of_memory", "host_memory") else {}


def _of_kind(event: Event) -> Shares:
    """What the kind of an event, the signal of a process or its exit code say."""
    if event.kind == "xid":
        return _ILLEGAL if event.fields.get("code") in _PROGRAM_XIDS else {}
    if event.kind in ("died", "killed", "summary"):
        return _of_signal(event)
    if event.kind == "lost" and not event.fields.get("node"):
        return {}  # a process, and nobody says why
    return CAUSES.get(event.kind, {})


def _of_signal(event: Event) -> Shares:
    """A process that a signal ended."""
    ended = signal_of(event)
    if ended is None:
        return {}
    agent = event.kind == "killed" and event.fields.get("node") and event.rank is None
    if agent and event.fields.get("signal") == "Killed":
        return {"agent_killed": 1.0}
    return {"9": _KILLED, "11": _CRASH, "7": _CRASH, "4": _CRASH, "8": _CRASH}.get(ended, {})


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

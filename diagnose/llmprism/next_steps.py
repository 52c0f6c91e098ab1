"""What an operator does next about a finding: one sentence for each cause.

A sentence names what to read or to compare first, on the part that the finding names, and what to
change if that confirms it. Tools are those that clusters have: ``nvidia-smi``, ``ethtool``,
``mlxlink``, counters of switches, ``py-spy``, ``llmlog``. A cause without a sentence, such as one
of another method, gets that of its kind of culprit.
"""

from __future__ import annotations

_GPU = (
    "Compare its clocks, throttle reasons and temperature with those of a peer (nvidia-smi -q -d "
    "PERFORMANCE,CLOCK,TEMPERATURE), and drain the server if they differ."
)
_SERVER = (
    "Look for other processes, the CPU governor and a power cap on this server, and compare a "
    "short benchmark with that of a peer."
)
_NIC = (
    "Compare its link speed and error counters with those of a peer (ethtool -S, mlxlink), also at "
    "the port of the switch; then change cable or transceiver."
)
_LINK = (
    "Read CRC, FEC and symbol errors and the speed at both ends, take the link out of service, and "
    "clean or change its transceivers."
)
_SWITCH = (
    "Compare its discards, pause frames and settings for QoS, PFC and ECN with those of another "
    "switch of its tier."
)
_UPLINKS = (
    "Read which of its uplinks are down or carry less, and compare its hash fields and seed with "
    "those of other leaves."
)
_JOB = "No part is named: compare its slow steps with its logs (llmlog LOGS --flows FOLDER)."

NEXT: dict[str, str] = {
    "slow_gpu": _GPU,
    "thermal_ramp": _GPU,
    "intermittent_gpu": _GPU,
    "slow_compute": _GPU,
    "slow_server": _SERVER,
    "degraded_nvlink": "Read nvidia-smi nvlink --status, and the kernel log (Xid 74).",
    "gc_pauses": "Let all ranks collect garbage in the same step (gc.disable, gc.collect).",
    "loader_stalls": "Time the data loader of this rank: workers, prefetching, and its storage.",
    "slow_nic": _NIC,
    "stopped_nic": _NIC,
    "flapping_nic": "Count link-down events at the NIC and its port, and change the cable.",
    "paused_port": "Count pause frames that this NIC sends, and look why its server is slow.",
    "slow_link": _LINK,
    "lossy_link": _LINK,
    "slow_switch": _SWITCH,
    "misconfigured_switch": _SWITCH,
    "failed_leaf": "Read why it is down; its NICs use their other ports until it is back.",
    "failed_plane": "Read why it is down; NICs use their other ports until it is back.",
    "failed_uplinks": _UPLINKS,
    "polarised_hashing": _UPLINKS,
    "uneven_spraying": _UPLINKS,
    "slow_network": "Compare error counters of the ports on the path of these transfers.",
    "incast_burst": "Find the senders in the flow records, and move or limit their traffic.",
    "job_congestion": "Place one of the jobs on other leaves, or pin its connections to paths.",
    "uneven_stage": "Move layers from this stage to the others.",
    "length_imbalance": "Distribute sequences by their length over the ranks.",
    "expert_imbalance": "Look at the tokens of each expert, and at the router's auxiliary loss.",
    "slow_storage": "Compare its load with that at fast saves; write checkpoints asynchronously.",
    "hang": "Take the stack of the named rank first (py-spy dump), then those of the others.",
    "crash": "Read the log of this node first (llmlog LOGS --flows FOLDER).",
}
"""What to do next, by cause."""

OF_KIND: dict[str, str] = {
    "address": _NIC,
    "server": _SERVER,
    "link": _LINK,
    "switch": _SWITCH,
    "job": _JOB,
}
"""The same for a cause without a sentence, by kind of culprit."""


def next_step(cause: str, culprit_kind: str) -> str:
    """What to do next about a finding.

    >>> next_step("uneven_stage", "stage")
    'Move layers from this stage to the others.'
    >>> next_step("unknown", "job") == next_step("", "")
    True
    """
    return NEXT.get(cause) or OF_KIND.get(culprit_kind, _JOB)

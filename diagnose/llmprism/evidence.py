"""The evidence of a finding in words: its figures, the parts that can be meant, what to do next.

Evidence is JSON of any content. Figures that the method ``prism`` gives have a phrase here; the
names of all others are written out.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any

from llmprism.finding_fields import names_in, plain, text
from llmprism.part_names import Parts
from prism_common.quantities import CLOCK_FROM_NS, clock_time, duration, percent, shortened

PHRASES: dict[str, str] = {
    "time_ratio": "takes {} times the usual time",
    "deviations": "that is {} times the usual deviation",
    "time_ratio_of_others": "others take {} times theirs",
    "pace_ratio": "a byte takes {} times its usual time",
    "pace_ratio_of_others": "elsewhere {} times",
    "ratio_to_peers": "a message takes {} times as long as those of other connections",
    "ratio_to_replicas": "takes {} times as long as ranks that do the same",
    "lost_share_of_a_step": "the culprit itself lost {} of a step",
    "normal_step_ns": "a normal step takes {}",
    "slow_step_ns": "a slow step takes {}",
    "step_share": "steps are {} longer",
    "step_deviations": "that is {} times their usual deviation",
    "slow_bundles": "{} slow groups of connections",
    "bundles": "{} groups in all",
    "kinds": "slow traffic: {}",
    "waiting_hops": "{} hops of its collectives wait for it",
    "shown_by": "it {}",
    "chance_of_as_many": "healthy ranks pause as often with a probability of {}",
}
"""A figure of the evidence in words, in the order in which they are read."""

_RANKED_KEYS = ("one_of", "suspects")
_HIDDEN = {*_RANKED_KEYS, "server", "or_causes", "steps", "further_jobs", "seen_by"}
_MOST_SUSPECTS = 6
_NO_MEASURE = 999_999.0  # deviations: beyond, nothing shows how much healthy steps vary
_TIMES = 10.0  # a step that is longer by more than so many steps is given as a multiple
_MOST_LISTED = 4


def numbers(evidence: Mapping[str, Any]) -> Iterator[str]:
    """The figures of the evidence, each with its name."""
    known = [key for key in PHRASES if key in evidence]
    for key in dict.fromkeys([*known, *evidence]):
        words = _value(key, evidence[key])
        if key == "step_deviations" and _above(evidence[key], _NO_MEASURE):
            continue
        if key == "step_share" and _above(evidence[key], _TIMES):
            yield f"steps are {shortened(evidence[key] + 1)} times as long"
        elif key == "lost_share_of_a_step" and _above(evidence[key], 1.0):
            yield f"its transfers lost {shortened(evidence[key])} times a step, all taken together"
        elif key not in _HIDDEN and words:
            name = plain(key.removesuffix("_ns"))
            yield PHRASES[key].format(words) if key in PHRASES else f"{name} {words}"


def _above(value: Any, limit: float) -> bool:
    """Whether a value is a finite number above a limit."""
    return isinstance(value, int | float) and math.isfinite(value) and value > limit


def _value(key: str, value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int | float) and math.isfinite(value):
        if key.endswith("_ns"):
            return clock_time(int(value)) if value > CLOCK_FROM_NS else duration(value)
        return percent(value) if "share" in key.split("_") else shortened(value)
    if isinstance(value, str):
        return value
    simple = isinstance(value, list) and 0 < len(value) <= _MOST_LISTED
    if simple and all(isinstance(one, str | int | float) for one in value):
        return ", ".join(_value(key, one) for one in value)
    return ""


def suspects(
    finding: Mapping[str, Any], evidence: Mapping[str, Any], parts: Parts
) -> Iterator[str]:
    """The culprit, then the alternatives that the evidence names."""
    cause, culprit = text(finding.get("cause")), text(finding.get("culprit"))
    kinds = {culprit: text(finding.get("culprit_kind"))} if culprit else {}
    for key in _RANKED_KEYS:
        for name in names_in(evidence.get(key)):
            kinds.setdefault(name, "link" if "|" in name else "")
    for name in {culprit, text(finding.get("job"))}:
        if kinds.get(name) == "job" or name == text(finding.get("job")):
            kinds.pop(name, None)  # a job is no part of the cluster: nothing is localised
    inside = [name for name in kinds if name != culprit and parts.server(name) == culprit]
    gpus = sorted({gpu for name in inside for gpu in parts.endpoints[name].get("gpus") or ()})
    for name in [name for name in kinds if name not in inside][:_MOST_SUSPECTS]:
        words = parts.name(kinds[name], name, cause)
        place = name.partition(">")[0]  # without the direction, which is in the words
        detail = "" if place in words else f" ({place})"
        if name == culprit and gpus:
            detail = f": flows cannot tell which of its GPUs {', '.join(map(str, gpus))}"
        yield words + detail


# What an operator does next about a finding: one sentence for each cause.
#
# A sentence names what to read or to compare first, on the part that the finding names, and what to
# change if that confirms it. Tools are those that clusters have: ``nvidia-smi``, ``ethtool``,
# ``mlxlink``, counters of switches, ``py-spy``, ``llmlog``. A cause without a sentence, such as one
# of another method, gets that of its kind of culprit.

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

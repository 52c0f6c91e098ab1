"""Which incident a finding continues, and which findings of one window say the same.

A finding continues an incident of the same job and the same place if their times overlap, or are
less than the quiet period apart: a fault that returns at once is one incident. What a habit
explains is over with its step, and no fault continues it. The incident of the same cause comes
first; but a window may know the cause of an incident better than the one before, so one of another
cause follows, if no finding has its own. So does one at another place that began at the same step,
if none at its own place did: windows may differ in which of several like parts is slow. A job stops
only once at a time, so all findings that say so are one incident, and another one than what made it
slow before. A switch that is slow only where a server below it is, is not reported beside that
server.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from llmprism.finding_fields import confidence_of, text
from llmprism.part_names import Parts
from llmprism.watch import policy
from llmprism.watch.network import Network
from llmprism.watch.state import Incident, State


def narrowest(findings: list[dict[str, Any]], network: Network) -> list[dict[str, Any]]:
    """The findings without those about a switch that one about a server below it explains."""
    leaves = {network.servers[address]: leaf for address, leaf in network.leaf_of.items()}

    def explains(one: dict[str, Any], other: dict[str, Any]) -> bool:
        below = leaves.get(place_of(one, network.parts)) == place_of(other, network.parts)
        return below and one["job"] == other["job"] and _overlap(one, other)

    return [one for one in findings if not any(explains(it, one) for it in findings)]


def matched(
    findings: list[dict[str, Any]], parts: Parts, state: State, quiet_ns: int
) -> list[tuple[dict[str, Any], Incident | None]]:
    """Each finding with the incident that it continues, if there is one.

    Of several findings that say that a job has stopped, only the surest is kept.
    """
    findings = _one_stop(findings)
    found: dict[int, Incident] = {}
    for way in (_SAME, _OTHER_CAUSE, _OTHER_PLACE):
        for row, finding in enumerate(findings):
            if row in found:
                continue
            incident = _known(finding, parts, state, quiet_ns, way)
            if incident is None:
                continue
            rivals = [findings[at] for at, one in found.items() if one is incident]
            if way == _OTHER_PLACE:
                rivals = [one for one in rivals if _began_with(incident, one)]
            if way == _SAME or not rivals:
                found[row] = incident
    return [(finding, found.get(row)) for row, finding in enumerate(findings)]


def _one_stop(findings: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The findings, with the surest of those that say that a job has stopped at one time."""
    kept: list[dict[str, Any]] = []
    surest = sorted(findings, key=lambda one: -confidence_of(one))
    for one in surest:
        stops = [it for it in kept if _is_stop(it) and it["job"] == one["job"]]
        if not (_is_stop(one) and any(_overlap(one, it) for it in stops)):
            kept.append(one)
    return [one for one in findings if one in kept]


def _is_stop(finding: Mapping[str, Any]) -> bool:
    return text(finding.get("cause")) in policy.STOPS


def _overlap(one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    return bool(one["start_ns"] <= other["end_ns"] and other["start_ns"] <= one["end_ns"])


_SAME, _OTHER_CAUSE, _OTHER_PLACE = range(3)


def _known(
    finding: Mapping[str, Any], parts: Parts, state: State, quiet_ns: int, way: int
) -> Incident | None:
    """The incident that a finding continues, the latest of several."""
    place, job, is_stop = place_of(finding, parts), str(finding["job"]), _is_stop(finding)
    start_ns, end_ns = int(finding["start_ns"]), int(finding["end_ns"])
    same = [
        one
        for one in state.incidents
        if one.job == job
        and is_stop == (one.cause in policy.STOPS)
        and (one.place == place or is_stop or (way == _OTHER_PLACE and _began_with(one, finding)))
        and start_ns <= one.end_ns + _apart_ns(one, quiet_ns)
        and end_ns >= one.start_ns - _apart_ns(one, quiet_ns)
        and (one.stage != "resolved" or start_ns <= one.end_ns)
        and (way == _OTHER_CAUSE or one.labels["alertname"] == alert_name(finding))
    ]
    return max(same, key=lambda one: (one.place == place, one.end_ns), default=None)


def _began_with(one: Incident, finding: Mapping[str, Any]) -> bool:
    """Whether an incident began at the step of a finding, and has not lasted longer."""
    first, last = int(finding["first_step"]), int(finding["last_step"])
    return abs(one.first_step - first) <= 1 and one.last_step <= last + 1


def _apart_ns(one: Incident, quiet_ns: int) -> int:
    """How far from an incident it goes on; what a habit explains is over with its step."""
    return 0 if one.withheld == policy.HABITUAL else quiet_ns


def place_of(finding: Mapping[str, Any], parts: Parts) -> str:
    """The server of a culprit that is an address or a server; else the culprit."""
    return parts.server(text(finding.get("culprit")))


def alert_name(finding: Mapping[str, Any]) -> str:
    """The name of the cause of a finding as that of an alert.

    >>> alert_name({"cause": "slow_gpu"})
    'SlowGpu'
    """
    cause = text(finding.get("cause")) or "unknown"
    return "".join(word.capitalize() for word in cause.split("_"))

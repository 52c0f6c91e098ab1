"""Findings as sentences for an operator: what is slow, since when, what it costs, how sure.

"GPU 3 of server s0012 computes 8.0 % slower since 10:00:21 UTC (step 17). It costs job-0 6.5 %
of its step time: 3.20 s in 4 steps, 0.11 GPU-hours. Confidence 91 %. Evidence: ..."

A sentence needs only a row of the table ``findings``, the content of ``topology.json`` and a few
facts about the job. It therefore works for findings of any method. A cause or symptom that has
no phrase here is written out as it is.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from llmprism.part_names import Parts
from llmprism.quantities import duration, percent

if TYPE_CHECKING:
    import pandas as pd

PHRASES: dict[str, str] = {
    "slow_gpu": "computes {by} slower",
    "slow_compute": "computes {by} slower",
    "intermittent_gpu": "computes {by} slower again and again",
    "thermal_ramp": "computes more and more slowly, by up to {by}",
    "slow_server": "computes {by} slower",
    "gc_pauses": "pauses again and again, as in garbage collection",
    "loader_stalls": "waits for its data loader",
    "degraded_nvlink": "exchanges data between its GPUs {by} slower",
    "slow_nic": "sends and receives {by} slower",
    "flapping_nic": "stops and resumes sending again and again",
    "stopped_nic": "no longer sends or receives",
    "slow_link": "carries data {by} slower",
    "lossy_link": "loses packets, and carries data {by} slower",
    "slow_switch": "forwards data {by} slower",
    "misconfigured_switch": "forwards data {by} slower",
    "failed_uplinks": "has lost uplinks, and forwards data {by} slower",
    "polarised_hashing": "sends many connections over few of its links, and is {by} slower",
    "slow_network": "has transfers that are {by} slower",
    "incast_burst": "receives a burst of other traffic, and is {by} slower",
    "job_congestion": "shares links with another job, and is {by} slower",
    "uneven_stage": "has more work than other stages, by {by}",
    "length_imbalance": "has longer sequences than others, and is {by} slower",
    "expert_imbalance": "has more tokens for its experts than others, and is {by} slower",
    "slow_storage": "waits for storage",
    "hang": "stopped first, and its job stopped with it",
    "crash": "stopped, and its job restarted",
}
"""What the culprit of a cause does; ``{by}`` is the share of its speed that is lost."""

_ABBREVIATED = {
    "gpu": "GPU",
    "gc": "garbage-collection",
    "nic": "NIC",
    "ecmp": "ECMP",
    "nvlink": "NVLink",
}

_RANKED_KEYS = ("one_of", "suspects")
_HIDDEN = {*_RANKED_KEYS, "server", "or_causes", "steps"}
_MOST_SUSPECTS = 6
_MOST_LISTED = 4
_CLOCK_FROM_NS = 10**17  # 1973: smaller times do not count from the epoch


@dataclass(frozen=True)
class JobFacts:
    """What a sentence needs to know of a job.

    Attributes
    ----------
    gpus : GPUs of the job, 0 if unknown.
    last_step : number of its last step, -1 if unknown.
    start_ns, end_ns : first and last time of the job; if they lie on two days, times have a date.
    """

    gpus: int = 0
    last_step: int = -1
    start_ns: int = 0
    end_ns: int = 0


def facts_of(jobs: pd.DataFrame, steps: pd.DataFrame, parts: Parts) -> dict[str, JobFacts]:
    """Size and times of each job of a diagnosis, from its tables ``jobs`` and ``steps``."""
    times = steps.groupby("job", observed=True).agg(
        last=("step", "max"), start=("start_ns", "min"), end=("end_ns", "max")
    )
    facts = {}
    for job in jobs["job"].unique():
        gpus = parts.gpu_count(jobs.loc[jobs["job"] == job, "address"].astype(str).unique())
        last, start, end = times.loc[job] if job in times.index else (-1, 0, 0)
        facts[str(job)] = JobFacts(gpus, int(last), int(start), int(end))
    return facts


@dataclass(frozen=True)
class FindingText:
    """A finding in words; each part is a sentence or empty.

    Attributes
    ----------
    what : the culprit, what it does, and since when.
    causes : all causes that fit the records, if there are several.
    cost : the share of step time, the time and the GPU-hours that are lost.
    confidence : how sure the method is.
    evidence : the numbers behind it, without the ranked suspects.
    suspects : the parts that can be meant, the likeliest first; only one if it is certain.
    """

    what: str
    causes: str
    cost: str
    confidence: str
    evidence: str
    suspects: tuple[str, ...]

    @property
    def short(self) -> str:
        """All sentences but the evidence in a row."""
        parts = (self.what, self.causes, self.cost, self.confidence)
        return " ".join(part for part in parts if part)

    def __str__(self) -> str:
        """All sentences in a row."""
        return f"{self.short} Evidence: {self.evidence}." if self.evidence else self.short


def finding_text(finding: Mapping[str, Any], parts: Parts, job: JobFacts) -> FindingText:
    """Put one row of the table ``findings`` into words."""
    evidence = evidence_of(finding)
    return FindingText(
        what=f"{_what(finding, parts)} {_when(finding, job)}.",
        causes=_causes(finding, evidence),
        cost=_cost(finding, job, evidence),
        confidence=_confidence(finding),
        evidence="; ".join(_numbers(evidence)),
        suspects=tuple(_suspects(finding, evidence, parts)),
    )


def evidence_of(finding: Mapping[str, Any]) -> dict[str, Any]:
    """The evidence of a finding; empty if it is no JSON object."""
    try:
        content = json.loads(str(finding.get("evidence")))
    except (ValueError, RecursionError):
        return {}
    return content if isinstance(content, dict) else {}


def cost_share(finding: Mapping[str, Any]) -> float | None:
    """By how much the steps of the finding are longer, as a fraction of a normal step."""
    share = evidence_of(finding).get("step_share")
    if isinstance(share, int | float) and math.isfinite(share):
        return float(share)
    cost, start, end = (_number(finding.get(key)) for key in ("cost", "start_ns", "end_ns"))
    if cost is None or start is None or end is None or not 0 <= cost < end - start:
        return None
    return cost / (end - start - cost)


def clock_time(time_ns: int, dated: bool = False) -> str:
    """An instant in UTC, to the second.

    >>> clock_time(1_767_225_621_900_000_000), clock_time(1_767_225_621_900_000_000, True)
    ('00:00:21 UTC', '2026-01-01 00:00:21 UTC')
    >>> clock_time(12_300_000_000)  # a clock that does not count from the epoch
    '12.3 s'
    """
    if abs(time_ns) < _CLOCK_FROM_NS:
        return duration(time_ns)
    try:
        instant = datetime.fromtimestamp(time_ns // 1_000_000_000, UTC)
    except (OverflowError, ValueError, OSError):
        return f"{time_ns} ns"
    return f"{instant:%Y-%m-%d %H:%M:%S} UTC" if dated else f"{instant:%H:%M:%S} UTC"


def _what(finding: Mapping[str, Any], parts: Parts) -> str:
    cause = _text(finding.get("cause"))
    kind, culprit = _text(finding.get("culprit_kind")), _text(finding.get("culprit"))
    name = parts.name(kind, culprit, cause) or "an unknown part"
    return f"{name[:1].upper()}{name[1:]} {_predicate(finding, cause)}"


def _predicate(finding: Mapping[str, Any], cause: str) -> str:
    magnitude = _number(finding.get("magnitude"))
    phrase = PHRASES.get(cause)
    if _text(finding.get("symptom")) == "pauses":
        return "pauses in some of its steps"
    if _text(finding.get("symptom")) == "slow_steps":
        return f"is {percent(magnitude)} slower, for a reason that the records do not show,"
    if _text(finding.get("culprit_kind")) == "job" and cause in ("hang", "crash"):
        return "stopped" if cause == "hang" else "stopped, and started again"
    if phrase is None:
        symptom = _plain(cause if cause not in ("", "unknown") else _text(finding.get("symptom")))
        normal = f", {magnitude:.3g} times the normal value" if magnitude is not None else ""
        return f"stands out ({symptom or 'no symptom'}{normal})"
    if "{by}" in phrase and (magnitude is None or not 0 < magnitude < 1):
        for part in (", by up to {by}", ", by {by}", "{by} "):
            phrase = phrase.replace(part, "")
        return phrase
    return phrase.format(by=percent(magnitude))


def _when(finding: Mapping[str, Any], job: JobFacts) -> str:
    first, last = _step(finding, "first_step"), _step(finding, "last_step")
    start, end = (_number(finding.get(key)) for key in ("start_ns", "end_ns"))
    dated = start is not None and _day(int(start)) != _day(job.end_ns)
    if start is None:
        return f"in steps {first} to {last}" if first is not None else "at an unknown time"
    begin = clock_time(int(start), dated) + (f" (step {first})" if first is not None else "")
    lasts = last is not None and 0 <= job.last_step <= last and first != last
    if lasts or end is None:
        return f"since {begin}"
    stop = clock_time(int(end), dated) + (f" (step {last})" if last is not None else "")
    if first is not None and first == last:
        return f"in step {first}, at {clock_time(int(start), dated)}"
    return f"from {begin} to {stop}"


def _causes(finding: Mapping[str, Any], evidence: Mapping[str, Any]) -> str:
    """The causes that flows cannot tell apart, the likeliest first."""
    others = list(_listed(evidence.get("or_causes")))
    named = dict.fromkeys([_text(finding.get("cause")), *others])
    words = ", ".join(_cause_name(cause) for cause in named if cause)
    return f"Causes that fit: {words}." if others else ""


def _cause_name(cause: str) -> str:
    return " ".join(_ABBREVIATED.get(word, word) for word in cause.split("_"))


def _cost(finding: Mapping[str, Any], job: JobFacts, evidence: Mapping[str, Any]) -> str:
    cost = _number(finding.get("cost"))
    if cost is None:
        return "Its cost is unknown."
    name = _text(finding.get("job")) or "the job"
    if cost <= 0:
        return f"It costs {name} no measurable time."
    first, last = _step(finding, "first_step"), _step(finding, "last_step")
    share = cost_share(finding)
    lost = duration(cost)
    if first is not None and last is not None:
        steps = evidence.get("steps")  # where they do not follow each other
        count = len(steps) if isinstance(steps, list) and steps else last - first + 1
        lost += f" in {count:,} step{'s' if count > 1 else ''}"
    if job.gpus:
        lost += f", {gpu_hours(cost, job.gpus):.2g} GPU-hours"
    part = f"{percent(share)} of its step time: " if share is not None else ""
    return f"It costs {name} {part}{lost}."


def gpu_hours(cost_ns: float, gpus: int) -> float:
    """GPU-hours that a job with ``gpus`` GPUs loses in ``cost_ns``.

    >>> gpu_hours(3.6e12, 8)
    8.0
    """
    return cost_ns / 3.6e12 * gpus


def _confidence(finding: Mapping[str, Any]) -> str:
    confidence = _number(finding.get("confidence"))
    return "" if confidence is None else f"Confidence {percent(confidence, 0)}."


def _numbers(evidence: Mapping[str, Any]) -> Iterator[str]:
    """The figures of the evidence, each with its name."""
    for key, value in evidence.items():
        words = _value(key, value)
        if key not in _HIDDEN and words:
            yield f"{_plain(key.removesuffix('_ns'))} {words}"


def _value(key: str, value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int | float) and math.isfinite(value):
        if key.endswith("_ns"):
            return clock_time(int(value)) if value > _CLOCK_FROM_NS else duration(value)
        return percent(value) if "share" in key.split("_") else f"{value:,.4g}"
    if isinstance(value, str):
        return value
    simple = isinstance(value, list) and 0 < len(value) <= _MOST_LISTED
    if simple and all(isinstance(one, str | int | float) for one in value):
        return ", ".join(_value(key, one) for one in value)
    return ""


def _suspects(
    finding: Mapping[str, Any], evidence: Mapping[str, Any], parts: Parts
) -> Iterator[str]:
    """The culprit, then the alternatives that the evidence names."""
    cause, culprit = _text(finding.get("cause")), _text(finding.get("culprit"))
    kinds = {culprit: _text(finding.get("culprit_kind"))} if culprit else {}
    for key in _RANKED_KEYS:
        for name in _listed(evidence.get(key)):
            kinds.setdefault(name, "link" if "|" in name else "")
    if kinds.get(culprit) == "job":
        del kinds[culprit]  # it is not localised
    inside = [name for name in kinds if name != culprit and parts.server(name) == culprit]
    gpus = sorted({gpu for name in inside for gpu in parts.endpoints[name].get("gpus") or ()})
    for name in [name for name in kinds if name not in inside][:_MOST_SUSPECTS]:
        words = parts.name(kinds[name], name, cause)
        detail = "" if name in words else f" ({name})"
        if name == culprit and gpus:
            detail = f": flows cannot tell which of its GPUs {', '.join(map(str, gpus))}"
        yield words + detail


def _listed(names: Any) -> Iterator[str]:
    """Names in a list of names, or of objects with a name."""
    for one in names if isinstance(names, list) else []:
        name = one.get("name") if isinstance(one, dict) else one
        if isinstance(name, str):
            yield name


def _step(finding: Mapping[str, Any], key: str) -> int | None:
    value = _number(finding.get(key))
    return None if value is None or value < 0 else int(value)


def _number(value: Any) -> float | None:
    """``value`` if it is a finite number."""
    if isinstance(value, bool) or not hasattr(value, "__float__"):
        return None
    number = value if isinstance(value, int) else float(value)
    return number if math.isfinite(number) else None


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""


def _plain(name: str) -> str:
    return name.replace("_", " ")


def _day(time_ns: int) -> int:
    return time_ns // 86_400_000_000_000

"""The evidence of a finding in words: its figures, the parts that can be meant, what to do next.

Evidence is JSON of any content. Figures that the method ``prism`` gives have a phrase here; the
names of all others are written out.
"""

from __future__ import annotations

import math
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from llmprism.finding_fields import names_in, plain, text
from llmprism.part_names import Parts
from prism_common.quantities import CLOCK_FROM_NS, clock_time, duration, percent, shortened

WORDS: dict[str, Any] = tomllib.loads(
    Path(__file__).with_name("phrases.toml").read_text(encoding="utf-8")
)
"""Findings in words, by what the words are for."""
PHRASES: dict[str, str] = WORDS["figures"]
"""A figure of the evidence in words, in the order in which they are read."""

_RANKED_KEYS = ("one_of", "suspects")
_HIDDEN = {*_RANKED_KEYS, "server", "or_causes", "steps", "further_jobs", "seen_by", "marks"}
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


NEXT = {cause: str(one["text"]) for one in WORDS["next"] for cause in one["causes"]}
"""What to do next, by cause."""

OF_KIND = {kind: str(one["text"]) for one in WORDS["next"] for kind in one["kinds"]}
"""The same for a cause without a sentence, by kind of culprit."""


def next_step(cause: str, culprit_kind: str) -> str:
    """What to do next about a finding.

    >>> next_step("uneven_stage", "stage")
    'Move layers from this stage to the others.'
    >>> next_step("unknown", "job") == next_step("", "")
    True
    """
    return NEXT.get(cause) or OF_KIND.get(culprit_kind, OF_KIND["job"])

"""What an interval of counters cannot show, and the interval that would.

A step shows if it lasts two refreshes, a single step if it lasts six. Below, the answer is
"unknown", with the interval that would show it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from llmprism.counters.cleaning import UNSURE_WRAPS
from llmprism.counters.rhythm import SHORTEST, Rhythm
from llmprism.counters.steps import SAMPLES
from llmprism.persistent_deviations import Scope
from llmprism.verdict import Reason
from prism_common.quantities import duration

FINEST_NS = 100_000_000
"""Interval that an operator can ask of most switches: 0.1 s."""
NO_ONE_TO_NAME = (
    "which GPU, link or server makes a job slow, where all ports of the job wait for it"
    " (flow records of single messages show it)"
)


def about_all(ports: int, busy: int, jobs: int, counts: Mapping[str, int]) -> Iterator[Reason]:
    """Why no job can be diagnosed at all."""
    if not ports:
        hint = "; read the 64-bit counters (ifHCInOctets)" if counts.get(UNSURE_WRAPS) else ""
        yield Reason("no_records", None, f"no port has usable readings{hint}")
    elif not busy:
        yield Reason("no_jobs", None, f"none of the {ports:,} ports has the traffic of a job")
    elif not jobs:
        text = f"the {busy:,} busy ports have no rhythm in common; a longer recording may show one"
        yield Reason("no_jobs", None, text)


def about_job(job: str, rhythm: Rhythm, resolution_ns: int) -> Iterator[Reason]:
    """Why the steps of one job are unknown."""
    refresh = duration(resolution_ns)
    if not rhythm.period_ns:
        shortest = duration(SHORTEST * resolution_ns)
        finer = min(FINEST_NS, resolution_ns // 10)
        text = (
            f"{rhythm.reason} (counters are new every {refresh}), so its steps are unknown: they"
            f" may be shorter than {shortest}; counters that are new every {duration(finer)} would"
            f" show steps from {duration(SHORTEST * finer)} on"
        )
        yield Reason("coarse_interval", job, text)
    elif rhythm.period_ns < SAMPLES * resolution_ns:
        text = (
            f"a step takes {duration(rhythm.period_ns)} on average, and single steps are unknown:"
            f" counters are new every {refresh}; every {duration(rhythm.period_ns / SAMPLES)} would"
            " show them"
        )
        yield Reason("coarse_interval", job, text)


def scope_of(job: str, has_steps: bool, events: Mapping[str, Any]) -> Scope:
    """What was compared in a job, and what was not."""
    compared = ["each NIC with the same NIC of the other servers"]
    if has_steps:
        compared.append("the bursts of each NIC with those of NICs that move as much")
    if events:
        compared.append(f"{', '.join(name.replace('_', ' ') for name in events)} of the NICs")
    return Scope(job, tuple(compared), (NO_ONE_TO_NAME,))

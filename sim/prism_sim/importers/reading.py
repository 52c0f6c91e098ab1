"""Reads the traces that a scenario names, before the scenario is validated."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from pydantic import ValidationError

from prism_common.errors import Problem, UserError
from prism_sim.importers import KINDS, TIMINGS
from prism_sim.scenario.base import Loc
from prism_sim.scenario.source import Source

_NEEDED = ("micro_batches", "steps")
"""Required keys of a job that a measured timeline provides."""


@dataclass
class Traces:
    """What reading the traces of a scenario gave: its problems, and remarks that are none."""

    problems: list[Problem] = field(default_factory=list)
    remarks: list[Problem] = field(default_factory=list)


def read_traces(source: Source) -> Traces:
    """Store the content of the traces of ``source`` next to their names.

    A trace whose content is already given is not read again. An ill-formed entry is not read
    either: its error is reported when the whole scenario is validated.
    """
    jobs = source.values.get("jobs")
    found = Traces()
    for index, job in enumerate(jobs if isinstance(jobs, list) else ()):
        if isinstance(job, dict) and isinstance(job.get("trace"), dict):
            _read(source, job, ("jobs", index, "trace"), found)
    return found


def _read(source: Source, job: dict[str, Any], at: Loc, found: Traces) -> None:
    written = job["trace"]
    kind = KINDS.get(written["kind"]) if isinstance(written.get("kind"), str) else None
    if kind is None:
        return
    try:
        trace = kind.model_validate(written)
    except ValidationError:
        return
    place = source.place((*at, "file"))

    def remark(what: str) -> None:
        found.remarks.append(Problem(what, place))

    content = getattr(trace, kind.content)
    try:
        if content is None:
            content = trace.read(source.folder / trace.file, remark)
        else:
            trace.verify(content)
    except UserError as error:
        if written["kind"] in TIMINGS:
            _fill(job, dict.fromkeys(_NEEDED, 1))
        found.problems += [Problem(f"{p.where}: {p.what}" if p.where else p.what, place, p.how)
                           for p in error.problems]  # fmt: skip
        return
    written[kind.content] = content
    _fill(job, trace.fills(content))


def _fill(job: dict[str, Any], values: dict[str, Any]) -> None:
    for key, value in values.items():
        job.setdefault(key, value)

"""What the live page shows, as plain values: one snapshot of all, and the details of one job."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from llmprism.page.cards import cards_of
from llmprism.page.close_up import close_ups
from llmprism.page.delays import delay_map
from llmprism.part_names import condensed
from llmprism.watch.logging import rfc3339
from llmprism.watch.shown import Shown
from llmprism.watch.state import Exporter, Incident, State
from llmprism.watch.view import JobFigures

_STEPS = 60  # lengths of steps that are drawn
_INCIDENTS = 50
_STAGES = ("open", "new", "resolved")


def snapshot(state: State, shown: Shown | None, problem: str) -> dict[str, Any]:
    """The state of the monitor, its incidents and its jobs."""
    blind = [{"name": name, "text": one.text} for name, one in state.blind.items()]
    if problem:
        blind.append({"name": "StateNotWritten", "text": problem})
    return {
        "watermark": _time(state.watermark_ns),
        "cursor": _time(state.cursor_ns),
        "blind": blind,
        "fates": state.fates,
        "exporters": [_exporter(name, one) for name, one in sorted(state.exporters.items())],
        "hiccups": state.hiccups,
        "incidents": [_incident(one) for one in _shown(state.incidents)],
        "jobs": [_job(one) for one in shown.jobs] if shown else [],
        "took_s": shown.latest.took_s if shown else None,
    }


def details(shown: Shown, job: str) -> dict[str, Any] | None:
    """The delays of a job's servers by step, and its timeline; None if no window has the job."""
    if job not in shown.views:
        return None
    tables = shown.views[job].tables
    cards = [card for card in cards_of(tables) if card.job == job]
    timelines = close_ups(tables, [job], cards[:1])
    return {
        "job": job,
        "delays": delay_map(tables, job, cards),
        "timeline": timelines[0] if timelines else None,
    }


def _shown(incidents: Sequence[Incident]) -> list[Incident]:
    """The latest incidents: those that are open first."""
    ordered = sorted(incidents, key=lambda one: (_STAGES.index(one.stage), -one.start_ns))
    return [one for one in ordered if one.stage != "new"][:_INCIDENTS]


def _incident(one: Incident) -> dict[str, Any]:
    return {
        "id": one.id,
        "stage": one.stage,
        "severity": one.labels["severity"],
        "job": one.job,
        "place": one.place,
        "text": one.sentence,
        "since": rfc3339(one.start_ns),
        "steps": [one.first_step, one.last_step],
        "gpu_hours": one.gpu_hours,
    }


def _exporter(name: str, one: Exporter) -> dict[str, Any]:
    return {
        "name": name,
        "offset_ms": one.offset_ns / 1e6,
        "seen": rfc3339(one.seen_ns),
        "rate": one.rate_per_s,
        "lost": one.lost,
    }


def _job(one: JobFigures) -> dict[str, Any]:
    lengths = [[step, length / 1e6] for step, length in one.lengths_ns.items()]
    shown = {**asdict(one), "servers": condensed(one.servers), "server_count": len(one.servers)}
    del shown["lengths_ns"], shown["step_ns"]
    step_ms = None if one.step_ns is None else one.step_ns / 1e6
    return {**shown, "step_ms": step_ms, "lengths_ms": lengths[-_STEPS:]}


def _time(time_ns: int | None) -> str | None:
    return None if time_ns is None else rfc3339(time_ns)

"""One answer for each failed job: stage, first node and rank, iteration, cause."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from llmlog.causes import Shares, name_causes
from llmlog.events import read_job
from llmlog.evidence import Event, Evidence, Writer
from llmlog.failing import Culprit
from llmlog.flows import Flows, Sighting, joined
from llmlog.reading import Job
from llmlog.roles import SURE, find_culprit
from llmlog.streams import Intake
from llmlog.understanding import COMPLETED

_HANGS = {"blocked", "stuck"}
_HANG_XIDS = {"119", "120"}
_SETTING_UP = re.compile(
    r"setup_model_and_optimizer|initialize_megatron|init_process_group|deepspeed\.initialize"
)
"""Calls before training in a stack: other ranks may be ready while one still sets up."""
_TRAINING = re.compile(
    r"(?i)\bin (?:\w*train_(?:step|batch)|training_step|\w*backward\w*|forward_backward\w*)\b"
)
"""Functions of a training step in a stack, for logs without their beginning."""


@dataclass
class Failure:
    """The answer for one failed job.

    Attributes
    ----------
    stage : ``launch``, ``crash``, ``hang`` or ``slow``.
    nodes : most probable first; empty if it belongs to no single one.
    ranks : global ranks that failed first.
    iteration : the one that was not completed, or the first slow one; None if unknown.
    causes : names with shares, the most probable first.
    confidence : from 0 to 1.
    events : all events, with roles.
    """

    job: str
    stage: str
    nodes: list[str]
    ranks: list[int]
    iteration: int | None
    causes: Shares
    confidence: float
    events: list[Event] = field(default_factory=list)


def diagnose_job(evidence: Evidence, sightings: Iterable[Sighting] = ()) -> Failure | None:
    """Diagnose one job; None if it completed, or nothing failed in it.

    ``sightings`` are what flows tell about it.
    """
    if evidence.job.state == COMPLETED:
        return None
    culprit, seen = joined(find_culprit(evidence), sightings)
    if evidence.job.state is None and culprit.how == "unknown" and not culprit.nodes:
        return None  # nothing says that it failed
    causes = name_causes(culprit, evidence)
    best = next(iter(causes.values()), 0.5)
    stage = _stage(culprit, evidence)
    iteration = culprit.slow.number if culprit.slow else evidence.progress.next
    events = evidence.events + _slow_line(culprit) + seen
    return Failure(
        evidence.job.name,
        stage,
        culprit.nodes,
        culprit.ranks,
        None if stage == "launch" else iteration,
        causes,
        round(SURE[culprit.how] * best, 3),
        events,
    )


def diagnose(
    jobs: Iterable[Job], intake: Intake, flows: Flows | None = None
) -> Iterator[tuple[Evidence, Failure | None]]:
    """Read and diagnose jobs one after the other, with ``flows`` if given; memory holds one."""
    for job in jobs:
        evidence = read_job(job, intake)
        yield evidence, diagnose_job(evidence, flows.of(job) if flows else ())


def _stage(culprit: Culprit, evidence: Evidence) -> str:
    if culprit.how == "slow":
        return "slow"
    hangs = culprit.how == "hang" or any(
        event.kind in _HANGS or (event.fields.get("code") in _HANG_XIDS and event.kind == "xid")
        for event in culprit.events
    )
    if culprit.how == "hang" or (hangs and (evidence.of("timeout") or evidence.dumps)):
        return "hang"
    setting_up = any(_SETTING_UP.search(event.text) for event in culprit.events)
    progress = evidence.progress
    begun = progress.last is not None or (progress.begun and not setting_up)
    begun |= bool(progress.beats) or any(_TRAINING.search(event.text) for event in culprit.events)
    return "crash" if begun else "launch"


def _slow_line(culprit: Culprit) -> list[Event]:
    """The line of the first slow iteration, as an event."""
    if culprit.slow is None:
        return []
    slow, writer = culprit.slow, Writer(None, None)
    text = f"iteration {slow.number} took {slow.seconds} s"
    return [Event("iteration", "slow", writer, None, slow.file, slow.line, "", text, role="cause")]

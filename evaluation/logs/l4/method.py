"""The method of L4 for one job after the other.

1. Templates that successful jobs of the same user have are left out (*cross-job*).
2. Isolation Forest over numbers of lines by node ranks nodes and events (*spatial*).
3. Templates that occur before the last ten iterations are left out, and iterations in windows of
   ten, compared by dynamic time warping, show where a job became slow (*temporal*).

What the paper does not publish was chosen: events are all that are left and not spread evenly."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from evaluation.logs.l4.comparisons import Templates, other_jobs, over_nodes, slow_window
from evaluation.logs.l4.counting import Counted, Miner, Template
from evaluation.logs.l4.library import Library
from llmlog.diagnosis import Failure
from llmlog.evidence import Event, Writer
from llmlog.progress import Iteration
from llmlog.reading import Job
from llmlog.streams import Intake
from llmlog.understanding import COMPLETED

_WAITED = re.compile(r"(?i)time.?out|timed out|hang|hung|stuck")
_CONFIDENCE = 0.5


@dataclass(frozen=True)
class Settings:
    """What the paper does not publish, or what a user may lack.

    Attributes
    ----------
    same_user : compare with successful jobs of the same user only.
    temporal : leave out templates that occur earlier.
    uneven : leave out templates that all nodes have equally often.
    """

    same_user: bool = True
    temporal: bool = True
    uneven: bool = True


class L4:
    """Diagnoses jobs; numbers of templates and the library are kept from job to job."""

    def __init__(
        self,
        library: Library | None = None,
        settings: Settings | None = None,
        miner: Miner | None = None,
    ) -> None:
        self.library = library or Library()
        self.settings = settings or Settings()
        self.miner = miner or Miner()

    def diagnose(
        self, jobs: Sequence[Job], healthy: Sequence[Job], intake: Intake
    ) -> Iterator[tuple[Counted, Failure | None]]:
        """Diagnose ``jobs``; successful ones among them, and ``healthy``, are compared with."""
        completed = [job for job in jobs if job.state == COMPLETED]
        done = {id(job): self.healthy(job, intake) for job in [*healthy, *completed]}
        for job in jobs:
            if job.state == COMPLETED:
                yield done[id(job)], None
            else:
                counted = self.miner.count(job, intake)
                yield counted, self.diagnose_job(counted, done.values())

    def healthy(self, job: Job, intake: Intake) -> Counted:
        """The templates of a successful job, without their lines."""
        counted = self.miner.count(job, intake)
        counted.templates = {
            number: Template(one.text, one.level) for number, one in counted.templates.items()
        }
        return counted

    def diagnose_job(self, job: Counted, healthy: Iterable[Counted]) -> Failure | None:
        """The answer for one failed job; None if no event is left and nothing became slow."""
        left = other_jobs(job, self._comparable(job.job, healthy))
        nodes, splits = over_nodes(left, job.job.nodes)
        slow = slow_window(job.progress.iterations)
        events = self._answer(left, job)
        if job.job.state is None and not events and slow is None:
            return None
        ranked = sorted(events, key=lambda number: (-splits[number], number))
        texts = [events[number].text for number in ranked]
        stage = _stage(job, texts, slow)
        iteration = slow.number if stage == "slow" and slow else job.progress.next
        return Failure(
            job.job.name,
            stage,
            nodes,
            [],
            None if stage == "launch" else iteration,
            self.library.causes(texts),
            _CONFIDENCE,
            [event for number in ranked for event in _events(events[number])],
        )

    def _comparable(self, job: Job, healthy: Iterable[Counted]) -> list[Counted]:
        """Successful jobs of the same user; those without a user are compared with all."""
        return [
            other
            for other in healthy
            if not self.settings.same_user or other.job.user in (job.user, None)
        ]

    def _answer(self, left: Templates, job: Counted) -> Templates:
        if self.settings.temporal:
            left = {number: one for number, one in left.items() if not one.earlier}
        if self.settings.uneven:
            uneven = {number: one for number, one in left.items() if _uneven(one, job.job.nodes)}
            left = uneven or left
        return left


def _uneven(template: Template, nodes: Sequence[str]) -> bool:
    return len({template.nodes[node] for node in nodes}) > 1


def _stage(job: Counted, texts: Sequence[str], slow: Iteration | None) -> str:
    if job.progress.last is None:
        return "launch"
    if slow is not None:
        return "slow"
    return "hang" if any(_WAITED.search(text) for text in texts) else "crash"


def _events(template: Template) -> Iterator[Event]:
    """An event for each line that is kept."""
    for file, line, node in template.places:
        writer = Writer(node, None)
        yield Event("template", "", writer, None, file, line, "", template.text, role="cause")

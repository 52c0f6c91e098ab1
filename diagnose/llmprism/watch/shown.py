"""What is known of all jobs: what the last diagnosis of each shows, and its steps since.

A page and metrics show this. Rates of leaves are those of the last window that was diagnosed as a
whole.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import pandas as pd

from llmprism.watch.view import JobFigures, View

_KEPT = 1_000  # lengths of steps


@dataclass(frozen=True)
class Shown:
    """All jobs.

    Attributes
    ----------
    views : the view of the last diagnosis of each job, by its name.
    whole, latest : the last view of a whole window, and the last one of all.
    lengths_ns : lengths of the steps since, by job and number [ns].
    """

    views: dict[str, View]
    whole: View
    latest: View
    lengths_ns: dict[str, dict[int, int]]

    @property
    def jobs(self) -> list[JobFigures]:
        """The figures of all jobs."""
        return [
            view.figures[job].with_steps(self.lengths_ns.get(job, {}))
            for job, view in self.views.items()
        ]

    def with_steps(self, steps: pd.DataFrame) -> Shown:
        """The same after further ``steps``, which no diagnosis has shown."""
        lengths_ns = {job: dict(lengths) for job, lengths in self.lengths_ns.items()}
        for job, own in steps.groupby("job"):
            lengths = (own["end_ns"] - own["start_ns"]).tolist()
            known = {
                **lengths_ns.get(str(job), {}),
                **dict(zip(own["step"].tolist(), lengths, strict=True)),
            }
            lengths_ns[str(job)] = dict([*known.items()][-_KEPT:])
        return replace(self, lengths_ns=lengths_ns)


def shown_after(before: Shown | None, view: View) -> Shown:
    """What is known after a diagnosis; ``before`` has the jobs that it leaves out."""
    own = dict.fromkeys(view.figures, view)
    if before is None:
        return Shown(own, view, view, {})
    views = {job: one for job, one in before.views.items() if job in view.others} | own
    lengths_ns = {job: one for job, one in before.lengths_ns.items() if job in view.others}
    whole = before.whole if view.others else view
    return Shown(views, whole, view, lengths_ns).with_steps(view.steps)

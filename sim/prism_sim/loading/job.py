"""A job in a scenario: described by a model, or by a trace of its ranks' tasks."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Discriminator, Field, Tag

from prism_common.errors import Problem, UserError
from prism_sim.importers import TIMINGS, GraphTrace, TimedTrace
from prism_sim.scenario.graph import Graph
from prism_sim.scenario.timings import Timings
from prism_sim.scenario.traced_job import TracedJobConfig
from prism_sim.training.config import TrainingConfig


class Job(TrainingConfig):
    """One training job with data, pipeline, tensor, expert and context parallelism."""

    trace: TimedTrace | None = None
    """A measured timeline; its durations replace those computed from the model. dp, pp,
    micro_batches and steps may then be left out. Left out: none."""

    @property
    def timings(self) -> Timings | None:
        """Measured durations of passes and updates, if there are any."""
        return self.trace.timings if self.trace else None


class TracedJob(TracedJobConfig):
    """A job whose ranks follow the graphs of a trace, instead of a model and a schedule."""

    trace: GraphTrace = Field(description="The trace, and how to read it.")

    @property
    def found(self) -> Graph | None:
        return self.trace.graph

    @property
    def graph(self) -> Graph:
        """The content of the trace; a UserError if the file has not been read."""
        if self.trace.graph is None:
            what = f"the trace of job {self.name} was not read"
            how = "load the scenario from its file, so that the trace next to it is found"
            raise UserError(Problem(what, self.trace.file, how))
        return self.trace.graph


AnyJob = Job | TracedJob
"""A job, described by a model or by a trace."""


def _form(value: Any) -> str:
    """Whether a job is described by a model or by a trace."""
    if not isinstance(value, dict):
        return "by_trace" if isinstance(value, TracedJob) else "by_model"
    trace = value.get("trace")
    if "model" in value or not isinstance(trace, dict):
        return "by_model"
    kind = trace.get("kind")
    return "by_model" if isinstance(kind, str) and kind in TIMINGS else "by_trace"


WrittenJob = Annotated[
    Annotated[Job, Tag("by_model")] | Annotated[TracedJob, Tag("by_trace")], Discriminator(_form)
]
"""A job as in a scenario file."""

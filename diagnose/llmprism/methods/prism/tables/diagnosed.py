"""All that is known of one job, at the end of its analysis."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from llmprism.methods.prism.jobs.stepless import Stepless
from llmprism.methods.prism.layout.layout import Layout
from llmprism.methods.prism.phases.phases import Phases
from llmprism.methods.prism.pipelines.pipelines import Pipelines
from llmprism.methods.prism.timeline.timeline import Ranks
from llmprism.numerics.arrays import Codes, Ints


@dataclass(frozen=True)
class DiagnosedJob:
    """All that is known of one job; ``dp_group`` includes the joins that NVLink hides.

    ``steps_sure`` is the confidence of its steps.
    """

    name: str
    phases: Phases
    pipelines: Pipelines
    ranks: Ranks
    layout: Layout
    dp_group: Ints
    steps_sure: float = 1.0


DiagnosedJobs = Sequence[DiagnosedJob]


def members(found: DiagnosedJobs, stepless: Mapping[str, Stepless]) -> list[tuple[str, Codes]]:
    """Name and endpoint codes of every job, those with a timeline first."""
    with_steps = [(one.name, one.phases.endpoints) for one in found]
    return [*with_steps, *((name, one.endpoints) for name, one in stepless.items())]

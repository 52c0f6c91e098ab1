"""Steps of the parts of one job, where most parts show the same ones and the others do not.

A replica that stops within a step moves less than the others from then on, so that its traffic
alone does not show that the step began. What most replicas show clearly holds for all of them: they
take their steps together.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from llmprism.methods.prism.jobs.together import whole_steps
from llmprism.methods.prism.parameters import MOSTLY, SURE
from llmprism.methods.prism.segment.stepping import Part, by_windows


def by_surest(parts: Sequence[Part]) -> tuple[Part, ...]:
    """``parts``, all with the steps that most of them show clearly; empty if there are none."""
    sure = [part for part in parts if part.stepping.quality >= SURE]
    counts = {part.stepping.count for part in sure}
    if len(sure) < MOSTLY * len(parts) or len(counts) != 1:
        return ()
    count = counts.pop()
    times = [whole_steps(part) for part in sure]
    start = np.min([one.start_ns for one in times], axis=0)
    end = np.max([one.end_ns for one in times], axis=0)
    if (start[1:] <= end[:-1]).any():
        return ()
    borders = (end[:-1], start[1:], (end[:-1] + start[1:]) // 2)
    found = []
    for part in parts:
        if any(part is one for one in sure):
            found.append(part)
            continue
        step_of = tuple(by_windows(one.traffic, borders, count) for one in part.component.classes)
        found.append(replace(part, stepping=replace(times[0], step_of=step_of, reference=0)))
    return tuple(found)

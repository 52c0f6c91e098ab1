"""What a slow stretch costs its job: the verification that every accusation has to pass.

The steps of the stretch are compared with the job's other steps. They must be longer by more
than a hundredth, and by more than the other steps vary. Many steps show a smaller difference: where
it is far beyond what the other steps vary, three thousandths suffice. Steps that surround the
stretch count as its neighbours: a job's steps may get faster or slower over hours.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from llmprism.methods.prism.faults.context import JobView

LEAST_SHARE, DEVIATIONS = 0.01, 3.0
CLEAR_SHARE, CLEAR_DEVIATIONS = 0.003, 10.0
FEWEST = 6  # steps of a stretch, and around it, whose spread is known well enough for that
TO_SIGMA = 1.4826
AROUND = 10  # steps before and after that show what a step takes


@dataclass(frozen=True)
class Cost:
    """Time lost in a stretch.

    Attributes
    ----------
    normal_ns, slow_ns : median step around the stretch, and in it.
    lost_ns : summed over the steps of the stretch.
    deviations : how many deviations of a normal step the slow one is off.
    many : whether enough steps show how much steps vary.
    """

    normal_ns: float
    slow_ns: float
    lost_ns: float
    deviations: float
    many: bool = False

    @property
    def share(self) -> float:
        """By how much steps are longer, as a fraction of a normal step."""
        return self.slow_ns / self.normal_ns - 1 if self.normal_ns > 0 else 0.0

    @property
    def believed(self) -> bool:
        """Whether the job really is slower."""
        clear = self.many and self.share > CLEAR_SHARE and self.deviations > CLEAR_DEVIATIONS
        return clear or (self.share > LEAST_SHARE and self.deviations > DEVIATIONS)


def cost_of(job: JobView, first: int, last: int) -> Cost:
    """Compare steps ``first`` to ``last`` with those around them."""
    duration = job.duration_ns
    inside = duration[first : last + 1]
    before, after = duration[max(0, first - AROUND) : first], duration[last + 1 :][:AROUND]
    around = np.concatenate((before, after))
    around = around[np.isfinite(around)]
    if around.size < 2 or not np.isfinite(inside).any():
        return Cost(0.0, 0.0, 0.0, 0.0)
    normal, slow = float(np.median(around)), float(np.nanmedian(inside))
    spread = TO_SIGMA * float(np.median(np.abs(around - normal)))
    spread /= np.sqrt(np.isfinite(inside).sum())
    many = min(int(np.isfinite(inside).sum()), around.size) >= FEWEST
    lost = float(np.nansum(inside - normal))
    return Cost(normal, slow, lost, (slow - normal) / max(spread, 1.0), many)

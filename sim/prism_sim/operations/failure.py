"""One failure, with every random number that a policy may need for it.

The numbers are drawn with the failure, not by a policy. All policies of a study therefore meet
the same failures with the same luck (common random numbers).
"""

from __future__ import annotations

from dataclasses import dataclass

from prism_sim.operations.causes import Cause


@dataclass(frozen=True)
class Failure:
    """A failure of the job.

    Attributes
    ----------
    at_s : when it begins.
    cause : its cause.
    server : number of the faulty server.
    repair_s : time until that server can be used again.
    found, located : uniform in [0, 1); decide whether a policy finds it, and its place. All
        detections share ``found``, so that a better one finds all that a worse one finds.
    repeated : it would not have happened on an ordinary server.
    """

    at_s: float
    cause: Cause
    server: int
    repair_s: float
    found: float
    located: float
    repeated: bool = False

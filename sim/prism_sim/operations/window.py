"""Moments of a job at which the network simulator is run: which, and on what.

A study of months knows a failure by its cause, its server and its symptom. A window takes the
failure that the job has at a moment, and puts it into a scenario of the job, where a diagnoser has
to find it in flow records.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from pydantic import Field
from pydantic.json_schema import SkipJsonSchema

from prism_common.errors import Problem, UserError
from prism_sim.loading.scenario import Scenario
from prism_sim.operations.detections import Detected
from prism_sim.operations.failures import Failure
from prism_sim.operations.policy import Policy
from prism_sim.scenario.base import Closed, Loc

FAULTS = {"slow": "slow_gpu", "hang": "hang", "error": "crash"}
"""Kind of fault in a scenario by symptom; the others leave no trace in flows."""

_HOUR_S = 3600.0


@dataclass(frozen=True)
class Moment:
    """A moment of a job, and the failure that it has then; None: it is healthy.

    ``detected`` says when the policy detects the failure.
    """

    at_s: float
    failure: Failure | None = None
    detected: Detected | None = None


class Windows(Closed):
    """Moments of the first replication, a scenario of the job, and a diagnoser."""

    scenario: str = Field(min_length=1)
    """the job at the level of flows: a file, or a bundled scenario"""
    around: tuple[float | str, ...] = Field(min_length=1)
    """hours since the start, or causes: the first failure of each"""
    policy: str | None = Field(default=None, description="of the job; left out: the first")
    method: str = Field(default="prism", description="method that diagnoses the flows")
    loaded: SkipJsonSchema[Scenario | None] = Field(default=None, exclude=True)
    """the scenario, once read"""

    def of(self, policies: Sequence[Policy]) -> Policy | None:
        """The policy under which the job runs; None: there is no such one."""
        names = [policy.name for policy in policies]
        name = names[0] if self.policy is None else self.policy
        return policies[names.index(name)] if name in names else None

    def unmet(
        self, policies: Sequence[Policy], causes: set[str], days: float
    ) -> Iterator[tuple[Loc, str]]:
        """What does not fit to the study: where, and why."""
        if self.of(policies) is None:
            yield ("windows", "policy"), f"no policy is called {self.policy!r}"
        for index, place in enumerate(self.around):
            loc = ("windows", "around", index)
            if isinstance(place, str) and place not in causes:
                yield loc, f"no cause is called {place}; known: {', '.join(sorted(causes))}"
            elif not isinstance(place, str) and not 0 <= place <= 24 * days:
                yield loc, f"hour {place:g} is not one of the {24 * days:g} of the study"
        if self.loaded and not self.loaded.jobs:
            yield ("windows", "scenario"), "the scenario has no job"
        elif self.loaded and not self.loaded.jobs[0].can_fail:
            what = f"job {self.loaded.jobs[0].name} follows a trace, which cannot stop"
            yield ("windows", "scenario"), f"{what}; name a scenario with a model"

    def moments(self, handled: Sequence[tuple[Failure, Detected]]) -> list[Moment]:
        """The moment of each window, from the failures that the policy detected.

        Raises
        ------
        UserError : the job has no failure of one of the causes.
        """
        return [
            _first(place, handled) if isinstance(place, str) else _at(place * _HOUR_S, handled)
            for place in self.around
        ]


def _first(cause: str, handled: Sequence[tuple[Failure, Detected]]) -> Moment:
    """The first failure with ``cause``."""
    for failure, detected in handled:
        if failure.cause.name == cause:
            return Moment(failure.at_s, failure, detected)
    what = f"the first replication has no failure by {cause}"
    raise UserError(Problem(what, "windows: around", "name another cause, or simulate more days"))


def _at(at_s: float, handled: Sequence[tuple[Failure, Detected]]) -> Moment:
    """The latest failure that has not been detected at ``at_s``."""
    present = [
        (failure, detected)
        for failure, detected in handled
        if failure.at_s <= at_s < failure.at_s + detected.after_s
    ]
    return Moment(at_s, *(present[-1] if present else ()))

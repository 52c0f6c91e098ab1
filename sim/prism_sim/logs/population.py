"""Who runs which job, in which order, and how it ends.

Before each failed job, its user has some successful ones with the same tools. A GPU that failed may
fail the next job on its node with another symptom.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from prism_sim.draws import Draws
from prism_sim.logs.config import Logs
from prism_sim.logs.failures import FAILURES, FailureKind
from prism_sim.logs.shares import kinds_of, pick, weights

Choice = Literal["open", "held out", "any"]
"""From which versions of its tools a job has one."""

_OLD_KINDS = 0.5
"""Share of the exam's failures that have a kind of the open set, and held-out versions."""


@dataclass(frozen=True)
class Fate:
    """How a job ends.

    Attributes
    ----------
    number : of the job among all.
    user : number of its user.
    choice : which versions its tools may have.
    kind : of what it fails; None if it does not.
    failure : the number of its failure; of the next one if it does not fail.
    follows : the failure that it repeats; None if it repeats none.
    """

    number: int
    user: int
    choice: Choice
    kind: type[FailureKind] | None
    failure: int
    follows: int | None = None


def fates(options: Logs, draws: Draws) -> list[Fate]:
    """All jobs, in order of their begin; as many fail as the options ask for."""
    found: list[Fate] = []
    failure = 0
    while failure < options.failures:
        chain = list(_chain(options, draws, failure, len(found)))
        found += chain
        failure = chain[-1].failure + 1
    return found


def _chain(options: Logs, draws: Draws, failure: int, number: int) -> Iterator[Fate]:
    """Successful jobs of a user, a failed one, and perhaps one that repeats it."""
    rng = draws.stream("failed job", failure)
    user, successes = int(rng.integers(options.users)), int(rng.poisson(options.successes))
    kind, choice = _kind(options, float(rng.uniform()), float(rng.uniform()))
    for _ in range(successes):
        yield Fate(number, user, choice, None, failure)
        number += 1
    yield Fate(number, user, choice, kind, failure)
    if kind.repeats_as is None or failure + 1 == options.failures:
        return
    if kind.repeats_as in kinds_of(options) and rng.uniform() < options.repeats:
        user, again = int(rng.integers(options.users)), FAILURES[kind.repeats_as]
        yield Fate(number + 1, user, choice, again, failure + 1, failure)


def _kind(options: Logs, first: float, second: float) -> tuple[type[FailureKind], Choice]:
    kinds = kinds_of(options)
    if options.population == "open":
        return kinds[pick(weights(kinds), first)], "open"
    if options.population == "all" or options.kinds is not None or second >= _OLD_KINDS:
        return kinds[pick(weights(kinds), first)], "any"
    old = {name: kind for name, kind in FAILURES.items() if not kind.held_out}
    return old[pick(weights(old), first)], "held out"

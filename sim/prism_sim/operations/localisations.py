"""Policies of localisation; a new kind is a class and one entry below."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from prism_sim.operations.failures import Failure, Symptom
from prism_sim.operations.measured import Measurable
from prism_sim.registry import Registry, by_literal


class LocalisationBase(Measurable):
    """Names the server to replace. A platform may have several; the first that names one counts.

    If it is the wrong server, the failure returns after the restart, and engineers search.
    """

    takes_s: float = Field(ge=0, description="time of an attempt [s]")
    sees: tuple[Symptom, ...] = ("error", "hang", "slow")
    """symptoms that it can localise"""
    names: float = Field(default=1, ge=0, le=1, description="part of these with a named server")
    right: float = Field(default=1, ge=0, le=1, description="part of the named that are right")
    by_hand: bool = Field(default=False, description="whether a person does it")

    def answers(self, failure: Failure) -> bool:
        """Whether it names a server."""
        return failure.cause.symptom in self.sees and failure.found < self.names


class ByHand(LocalisationBase):
    """Engineers search.

    Up to 15 minutes in ByteRobust (arXiv 2509.16293).
    """

    kind: Literal["by_hand"] = "by_hand"
    takes_s: float = Field(default=900, ge=0, description="time of an attempt [s]")
    by_hand: bool = Field(default=True, description="whether a person does it")


class Pairing(LocalisationBase):
    """All-gathers between pairs of servers, in two rounds.

    Acme's test (NSDI'24): the first round finds the pairs that fail.

    The second round pairs each of their servers with a good one, and so finds the faulty one.
    The defaults are two rounds of a minute each.
    """

    kind: Literal["pairing"] = "pairing"
    takes_s: float = Field(default=120, ge=0, description="time of both rounds [s]")


class Stacks(LocalisationBase):
    """The stacks of all ranks are collected and compared.

    ByteRobust's aggregation (arXiv 2509.16293): ranks whose stack differs are to blame.

    A process that has ended has no stack, so errors are not localised.
    """

    kind: Literal["stacks"] = "stacks"
    takes_s: float = Field(default=60, ge=0, description="time of an attempt [s]")
    sees: tuple[Symptom, ...] = ("hang", "slow")
    """symptoms that it can localise"""


class Flows(LocalisationBase):
    """The culprit that flow records show; it is known with the alarm.

    A culprit of a diagnosis of flow records.
    """

    kind: Literal["flows"] = "flows"
    takes_s: float = Field(default=0, ge=0, description="time of an attempt [s]")
    sees: tuple[Symptom, ...] = ("hang", "slow")
    """symptoms that it can localise"""


class Logs(LocalisationBase):
    """The first node to fail, as the logs of a job show it.

    A culprit of a diagnosis of logs. A job that is only slow writes no error.
    """

    kind: Literal["logs"] = "logs"
    takes_s: float = Field(default=10, ge=0, description="time of an attempt [s]")
    sees: tuple[Symptom, ...] = ("error", "hang")
    """symptoms that it can localise"""


LOCALISATIONS: Registry[type[LocalisationBase]] = Registry(
    "prism_sim.operations.localisations", ByHand, Pairing, Stacks, Flows, Logs, name_of=by_literal
)
"""Each kind by its name in a study."""

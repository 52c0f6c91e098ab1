"""The contract of a policy of localisation."""

from __future__ import annotations

from pydantic import Field

from prism_sim.operations.causes import Symptom
from prism_sim.operations.failure import Failure
from prism_sim.operations.measured import Measurable


class LocalisationBase(Measurable):
    """Names the server to replace. A platform may have several; the first that names one counts.

    If it is the wrong server, the failure returns after the restart, and people search.
    """

    takes_s: float = Field(ge=0, description="time of an attempt [s]")
    sees: tuple[Symptom, ...] = Field(
        default=("error", "hang", "slow"), description="symptoms that it can localise"
    )
    names: float = Field(default=1, ge=0, le=1, description="part of these with a named server")
    right: float = Field(default=1, ge=0, le=1, description="part of the named that are right")
    by_hand: bool = Field(default=False, description="whether a person does it")

    def answers(self, failure: Failure) -> bool:
        """Whether it names a server."""
        return failure.cause.symptom in self.sees and failure.found < self.names

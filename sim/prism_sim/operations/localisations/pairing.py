"""All-gathers between pairs of servers, in two rounds."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from prism_sim.operations.localisations.base import LocalisationBase


class Pairing(LocalisationBase):
    """Acme's test (NSDI'24): the first round finds the pairs that fail.

    The second round pairs each of their servers with a good one, and so finds the faulty one.
    The defaults are two rounds of a minute each.
    """

    kind: Literal["pairing"] = "pairing"
    takes_s: float = Field(default=120, ge=0, description="time of both rounds [s]")

"""What a failure is: its cause, and how the job shows it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Symptom = Literal["error", "hang", "slow", "spike", "manual"]
"""The job ends with an error, waits, runs slowly, has a spike in its loss, or is ended by hand."""


@dataclass(frozen=True)
class Cause:
    """A cause of failures.

    Attributes
    ----------
    name : as the source has it.
    count : number of cases in the source.
    symptom : how the job shows it.
    on_server : whether it stays with a server until that is replaced.
    """

    name: str
    count: float
    symptom: Symptom
    on_server: bool

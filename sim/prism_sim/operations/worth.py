"""What a diagnosis is worth: one quality of it varies, and all else stays.

A study names one of its policies, of which the diagnoser and the first localisation vary.
Methods are placed on the curves by their measured figures; where a figure has not been
measured, the method is left out of that curve.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from pydantic import Field

from prism_sim.operations.detections import Diagnoser
from prism_sim.operations.localisations import LOCALISATIONS
from prism_sim.operations.measured import Measurable
from prism_sim.operations.policy import Policy
from prism_sim.scenario.base import Closed, Loc

Quality = Literal["recall", "precision", "delay_s", "right"]
QUALITIES: tuple[Quality, ...] = ("recall", "precision", "delay_s", "right")


@dataclass(frozen=True)
class Variant:
    """A policy in which ``quality`` has ``value``; of ``method``, or of a curve."""

    quality: Quality
    value: float
    localisation: str
    method: str | None
    policy: Policy


class Measured(Measurable):
    """The figures of a method; those that are left out have not been measured."""

    recall: float | None = Field(default=None, ge=0, le=1, description="part of failures it finds")
    precision: float | None = Field(default=None, gt=0, le=1, description="true part of alarms")
    delay_s: float | None = Field(default=None, ge=0, description="time until it finds one [s]")
    right: float | None = Field(default=None, ge=0, le=1, description="right part of the named")
    localisation: str | None = Field(default=None, description="kind; left out: the policy's")


class Worth(Closed):
    """Curves of the ETTR over the qualities of a diagnoser."""

    of: str = Field(description="the policy in which one quality varies")
    recall: tuple[float, ...] = Field(default=(0, 0.25, 0.5, 0.75, 1), description="x axis")
    precision: tuple[float, ...] = Field(default=(0.2, 0.4, 0.6, 0.8, 1), description="x axis")
    delay_s: tuple[float, ...] = Field(default=(10, 60, 300, 900, 1800), description="x axis [s]")
    right: tuple[float, ...] = Field(default=(0, 0.25, 0.5, 0.75, 1), description="x axis")
    methods: dict[str, Measured] = Field(default={}, description="measured figures, by method")

    def unmet(self, policies: Sequence[Policy]) -> Iterator[tuple[Loc, str]]:
        """What is wrong with it, beside the study's ``policies``."""
        base = next((policy for policy in policies if policy.name == self.of), None)
        if base is None:
            yield ("worth", "of"), f"no policy is called {self.of!r}"
        elif not any(isinstance(kind, Diagnoser) for kind in base.detection):
            yield ("worth", "of"), f"the policy {self.of!r} has no detection of kind diagnoser"
        for name, method in self.methods.items():
            if method.localisation not in (None, *LOCALISATIONS):
                known = ", ".join(LOCALISATIONS)
                what = f"unknown localisation {method.localisation!r}; known: {known}"
                yield ("worth", "methods", name, "localisation"), what

    def variants(self, policies: Sequence[Policy]) -> list[Variant]:
        """The policies of all curves, and those of the methods on them."""
        base = next(policy for policy in policies if policy.name == self.of)
        own = str(base.localisation[0].model_dump()["kind"])
        kinds = dict.fromkeys([own, *(m.localisation for m in self.methods.values())])
        places: list[tuple[Quality, float, str, str | None]] = [
            (quality, value, kind or own, None)
            for quality in QUALITIES
            for value in getattr(self, quality)
            for kind in (kinds if quality == "right" else [own])
            if kind
        ]
        places += [
            (quality, value, method.localisation or own, name)
            for name, method in self.methods.items()
            for quality in QUALITIES
            if (value := getattr(method, quality)) is not None
        ]
        return [Variant(*place, _varied(base, *place)) for place in places]


def _varied(base: Policy, quality: Quality, value: float, kind: str, method: str | None) -> Policy:
    name = f"{method or f'curve of {kind}'}: {quality} {value:g}"
    changes: dict[str, Any] = {"name": name}
    if quality == "right":
        first = LOCALISATIONS[kind].model_validate({"right": value})
        changes["localisation"] = (first, *base.localisation[1:])
    else:
        changes["detection"] = tuple(
            one.model_copy(update={quality: value}) if isinstance(one, Diagnoser) else one
            for one in base.detection
        )
    return base.model_copy(update=changes)

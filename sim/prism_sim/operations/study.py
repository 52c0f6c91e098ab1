"""A study of operations: a job, its failures, and policies to compare."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from pydantic import Field, field_validator, model_validator
from pydantic.json_schema import SkipJsonSchema

from prism_sim.operations import theory
from prism_sim.operations.campaigns import CAMPAIGNS
from prism_sim.operations.detections import Diagnoser
from prism_sim.operations.failures import Cause, Offenders, OwnCause
from prism_sim.operations.intervals import Known
from prism_sim.operations.localisations import LOCALISATIONS
from prism_sim.operations.measured import Measurable
from prism_sim.operations.policy import Policy
from prism_sim.operations.sweep import Sweep
from prism_sim.operations.times import Exponential, Lognormal, Time
from prism_sim.operations.traces import TRACES, Outage, TraceBase
from prism_sim.operations.window import Windows
from prism_sim.registry import named
from prism_sim.scenario.base import Closed, Loc

if TYPE_CHECKING:
    Trace: TypeAlias = TraceBase
else:
    Trace = named(TRACES)


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


_DRAWN = ("per_server_day", "between", "repair", "repair_s", "campaign", "causes", "offenders")


class Failures(Closed):
    """How often the job fails, and from what."""

    per_server_day: float = Field(default=0.0065, gt=0, le=10)
    """failures a server and day, as Meta's RSC-1"""
    between: Time = Field(default=Exponential(), description="distribution of times between them")
    repair: Time = Field(default=Lognormal(sigma=1), description="distribution of repair times")
    repair_s: float = Field(default=60_480, gt=0)
    """mean time to repair a server [s]; GPUs take 0.7 days"""
    campaign: str = Field(default="byterobust", description="publication of the causes' counts")
    causes: tuple[str | OwnCause, ...] | None = Field(default=None, min_length=1)
    """causes that occur: names of the campaign, which share per_server_day, and own ones with own
    rates; left out: all of the campaign"""
    slow: float | None = Field(default=None, ge=0, lt=1)
    """part of the failures that are slow; as published"""
    slowdown: float = Field(default=0.346, ge=0, le=10)
    """time that a slow server adds to a step"""
    offenders: Offenders | None = Field(default=None, description="servers that fail repeatedly")
    trace: Trace | None = Field(default=None, description="recorded failures, instead of drawn")
    outages: SkipJsonSchema[tuple[Outage, ...]] = ()
    """those of the trace, once read"""

    @field_validator("campaign")
    @classmethod
    def _published(cls, name: str) -> str:
        if name not in CAMPAIGNS:
            raise ValueError(f"no campaign is called {name}; known: {', '.join(CAMPAIGNS)}")
        return name

    @model_validator(mode="after")
    def _known(self) -> Failures:
        known = [cause.name for cause in CAMPAIGNS[self.campaign].causes]
        if unknown := sorted(set(self._names or ()) - set(known)):
            raise ValueError(f"no cause is called {', '.join(unknown)}; known: {', '.join(known)}")
        if self.trace and (both := sorted(self.model_fields_set & set(_DRAWN))):
            raise ValueError(f"a trace has its own failures; leave out {', '.join(both)}")
        return self

    @model_validator(mode="after")
    def _distinct_causes(self) -> Failures:
        names = [one if isinstance(one, str) else one.name for one in self.causes or ()]
        if twice := [name for name, number in Counter(names).items() if number > 1]:
            raise ValueError(f"two causes are called {twice[0]!r}")
        if self._names == () and "per_server_day" in self.model_fields_set:
            raise ValueError("every cause has its own rate; leave out per_server_day")
        return self

    @property
    def _names(self) -> tuple[str, ...] | None:
        """Causes of the campaign that occur; None for all."""
        if self.causes is None:
            return None
        return tuple(cause for cause in self.causes if isinstance(cause, str))

    @property
    def _own(self) -> tuple[Cause, ...]:
        return tuple(one.cause for one in self.causes or () if isinstance(one, OwnCause))

    @property
    def rate(self) -> float:
        """Failures a server and day, of all causes."""
        of_campaign = 0.0 if self._names == () else self.per_server_day
        return of_campaign + sum(cause.count for cause in self._own)

    def causes_known(self) -> set[str]:
        """Names of the causes that can occur."""
        recorded = {outage.cause for outage in self.outages}
        return recorded or {kind.name for kind in self.kinds()}

    def kinds(self) -> tuple[Cause, ...]:
        """The causes that occur, with weights as counts."""
        kinds = self._of_campaign()
        if not self._own:
            return kinds
        total = sum(kind.count for kind in kinds) or 1
        rated = (replace(kind, count=kind.count / total * self.per_server_day) for kind in kinds)
        return (*rated, *self._own)

    def _of_campaign(self) -> tuple[Cause, ...]:
        """The causes of the campaign that occur, with their counts."""
        names = self._names
        causes = CAMPAIGNS[self.campaign].causes
        kinds = [cause for cause in causes if names is None or cause.name in names]
        if self.slow is None or names == ():
            return tuple(kinds)
        slow = [kind for kind in kinds if kind.symptom == "slow"]
        others = [kind for kind in kinds if kind.symptom != "slow"]
        total = sum(kind.count for kind in others) or 1
        added = total * self.slow / (1 - self.slow)
        return (*others, Cause(slow[0].name if slow else "slow server", added, "slow", True))


class Study(Closed):
    """A job, its failures, and policies to compare on the same failures."""

    description: str = Field(default="", description="the question, as the title of the page")
    servers: int = Field(ge=1, le=1_000_000, description="servers of the job")
    gpus_per_server: int = Field(default=8, ge=1, le=1024, description="GPUs of a server")
    days: float = Field(gt=0, le=3650, description="simulated time [days]")
    failures: Failures = Field(default=Failures(), description="how often the job fails")
    measured: str | None = Field(default=None, min_length=1)
    """figures of methods: a JSON file beside the study"""
    policies: tuple[Policy, ...] = Field(min_length=1, description="policies to compare")
    seeds: int = Field(default=20, ge=2, le=10_000, description="replications, at most")
    enough: float = Field(default=0, ge=0, lt=1)
    """half of the 95 % interval of the ETTR at which replications end; 0: never"""
    worth: Worth | None = Field(default=None, description="what a diagnosis is worth: curves")
    gpu_hour_price: float | None = Field(default=None, gt=0, le=1e6)
    """price of a GPU-hour; left out: no money is shown"""
    sweep: Sweep | None = Field(default=None, description="values to vary: a heat map of the ETTR")
    windows: Windows | None = None
    """moments at which flows are simulated and diagnosed"""

    @field_validator("policies")
    @classmethod
    def _distinct(cls, policies: tuple[Policy, ...]) -> tuple[Policy, ...]:
        counts: Counter[Any] = Counter(policy.name for policy in policies)
        if twice := [name for name, number in counts.items() if number > 1]:
            raise ValueError(f"two policies are called {twice[0]!r}; give each a name of its own")
        return policies

    @property
    def mttf_s(self) -> float:
        """Mean time between failures of the job."""
        if not self.failures.outages:
            return theory.mttf_s(self.servers, self.failures.rate)
        outages, trace = self.failures.outages, self.failures.trace
        cluster = trace.servers if trace else self.servers
        rate = len(outages) / (cluster * max(outage.until_days for outage in outages))
        return theory.mttf_s(self.servers, rate)

    def unmet(self) -> Iterator[tuple[Loc, str]]:
        """Policies that this job cannot have: where, and why."""
        trace, outages = self.failures.trace, self.failures.outages
        if trace and trace.servers < self.servers:
            yield ("servers",), f"the trace has {trace.servers} servers, the job {self.servers}"
        if outages and (recorded := max(one.until_days for one in outages)) < self.days:
            yield (
                ("days",),
                f"the trace ends after {recorded:g} days, the study after {self.days:g}",
            )
        for index, policy in enumerate(self.policies):
            for key, why in policy.unmet(self.servers, Known(self.mttf_s)):
                yield ("policies", index, key), f"policy {policy.name!r} cannot be met: {why}"
        if self.worth:
            yield from self.worth.unmet(self.policies)
        if self.windows:
            yield from self.windows.unmet(self.policies, self.failures.causes_known(), self.days)

"""What a platform does against failures: when it saves, detects, localises and recovers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias

from pydantic import BeforeValidator, Field

from prism_sim.operations.checkpoints import CHECKPOINTS, CheckpointBase
from prism_sim.operations.detections import DETECTIONS, Detected, DetectionBase, Timeout
from prism_sim.operations.failures import Failure
from prism_sim.operations.intervals import Known
from prism_sim.operations.localisations import LOCALISATIONS, ByHand, LocalisationBase
from prism_sim.operations.recoveries import RECOVERIES, RecoveryBase, Requeue
from prism_sim.registry import named
from prism_sim.scenario.base import Closed

if TYPE_CHECKING:
    Checkpoint: TypeAlias = CheckpointBase
    Detection: TypeAlias = DetectionBase
    Localisation: TypeAlias = LocalisationBase
    Recovery: TypeAlias = RecoveryBase
else:
    Checkpoint = named(CHECKPOINTS)
    Detection = named(DETECTIONS)
    Localisation = named(LOCALISATIONS)
    Recovery = named(RECOVERIES)


def _listed(value: Any) -> Any:
    return value if isinstance(value, (list, tuple)) else [value]


_OneOrMore = BeforeValidator(_listed)


class Policy(Closed):
    """What the platform does against failures."""

    name: str = Field(min_length=1, description="its name in tables and figures")
    checkpoint: Checkpoint = Field(description="when the job saves")
    detection: Annotated[tuple[Detection, ...], _OneOrMore] = Field(min_length=1)
    """how failures are detected; the earliest of several counts"""
    localisation: Annotated[tuple[Localisation, ...], _OneOrMore] = Field(min_length=1)
    """how the server is found; the first of several that names one counts"""
    recovery: Annotated[tuple[Recovery, ...], _OneOrMore] = Field(min_length=1)
    """how the job comes back; the first of several that handles a failure counts"""
    retire_after: int | None = Field(default=None, ge=1)
    """failures after which a server is not used again"""

    def detect(self, failure: Failure) -> Detected:
        """The earliest detection; errors, time-outs and people are always there."""
        kinds = [kind for kind in self.detection if not isinstance(kind, Timeout)]
        always = next((kind for kind in self.detection if isinstance(kind, Timeout)), Timeout())
        found = [kind.detect(failure) for kind in (always, *kinds)]
        return min((one for one in found if one), key=lambda one: one.after_s)

    def localise(self, failure: Failure) -> LocalisationBase:
        """The first localisation that names a server; people do, in the end."""
        return next((kind for kind in self.localisation if kind.answers(failure)), self.search)

    @property
    def search(self) -> ByHand:
        """How engineers search."""
        return next((kind for kind in self.localisation if isinstance(kind, ByHand)), ByHand())

    def recover(self, failure: Failure) -> RecoveryBase:
        """The first recovery that handles the failure."""
        return next((kind for kind in self.recovery if kind.handles(failure)), Requeue())

    def standby(self, servers: int) -> int:
        """Standby servers for a job of ``servers``."""
        return max(kind.standby(servers) for kind in self.recovery)

    def unmet(self, servers: int, known: Known) -> Iterator[tuple[str, str]]:
        """Parts that such a job cannot have: their key, and why."""
        for recovery in self.recovery:
            if why := recovery.unmet(servers):
                yield "recovery", why
        if why := self.checkpoint.unmet(known):
            yield "checkpoint", why

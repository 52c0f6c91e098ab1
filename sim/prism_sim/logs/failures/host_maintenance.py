"""The platform takes a node away for maintenance, and cancels the job (Llama 3.

Unplanned maintenance 32).
"""

from __future__ import annotations

from typing import ClassVar

from prism_sim.logs.failures.base import LLAMA, Category, FailureKind
from prism_sim.logs.scene import Ending, Scene
from prism_sim.logs.spread import job_is_cancelled


class HostMaintenance(FailureKind):
    """The platform takes a node away for maintenance."""

    name: ClassVar[str] = "host_maintenance"
    about: ClassVar[str] = "The platform takes a node away for maintenance"
    symptom: ClassVar[str] = "preempted"
    category: ClassVar[Category] = "platform"
    count: ClassVar[float] = 32
    source: ClassVar[str] = LLAMA

    def unfold(self, scene: Scene) -> None:
        ending = Ending("CANCELLED", "0:15")
        scene.placeless()
        job_is_cancelled(scene, scene.when_ns, "PREEMPTION", ending)

"""The loss diverges: the lines are those of a GPU that computes wrong numbers."""

from __future__ import annotations

from typing import ClassVar

from prism_sim.logs.failures.base import BYTEROBUST, Category
from prism_sim.logs.failures.nan_hardware import NanHardware


class NanUser(NanHardware):
    """The loss diverges."""

    name: ClassVar[str] = "nan_user"
    about: ClassVar[str] = "The loss diverges"
    category: ClassVar[Category] = "user"
    count: ClassVar[float] = 1
    source: ClassVar[str] = BYTEROBUST
    ratio: ClassVar[float | None] = 1  # ByteRobust, Table 2

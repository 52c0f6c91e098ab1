"""A kernel of the user accesses a wrong address: the lines are those of a faulty GPU."""

from __future__ import annotations

from typing import ClassVar

from prism_sim.logs.failures.base import BYTEROBUST, Category
from prism_sim.logs.failures.illegal_access_hardware import IllegalAccessHardware


class IllegalAccessUser(IllegalAccessHardware):
    """A kernel of the user accesses a wrong address."""

    name: ClassVar[str] = "illegal_access_user"
    about: ClassVar[str] = "A kernel of the user accesses a wrong address"
    category: ClassVar[Category] = "user"
    count: ClassVar[float] = 41
    source: ClassVar[str] = BYTEROBUST
    ratio: ClassVar[float | None] = 41  # ByteRobust, Table 2: user code
    faults: ClassVar[frozenset[str]] = frozenset()
    repeats_as: ClassVar[str | None] = None

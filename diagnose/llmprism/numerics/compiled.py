"""The one place where Python becomes machine code.

``compiled`` is ``numba.njit`` with a cache on disk, typed so that strict type checking sees
the plain function through it. Compiled functions stay short, work on arrays only, and run
unchanged as Python when ``NUMBA_DISABLE_JIT=1`` is set, which is how their branches are
covered by tests.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import ParamSpec, TypeVar, cast

from numba import njit

P = ParamSpec("P")
R = TypeVar("R")


def compiled(function: Callable[P, R]) -> Callable[P, R]:
    """Compile ``function`` on first call, without fast-math, so results are reproducible."""
    return cast(Callable[P, R], njit(cache=True, error_model="numpy")(function))

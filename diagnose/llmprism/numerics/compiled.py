"""The one place where Python becomes machine code.

``compiled`` is ``numba.njit`` with a cache on disk, typed so that strict type checking sees
the plain function through it. Compiled functions stay short, work on arrays only, and run
unchanged as Python when ``NUMBA_DISABLE_JIT=1`` is set, which is how their branches are
covered by tests. A cache that is damaged, or cannot be written, costs time and nothing else.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any, ParamSpec, TypeVar, cast

from numba import njit
from numba.core.caching import FunctionCache
from numba.core.dispatcher import Dispatcher

P = ParamSpec("P")
R = TypeVar("R")


class ForgivingCache(FunctionCache):
    """Numba's cache on disk, which a damaged file makes empty rather than unusable."""

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        """The compiled code of a signature, or None where it has to be compiled."""
        load: Callable[[Any, Any], Any] = super().load_overload
        try:
            return load(sig, target_context)
        except Exception:  # whatever unpickling a damaged file raises
            self._give_up(self.flush)
            return None

    def save_overload(self, sig: Any, data: Any) -> None:
        """Keep compiled code, if the disk takes it."""
        save: Callable[[Any, Any], None] = super().save_overload
        self._give_up(lambda: save(sig, data))

    def _give_up(self, attempt: Callable[[], None]) -> None:
        """Try to write; go on without a cache where that fails."""
        try:
            attempt()
        except Exception:
            disable: Callable[[], None] = self.disable
            disable()


def compiled(function: Callable[P, R]) -> Callable[P, R]:
    """Compile ``function`` on first call, without fast-math, so results are reproducible."""
    dispatcher = njit(error_model="numpy")(function)
    make_cache: Callable[[Any], ForgivingCache] = ForgivingCache
    if isinstance(dispatcher, Dispatcher):
        with suppress(RuntimeError):  # no folder can be written: compile without a cache
            vars(dispatcher)["_cache"] = make_cache(function)
    return cast(Callable[P, R], dispatcher)

"""Memory that is free but still belongs to the process.

Both Arrow and the C library keep freed memory for later use. A diagnosis goes through stages
that need different arrays, so its process would grow to the sum of all stages.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from functools import cache

import pyarrow as pa


def give_back() -> None:
    """Return free memory to the system; does nothing where the C library cannot."""
    pa.default_memory_pool().release_unused()
    trim = _trim()
    if trim is not None:
        trim(0)


@cache
def _trim() -> Callable[[int], int] | None:
    """``malloc_trim`` of the GNU C library; None with another one."""
    try:
        function = ctypes.CDLL(None).malloc_trim
    except (OSError, AttributeError, TypeError):
        return None
    function.argtypes, function.restype = [ctypes.c_size_t], ctypes.c_int
    return function

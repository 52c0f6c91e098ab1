"""Compilation in a second process, early: before the functions are needed.

The first run on a new machine finds an empty cache of compiled code. While the main process
compiles and runs the first functions, a helper process compiles the others and saves them in the
cache on disk. The main process loads what is saved there, waits for what the helper compiles at
the moment, and compiles everything else itself. So the helper saves time and can change nothing
else: without it, or if it dies, the run takes longer.

A function is compiled early if its module registers it, with an example of its arguments:

>>> from prism_common.compiled import compiled
>>> @compiled
... def total(values, factor):
...     return values.sum() * factor
>>> compile_early(total, lambda: (np.zeros(0), 1.0))
"""

from __future__ import annotations

import atexit
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from importlib import import_module
from itertools import islice
from typing import Any

import numpy as np
from numba import typeof
from numba.core.dispatcher import Dispatcher
from numpy.typing import NDArray

from prism_common.compiled import ForgivingCache, keep_code, must_be_compiled, name_of

Example = Callable[[], tuple[Any, ...]]
"""Gives arguments of the types with which a function is called; they may be empty."""

INTS: NDArray[np.int64] = np.zeros(0, np.int64)
CODES: NDArray[np.int32] = np.zeros(0, np.int32)
FLOATS: NDArray[np.float64] = np.zeros(0)
BOOLS: NDArray[np.bool_] = np.zeros(0, np.bool_)

_registered: list[tuple[Dispatcher, Example]] = []


def compile_early(function: Callable[..., Any], example: Example) -> None:
    """Let the helper compile ``function`` for arguments such as those of ``example``."""
    if isinstance(function, Dispatcher):
        keep_code(function)
        _registered.append((function, example))


def registered() -> Iterator[tuple[Any, tuple[Any, ...]]]:
    """Every registered function, and the types that it is compiled for."""
    type_of: Callable[[Any], Any] = typeof
    for function, example in _registered:
        yield function, tuple(type_of(value) for value in example())


_PROGRAM = "import sys; sys.path[:] = {path}; from {module} import work; work({modules})"


class Helper:
    """The main process's side of the helper process, which imports and serves ``modules``."""

    def __init__(self, modules: list[str]) -> None:
        program = _PROGRAM.format(path=sys.path, module=__name__, modules=modules)
        self.process = subprocess.Popen(
            [sys.executable, "-c", program],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        self._news = threading.Condition()
        self._state: dict[str, str] = {}
        self._ended = False
        threading.Thread(target=self._listen, daemon=True).start()
        atexit.register(self.end)

    def _listen(self) -> None:
        for line in self.process.stdout or ():
            state, name = line.split()
            with self._news:
                self._state[name] = state
                self._news.notify_all()
        with self._news:
            self._ended = True
            self._news.notify_all()

    def compiles(self, name: str) -> bool:
        """Whether the helper has compiled a function; waits if it does so at the moment."""
        with self._news:
            self._news.wait_for(lambda: self._ended or self._state.get(name) != "begun")
            return self._state.get(name) == "done"

    def end(self) -> None:
        """End the process, whatever it does."""
        self.process.kill()
        self.process.wait()


_helper: Helper | None = None


def start_helper(modules: list[str]) -> None:
    """Start a helper that compiles what ``modules`` register, once per program."""
    global _helper
    if _helper is None and (os.cpu_count() or 1) > 1:
        with suppress(OSError):  # no more processes, no memory: compile everything here
            _helper = Helper(modules)
            ForgivingCache.compiled_elsewhere = _helper.compiles


def work(modules: list[str]) -> None:
    """The helper process: compile what ``modules`` register, and report each begin and end."""
    threading.Thread(target=_end_with_parent, daemon=True).start()
    compiled = 0
    for module in modules:
        import_module(module)
        for function, types in islice(registered(), compiled, None):
            name = name_of(function.py_func)
            print("begun", name, flush=True)
            function.compile(types)
            if must_be_compiled(function):  # it could not be saved, and no other will be
                return
            print("done", name, flush=True)
            compiled += 1


def _end_with_parent() -> None:
    """Exit as soon as the main process has ended: nobody holds the other end of stdin then."""
    sys.stdin.read()
    os._exit(0)

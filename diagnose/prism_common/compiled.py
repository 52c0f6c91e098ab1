"""Compilation of Python functions to machine code.

``compiled`` is ``numba.njit`` with a cache on disk, typed so that strict type checking sees
the plain function. Compiled functions are short, use only arrays, and run
unchanged as Python when ``NUMBA_DISABLE_JIT=1`` is set, so that coverage can measure their
branches. A cache that is damaged, or cannot be written, costs only time.

``compiled_part`` is for functions that only other compiled functions call. They get no wrapper
for calls from Python, and no file in the cache. This halves the time to compile ``core.advance``.
"""

from __future__ import annotations

import hashlib
import inspect
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from types import ModuleType
from typing import Any, Generic, ParamSpec, TypeVar, cast

import numpy as np
from numba import njit, typeof
from numba.core.caching import FunctionCache
from numba.core.dispatcher import Dispatcher
from numba.core.types import Array

P = ParamSpec("P")
R = TypeVar("R")


class ForgivingCache(FunctionCache):
    """Numba's cache on disk; a damaged file counts as an empty cache.

    Numba compares the file of the function with that of the cache. Compiled code also contains
    the functions that it calls and the constants that it reads, so this cache compares them too.
    """

    _stamps_included = False

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        """The compiled code of a signature, or None if it must be compiled."""
        self._include_stamps()
        load: Callable[[Any, Any], Any] = super().load_overload
        try:
            return load(sig, target_context)
        except Exception:  # unpickling a damaged file may raise anything
            self._give_up(self.flush)
            return None

    def is_empty(self) -> bool:
        """Whether no code of the present version of the function is in the cache."""
        self._include_stamps()
        try:
            index: Callable[[], dict[Any, str]] = self._cache_file._load_index
            return not index()
        except Exception:  # the same as in `load_overload`
            return True

    def save_overload(self, sig: Any, data: Any) -> None:
        """Save compiled code, if the disk accepts it."""
        self._include_stamps()
        save: Callable[[Any, Any], None] = super().save_overload
        self._give_up(lambda: save(sig, data))

    def _include_stamps(self) -> None:
        """Add all that the code depends on to the stamp of its file in the cache.

        This waits for the first call: before, the module may not define everything yet.
        """
        if not self._stamps_included:
            self._stamps_included = True
            file = self._cache_file
            file._source_stamp = (file._source_stamp, inputs_digest(self._py_func))

    def _give_up(self, attempt: Callable[[], None]) -> None:
        """Try to write; continue without a cache if that fails."""
        try:
            attempt()
        except Exception:
            disable: Callable[[], None] = self.disable
            disable()


def inputs_digest(function: Callable[..., Any]) -> str:
    """Hash of the compiled functions that ``function`` calls, and of the constants it reads.

    Of a function the source file counts, also if it is called by way of others.
    """
    digest, known, ahead = hashlib.blake2b(digest_size=16), {function}, [function]
    while ahead:
        for name, value in _globals_of(ahead.pop()):
            inner = getattr(value, "py_func", None)
            if inner is None:
                if isinstance(value, _CONSTANTS):
                    digest.update(f"{name} = {value!r}".encode())
            elif inner not in known:
                known.add(inner)
                ahead.append(inner)
    for source in sorted({inspect.getfile(each) for each in known}):
        with suppress(OSError):  # the source is in an archive, or in a notebook
            digest.update(Path(source).read_bytes())
    return digest.hexdigest()


_CONSTANTS = (int, float, complex, str, tuple, np.dtype, np.generic)
"""Types of global values that become part of compiled code."""


def _globals_of(function: Callable[..., Any]) -> Iterator[tuple[str, Any]]:
    """Global values that the code of ``function`` names, also those of modules that it names."""
    code, scope = function.__code__, inspect.getclosurevars(function)
    found = {**scope.globals, **scope.nonlocals}
    for value in list(found.values()):
        if isinstance(value, ModuleType):
            inside = vars(value)
            found |= {f"{value.__name__}.{n}": inside[n] for n in code.co_names if n in inside}
    yield from sorted(found.items(), key=lambda item: item[0])


def compiled(function: Callable[P, R]) -> Callable[P, R]:
    """Compile ``function`` on first call, without fast-math, so results are reproducible."""
    dispatcher = njit(error_model="numpy")(function)
    if isinstance(dispatcher, Dispatcher):
        make_cache: Callable[[Any], ForgivingCache] = ForgivingCache
        with suppress(RuntimeError):  # no folder can be written: compile without a cache
            vars(dispatcher)["_cache"] = make_cache(dispatcher.py_func)
    return cast(Callable[P, R], dispatcher)


class Bound(Generic[P, R]):
    """A compiled function that is always called with arguments of the same types.

    The types of the first call select the code. Later calls do not look at types, which takes
    longer than a short function if the arguments are tuples of record arrays.
    """

    def __init__(self, function: Callable[P, R]) -> None:
        self._function = function
        self._code: Callable[..., R] | None = None

    def __call__(self, *arguments: P.args, **_: P.kwargs) -> R:
        """Call the function; all arguments are positional."""
        if self._code is None:
            self._code = self._compiled(arguments)
        return self._code(*arguments)

    def _compiled(self, arguments: tuple[Any, ...]) -> Callable[..., R]:
        if not isinstance(self._function, Dispatcher):  # NUMBA_DISABLE_JIT=1
            return self._function
        type_of: Callable[[Any], Any] = typeof
        code: Callable[..., R] = self._function.compile(tuple(map(type_of, arguments)))
        return code


def must_be_compiled(function: Callable[..., Any]) -> bool:
    """Whether ``function`` has no code in the cache, and the cache could keep it."""
    cache = getattr(function, "_cache", None)
    return isinstance(cache, ForgivingCache) and cache.is_empty()


def compiled_part(function: Callable[P, R]) -> Callable[P, R]:
    """Compile ``function`` as a part of the compiled functions that call it.

    Python cannot call it: that raises a TypeError, unless ``NUMBA_DISABLE_JIT=1`` is set. Neither
    does it count references to arrays, which would take most of the time of a short function. So
    it must not make arrays (numba refuses that), nor return them (a TypeError).
    """
    options: dict[str, Any] = {"no_cpython_wrapper": True, "no_cfunc_wrapper": True, "_nrt": False}
    dispatcher = njit(error_model="numpy", **options)(function)
    if isinstance(dispatcher, Dispatcher):

        def refuse(*_: object, **__: object) -> None:
            raise TypeError(f"{function.__qualname__} can only be called by compiled code")

        def keep(code: Any) -> None:
            result = code.signature.return_type
            if any(isinstance(one, Array) for one in (result, *getattr(result, "types", ()))):
                raise TypeError(f"{function.__qualname__} is a part and returns an array")
            dispatcher.overloads[tuple(code.signature.args)] = code

        # Without a wrapper, a call from Python would crash the process: `keep` leaves the code
        # out of the table in which Python's calls are looked up.
        vars(dispatcher).update(add_overload=keep, _compile_for_args=refuse)
    return cast(Callable[P, R], dispatcher)

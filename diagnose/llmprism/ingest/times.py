"""Times and durations of a table as ns, from numbers or text; null for what cannot be read.

Times are numbers of s, ms, us or ns since 1970 (by the unit that is given, or else by their size),
or text in ISO 8601, in UTC where no zone is given. The unit is that of most numbers; one that is of
1970 beside others of today is in another unit, and is none. Durations are numbers, or text such as
``00:00:01.500``, ``1d 02:03:04.5`` or ``250ms``. :mod:`llmprism.ingest.bounds` decides which are
possible.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from llmprism.ingest.bounds import EARLIEST_NS, as_int64, column, epoch_ns
from llmprism.ingest.options import UNITS_NS
from llmprism.numerics.arrays import Bools, Floats, Ints

_SIZES = ((1e17, "ns"), (1e14, "us"), (1e11, "ms"))  # a time since 1970 at or above is in it
_PLAIN = r"^[+-]?(\d{1,18}|[01]\d{18}|2[0-2]\d{17})(\.\d*)?$"
"""A number whose whole part fits 64 bits."""
_POWER = r"^[+-]?\d{1,19}(\.\d*)?[eE][+-]?\d{1,3}$"
_CLOCK = re.compile(
    r"(?:(?P<d>\d{1,6})\s*(?:d|days?)?[ ,-]+)?(?P<h>\d{1,6}):(?P<m>\d{1,2}):(?P<s>\d{1,2})"
    r"(?:\.(?P<f>\d{1,9})\d*)?"
)
_WITH_UNIT = re.compile(r"(?P<n>\d{1,18})(?:\.(?P<f>\d{1,9})\d*)?\s*(?P<unit>ns|us|ms|s)")


def times_ns(values: pa.ChunkedArray, unit: str | None = None) -> pa.Array:
    """Return times in ns since 1970; null for what cannot be read."""
    found = _read(values, lambda size: unit or _unit_of(size), _iso, pa.types.is_timestamp)
    if not found.null_count < len(found):
        return found
    known = found.drop_null().to_numpy(zero_copy_only=False)
    if np.median(known) < EARLIEST_NS:
        return found
    return pc.if_else(pc.less(found, EARLIEST_NS), None, found)


def durations_ns(values: pa.ChunkedArray, unit: str | None = None) -> pa.Array:
    """Return durations in ns; without a unit, numbers are seconds. Null for what cannot be read."""
    return _read(values, lambda _size: unit or "s", _clock_text, pa.types.is_duration)


def _read(
    values: pa.ChunkedArray, unit: _Unit, spelled: _Spelled, has_unit: Callable[[pa.DataType], bool]
) -> pa.Array:
    """Return values of any type in ns; ``has_unit`` tells the types that have one of their own."""
    kind = values.type
    if pa.types.is_dictionary(kind):
        return _read(values.cast(kind.value_type), unit, spelled, has_unit)
    if has_unit(kind):
        return _scaled(values.cast(pa.int64()), lambda _size: kind.unit)
    if pa.types.is_integer(kind) or pa.types.is_floating(kind):
        return _scaled(values, unit)
    return _from_text(values.cast(pa.string()), unit, spelled)


def numbers(text: pa.Array) -> tuple[Ints, Floats, Bools]:
    """Return the whole part of numbers in text, the rest of each, and which are no numbers."""
    is_plain = pc.fill_null(pc.match_substring_regex(text, _PLAIN), False)
    whole = pc.if_else(is_plain, pc.replace_substring_regex(text, r"\..*$|^\+", ""), "0")
    below = pc.if_else(is_plain, pc.replace_substring_regex(text, r"^[^.]*|\.$", ""), "")
    rest = pc.if_else(pc.equal(below, ""), "0", below).cast(pa.float64()).to_numpy(False)
    is_negative = pc.fill_null(pc.starts_with(text, "-"), False).to_numpy(False)
    rest = np.where(is_negative, -rest, rest)
    found = pc.replace_substring_regex(whole, r"\+", "").cast(pa.int64()).to_numpy(False)
    bad = ~is_plain.to_numpy(False)
    is_power = pc.fill_null(pc.match_substring_regex(text, _POWER), False).to_numpy(False)
    if is_power.any():
        powers = pc.if_else(pa.array(is_power), text, "0").cast(pa.float64()).to_numpy(False)
        wholes, beyond = as_int64(np.trunc(powers))
        found, bad = np.where(is_power, wholes, found), np.where(is_power, beyond, bad)
        powers = np.where(beyond, 0.0, powers)  # one may be infinite
        rest = np.where(is_power, powers - np.trunc(powers), rest)
    return found, rest, bad


_Unit = Callable[[Floats], str]
"""Returns the unit of numbers, given those that can be read."""
_Spelled = Callable[[pa.Array], tuple[Ints, Bools]]
"""Returns what text that is no number says [ns], and where it says nothing."""


def _scaled(values: pa.ChunkedArray, unit: _Unit) -> pa.Array:
    missing = values.is_null().to_numpy()
    found: Any = pc.fill_null(values, 0).to_numpy()
    missing |= ~np.isfinite(found)
    factor = UNITS_NS[unit(found[~missing].astype(np.float64))]
    if found.dtype.kind == "f":
        with np.errstate(over="ignore", invalid="ignore"):  # beyond the bounds in any case
            instants, bad = as_int64(found * factor)
    else:
        instants, bad = epoch_ns(found, factor)
    return column(instants, bad | missing)


def _unit_of(values: Floats) -> str:
    """Return the unit of times since 1970, by their size; s where they are small."""
    middle = float(np.median(np.abs(values))) if values.size else 0.0
    return next((unit for size, unit in _SIZES if middle >= size), "s")


def _from_text(values: pa.ChunkedArray, unit: _Unit, spelled: _Spelled) -> pa.Array:
    """Return times from text: numbers, exact to the ns, or what ``spelled`` reads of the rest."""
    text = pc.utf8_trim_whitespace(values.combine_chunks())
    text = text.combine_chunks() if isinstance(text, pa.ChunkedArray) else text
    whole, rest, bad = numbers(text)
    factor = UNITS_NS[unit(whole[~bad].astype(np.float64))]
    instants, beyond = epoch_ns(whole, factor)
    below = np.rint(rest * factor).astype(np.int64)
    found, unread = instants + below, bad | beyond
    if bad.any():
        others, unknown = spelled(pc.if_else(pa.array(bad), text, None))
        found, unread = np.where(bad, others, found), np.where(bad, unknown, unread)
    return column(found, unread)


def _iso(text: pa.Array) -> tuple[Ints, Bools]:
    series = pd.to_datetime(text.to_pandas(), errors="coerce", utc=True, format="ISO8601")
    missing = series.isna().to_numpy()
    values = np.where(missing, 0, series.astype("int64").to_numpy())
    instants, beyond = epoch_ns(values, UNITS_NS[series.dt.unit])
    return instants, beyond | missing


def _clock_text(text: pa.Array) -> tuple[Ints, Bools]:
    texts = text.to_pylist()
    known = {one: _clock_ns(one) for one in set(texts)}
    return as_int64(np.array([known[one] for one in texts], dtype=np.object_))


def _clock_ns(text: str | None) -> int | None:
    """Return a duration that is written with colons or with a unit [ns].

    >>> _clock_ns("1d 02:03:04.5"), _clock_ns("00:00:01.500"), _clock_ns("1.5 ms"), _clock_ns("x")
    (93784500000000, 1500000000, 1500000, None)
    """
    if text is None:
        return None
    if found := _CLOCK.fullmatch(text):
        days, hours, minutes, seconds = (int(found[name] or 0) for name in "dhms")
        whole = ((days * 24 + hours) * 60 + minutes) * 60 + seconds
        return whole * UNITS_NS["s"] + int((found["f"] or "").ljust(9, "0"))
    if found := _WITH_UNIT.fullmatch(text):
        fraction = int((found["f"] or "").ljust(9, "0"))
        return (int(found["n"]) * 10**9 + fraction) * UNITS_NS[found["unit"]] // 10**9
    return None

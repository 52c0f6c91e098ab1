"""The tables of a diagnosis, as Arrow schemas.

Times are int64 nanoseconds on the collector's clock; ``address`` is a NIC address.
Durations and costs are in nanoseconds, confidences are fractions in [0, 1]. ``evidence`` is
JSON text. A value that flows do not show is -1 or ``unknown``.
"""

from __future__ import annotations

import pyarrow as pa

_NAME = pa.string()
_TIME = pa.int64()
_FRACTION = pa.float64()

DIAGNOSIS: dict[str, pa.Schema] = {
    "jobs": pa.schema([("job", _NAME), ("address", _NAME)]),
    "layouts": pa.schema(
        [
            ("job", _NAME),
            *((axis, pa.int64()) for axis in ("dp", "pp", "tp", "ep", "cp")),
            ("micro_batches", pa.int64()),
            ("schedule", _NAME),
            ("sharding", _NAME),
            ("period_ns", pa.int64()),
            ("confidence", _FRACTION),
            ("evidence", _NAME),
        ]
    ),
    "pairs": pa.schema(
        [
            ("job", _NAME),
            ("src", _NAME),
            ("dst", _NAME),
            ("kind", _NAME),
            ("kind_unrefined", _NAME),
            ("confidence", _FRACTION),
        ]
    ),
    "groups": pa.schema(
        [
            ("job", _NAME),
            ("kind", _NAME),
            ("group", pa.int64()),
            ("address", _NAME),
            ("position", pa.int64()),
        ]
    ),
    "steps": pa.schema(
        [
            ("job", _NAME),
            ("address", _NAME),
            ("step", pa.int64()),
            ("start_ns", _TIME),
            ("end_ns", _TIME),
            ("dp_end_ns", _TIME),
            ("confidence", _FRACTION),
        ]
    ),
    "spans": pa.schema(
        [
            ("job", _NAME),
            ("address", _NAME),
            ("step", pa.int64()),
            ("kind", _NAME),
            ("start_ns", _TIME),
            ("end_ns", _TIME),
        ]
    ),
    "findings": pa.schema(
        [
            ("finding", pa.int64()),
            ("level", _NAME),
            ("symptom", _NAME),
            ("cause", _NAME),
            ("job", _NAME),
            ("culprit_kind", _NAME),
            ("culprit", _NAME),
            ("first_step", pa.int64()),
            ("last_step", pa.int64()),
            ("start_ns", _TIME),
            ("end_ns", _TIME),
            ("magnitude", pa.float64()),
            ("cost", pa.float64()),
            ("confidence", _FRACTION),
            ("evidence", _NAME),
        ]
    ),
}
"""Schema of every diagnosis table, by name: the required columns; methods may add others."""

ADDED_LATER = frozenset({"layouts"})
"""Tables that older diagnoses lack; a reader treats a missing one as empty."""

DERIVED = {"findings": ("symptom", "cause")}
"""Columns that a method may leave out, because they follow from others."""

MAY_BE_NULL = {"groups": ("position",), "steps": ("dp_end_ns",)}
"""Columns in which a value may be missing: no order is known, or a step has no DP traffic."""

KEYS: dict[str, tuple[str, ...]] = {
    "jobs": ("job", "address"),
    "layouts": ("job",),
    "pairs": ("job", "src", "dst", "kind"),
    "groups": ("job", "kind", "group", "address"),
    "steps": ("job", "address", "step"),
    "spans": (),
    "findings": ("finding",),
}
"""Columns that no two rows of a table have in common; spans have none."""

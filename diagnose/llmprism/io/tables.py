"""The tables of a diagnosis, as Arrow schemas.

Times are int64 nanoseconds on the collector's clock; ``address`` is a NIC address.
Durations and costs are in nanoseconds, confidences are fractions in [0, 1]. ``evidence`` is
JSON text. A value that flows do not show is -1 or ``unknown``.
"""

from __future__ import annotations

import tomllib
from pathlib import Path

import pyarrow as pa

_TYPES = {"text": pa.string(), "whole": pa.int64(), "real": pa.float64()}
_TEXT = Path(__file__).with_suffix(".toml").read_text(encoding="utf-8")

DIAGNOSIS: dict[str, pa.Schema] = {
    table: pa.schema([(name, _TYPES[kind]) for name, kind in columns.items()])
    for table, columns in tomllib.loads(_TEXT).items()
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

"""Schemas of the truth tables of logs; docs/logs.md describes every column."""

from __future__ import annotations

import pyarrow as pa

_TEXT, _INT, _BOOL, _FLOAT = pa.string(), pa.int64(), pa.bool_(), pa.float64()

LOGS_TRUTH: dict[str, pa.Schema] = {
    "logs_jobs": pa.schema(
        [
            ("job", _TEXT),
            ("user", _TEXT),
            ("framework", _TEXT),
            ("versions", _TEXT),
            ("layout", _TEXT),
            ("nodes", _INT),
            ("ranks", _INT),
            ("gpus_per_node", _INT),
            ("dp", _INT),
            ("pp", _INT),
            ("tp", _INT),
            ("state", _TEXT),
            ("failure", _INT),
            ("simulated_job", _TEXT),
            ("attempt", _INT),
            ("held_out", _BOOL),
        ]
    ),
    "logs_nodes": pa.schema(
        [
            ("job", _TEXT),
            ("node", _TEXT),
            ("number", _INT),
            ("clock_offset_ns", _INT),
            ("missing", _BOOL),
            ("cut_ns", _INT),
        ]
    ),
    "logs_failures": pa.schema(
        [
            ("failure", _INT),
            ("job", _TEXT),
            ("kind", _TEXT),
            ("symptom", _TEXT),
            ("category", _TEXT),
            ("stage", _TEXT),
            ("phase", _TEXT),
            ("share", _FLOAT),
            ("node", _TEXT),
            ("rank", _INT),
            ("nodes", _TEXT),
            ("ranks", _TEXT),
            ("iteration", _INT),
            ("begin_ns", _INT),
            ("reported_ns", _INT),
            ("end_ns", _INT),
            ("flow_fault", _INT),
            ("follows", _INT),
            ("held_out", _BOOL),
        ]
    ),
    "logs_lines": pa.schema(
        [
            ("job", _TEXT),
            ("file", _TEXT),
            ("line", _INT),
            ("offset_bytes", _INT),
            ("time_ns", _INT),
            ("node", _TEXT),
            ("rank", _INT),
            ("role", _TEXT),
            ("event", _TEXT),
        ]
    ),
}

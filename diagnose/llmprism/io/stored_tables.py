"""Reads a table of the truth or of a diagnosis from a run folder, and checks its columns.

A file that some other program wrote, or that lies in the wrong place, is an error with its name
here, and not a surprise where its values are used. Whole numbers may have any width, and names may
be categories; a column of which no value is known may have no type.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from llmprism.io.sources import readable
from llmprism.io.tables import DERIVED, DIAGNOSIS, MAY_BE_NULL
from prism_common.errors import Problem, UserError

REPEAT = "repeat the stage that writes it"

Where = list[tuple[str, str, Any]]
"""Conditions (column, operator, value) that selected rows meet; all must hold."""


def read_stored(
    path: Path,
    schema: pa.Schema,
    required: Collection[str],
    columns: Sequence[str] | None = None,
    where: Where | None = None,
) -> pa.Table:
    """The table in ``path``, or some ``columns`` of it, of the rows ``where`` conditions hold.

    ``schema`` has the types of the columns that it may have, ``required`` names those that it must.

    Raises
    ------
    UserError : it is not readable, lacks columns, or has some of other types.
    FileNotFoundError : there is none.
    """
    with readable(path, REPEAT):
        _check(pq.read_schema(path), schema, required, path)
        return pq.read_table(path, columns=columns and list(columns), filters=where)


def required_columns(name: str) -> list[str]:
    """The columns that the diagnosis table ``name`` must have."""
    optional = (*DERIVED.get(name, ()), *MAY_BE_NULL.get(name, ()))
    return [column for column in DIAGNOSIS[name].names if column not in optional]


def _check(found: pa.Schema, schema: pa.Schema, required: Collection[str], path: Path) -> None:
    problems = []
    if absent := [name for name in required if name not in found.names]:
        problems.append(Problem(f"lacks the columns {', '.join(absent)}", str(path), REPEAT))
    for wanted in schema:
        count = found.names.count(wanted.name)
        if count > 1:
            problems.append(Problem(f"has {count} columns {wanted.name}", str(path), REPEAT))
        elif count == 1 and not _fits(found.field(wanted.name).type, wanted.type):
            own = found.field(wanted.name).type
            what = f"column {wanted.name} is {own}, and must be {wanted.type}"
            problems.append(Problem(what, str(path), REPEAT))
    if problems:
        raise UserError(problems)


def _fits(found: pa.DataType, wanted: pa.DataType) -> bool:
    if pa.types.is_dictionary(found):
        found = found.value_type
    if found == wanted:
        return True
    if wanted == pa.string():
        kinds = (pa.types.is_string, pa.types.is_large_string, pa.types.is_null)
    else:
        kinds = (pa.types.is_integer, pa.types.is_floating, pa.types.is_null)
    return any(is_kind(found) for is_kind in kinds)

"""Names as categories take little memory, and behave as the text they stand for."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pyarrow as pa

from llmprism.io.frames import as_categories
from llmprism.io.writing import write_table

NAMES = ["10.0.0.9", "10.0.0.10", "10.0.0.1"]


def test_codes_become_the_names_they_stand_for_and_sort_by_them():
    assert list(as_categories(NAMES, np.array([2, 0, 0, 1]))) == [NAMES[i] for i in (2, 0, 0, 1)]
    table = pd.DataFrame({"address": as_categories(NAMES, np.arange(3))})
    assert table.sort_values("address")["address"].tolist() == sorted(NAMES)


def test_a_large_table_is_written_part_by_part_as_a_whole(tmp_path, monkeypatch):
    """Also where its last part is full, or it has no rows."""
    monkeypatch.setattr("llmprism.io.writing.ROWS", 4)
    schema = pa.schema([("address", pa.string()), ("step", pa.int64())])
    for rows in (0, 3, 4, 5, 8):
        codes = np.arange(rows) % 3
        frame = pd.DataFrame(
            {"address": as_categories(NAMES, codes), "step": np.arange(rows, dtype=np.int32)}
        )
        for table in (frame, pa.Table.from_pandas(frame, schema=schema, preserve_index=False)):
            write_table(table, tmp_path / "t.parquet", schema)
            found = pd.read_parquet(tmp_path / "t.parquet")
            assert found["address"].tolist() == [NAMES[i] for i in codes]
            assert found["step"].tolist() == list(range(rows))
            assert pa.parquet.read_schema(tmp_path / "t.parquet").types == schema.types

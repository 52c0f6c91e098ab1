"""A table of text is read as one, whatever its first bytes mean in a binary format."""

from __future__ import annotations

from pathlib import Path
from string import ascii_letters

import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from llmprism.ingest.commands import ingest_app

HEADERS = [f"{one}start,end,src,dst,bytes" for one in ("", *(f"{c}x," for c in ascii_letters))]


@pytest.mark.parametrize("header", HEADERS)
def test_a_table_of_text_is_no_binary_message(header: str, tmp_path: Path) -> None:
    row = "1772366400.0,1772366401.0,192.0.2.1,192.0.2.2,100"
    extra = "1," if header.count(",") > row.count(",") else ""
    (tmp_path / "flows.csv").write_text(f"{header}\n{extra}{row}\n")
    done = CliRunner().invoke(
        ingest_app, [str(tmp_path / "flows.csv"), "--out", str(tmp_path / "out")]
    )
    assert done.exit_code == 0, done.output
    assert pq.read_table(tmp_path / "out/flows.parquet")["bytes"].to_pylist() == [100]

"""Telemetry that a test has written, as the rows of the flow table that it becomes."""

from __future__ import annotations

import logging
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pyarrow.parquet as pq

from llmprism.ingest.ingesting import Ingested, ingest
from llmprism.ingest.options import Options
from llmprism.ingest.sources import find

logging.getLogger("scapy").setLevel(logging.ERROR)  # it warns where there is no libpcap
Rows = list[dict[str, Any]]


def read(*files: Path | str, reader: str | None = None, **options: Any) -> tuple[Rows, Ingested]:
    """Ingest files; return the rows of the flow table, and what happened."""
    with TemporaryDirectory() as folder:
        target = Path(folder) / "flows.parquet"
        done = ingest(find(str(file) for file in files), target, Options(**options), reader)
        return pq.read_table(target).to_pylist(), done


def read_bytes(content: bytes, **options: Any) -> tuple[Rows, Ingested]:
    """Ingest a file with this content."""
    with TemporaryDirectory() as folder:
        file = Path(folder) / "in"
        file.write_bytes(content)
        return read(file, **options)


def read_text(text: str, **options: Any) -> tuple[Rows, Ingested]:
    """Ingest a file that holds a text."""
    return read_bytes(text.encode("utf-8"), **options)

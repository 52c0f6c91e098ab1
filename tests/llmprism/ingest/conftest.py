"""A reader of results for sources that the tests write."""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from llmprism.ingest.ingesting import Ingested, ingest
from llmprism.ingest.options import Options
from llmprism.ingest.sources import find

logging.getLogger("scapy").setLevel(logging.ERROR)  # it warns where there is no libpcap
Rows = list[dict[str, Any]]


@pytest.fixture
def read(tmp_path: Path) -> Callable[..., tuple[Rows, Ingested]]:
    """Return a function that ingests files and returns the flow table's rows."""

    def run(*files: Path | str, reader: str | None = None, **options: Any) -> tuple[Rows, Ingested]:
        target = tmp_path / "out" / "flows.parquet"
        sources = find(str(file) for file in files)
        done = ingest(sources, target, Options(**options), reader)
        return pq.read_table(target).to_pylist(), done

    return run


def only(row: dict[str, Any], *names: str) -> tuple[Any, ...]:
    """Return some values of a record."""
    return tuple(row[name] for name in names)

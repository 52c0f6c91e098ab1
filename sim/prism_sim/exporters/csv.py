"""A table of text, with the columns of ``flows.parquet``."""

from __future__ import annotations

from typing import IO

import pandas as pd

from prism_sim.exporters.base import Exporter


class Csv(Exporter):
    """All columns as text."""

    name = "csv"
    about = "a table of text; all columns, times in ns"
    suffix = ".csv"

    def write(self, flows: pd.DataFrame, out: IO[bytes], sampling: int) -> None:
        flows.to_csv(out, index=False)

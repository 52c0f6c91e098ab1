"""Corpora of logs, made by the command, with their lines and tables."""

from __future__ import annotations

import gzip
import json
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import pandas as pd
from typer.testing import CliRunner

from prism_sim.cli import app

SCENARIO = """
cluster: {servers: 12, gpus_per_server: 4, nics_per_server: 4}
jobs: []
duration_s: 1
logs: {failures: FAILURES, min_nodes: 2, max_nodes: 3, iterations: 12, SETTINGS}
"""


@dataclass(frozen=True)
class Corpus:
    """The folder of a run with logs."""

    folder: Path

    @cached_property
    def jobs(self) -> list[dict[str, Any]]:
        """The accounting."""
        content = json.loads((self.folder / "logs/index.json").read_text(encoding="utf-8"))
        found: list[dict[str, Any]] = content["jobs"]
        return found

    def truth(self, name: str) -> pd.DataFrame:
        return pd.read_parquet(self.folder / f"truth/logs_{name}.parquet")

    def text(self, file: str) -> str:
        """The content of a log file."""
        data = (self.folder / "logs" / file).read_bytes()
        return (gzip.decompress(data) if file.endswith(".gz") else data).decode()

    def files(self, job: str) -> list[str]:
        """The log files of a job."""
        logs = self.folder / "logs"
        paths = sorted(path for path in (logs / job).rglob("*") if path.is_file())
        return [path.relative_to(logs).as_posix() for path in paths]

    def whole(self, job: str) -> str:
        """The content of all files of a job."""
        return "\n".join(self.text(file) for file in self.files(job))


def corpus(folder: Path, failures: int = 30, settings: str = "successes: 0.5") -> Corpus:
    """Write logs with these settings by the command."""
    text = SCENARIO.replace("FAILURES", str(failures)).replace("SETTINGS", settings)
    file = folder / "some.yaml"
    file.write_text(text, encoding="utf-8")
    out = folder / "run"
    result = CliRunner().invoke(app, ["logs", str(file), "--out", str(out), "--quiet"])
    assert result.exit_code == 0, result.output
    return Corpus(out)

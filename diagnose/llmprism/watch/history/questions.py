"""Questions about the history, as SQL that DuckDB runs on its files."""

from __future__ import annotations

import re
import tomllib
from dataclasses import dataclass
from datetime import date
from importlib.resources import files
from pathlib import Path

import duckdb
import pandas as pd

from llmprism.watch.history.recording import TABLES, own_history
from prism_common.errors import Problem, UserError

_ROWS = tomllib.loads((files(__package__) / "questions.toml").read_text(encoding="utf-8"))
QUESTIONS: dict[str, tuple[str, str]] = {
    name: (row["asks"], re.sub("<<(.*?)>>", lambda found: _ROWS[found[1]], row["sql"]))
    for name, row in _ROWS["questions"].items()
}


@dataclass(frozen=True)
class Filter:
    """What an answer is about; what is empty leaves nothing out.

    Attributes
    ----------
    job, place, severity : of incidents; the job also of steps and layouts.
    from_ns, to_ns : times between which something happened [ns].
    """

    job: str = ""
    place: str = ""
    severity: str = ""
    from_ns: int | None = None
    to_ns: int | None = None

    def of(self, table: str, rows: pd.DataFrame) -> pd.DataFrame:
        """The rows of a table that it leaves."""
        time_ns = rows["end_ns" if table == "steps" else "time_ns"].astype("int64")
        keep = pd.Series(True, index=rows.index)
        for name in ("job", "place", "severity"):
            wanted = getattr(self, name)
            if wanted and name in rows:
                keep &= rows[name] == wanted
        if self.from_ns is not None:
            keep &= time_ns >= self.from_ns
        if self.to_ns is not None:
            keep &= time_ns < self.to_ns
        return rows[keep]


def answer(state: Path, question: str, days: int, wanted: Filter | None = None) -> pd.DataFrame:
    """Answer one of :data:`QUESTIONS` about the last ``days`` that the history has.

    Raises
    ------
    UserError : there is no history in the folder of the monitor.
    """
    history = own_history(state / "history")
    names = [*history.files()]
    known = {name: day for name in names if (day := _day_of(name))}
    if not known:
        how = "name the folder that llmprism watch --state has written"
        raise UserError(Problem("there is no history here", str(state), how))
    first = max(known.values()).toordinal() - days + 1
    recent = [name for name, day in known.items() if day.toordinal() >= first]
    connection = duckdb.connect()
    try:
        for name, schema in TABLES.items():
            paths = [str(history.path / one) for one in recent if one.startswith(f"{name}/")]
            rows = _rows(connection, paths, schema.names)
            connection.register(name, (wanted or Filter()).of(name, rows))
        found: pd.DataFrame = connection.sql(QUESTIONS[question][1]).df()
    except duckdb.Error as error:
        what = f"the history cannot be read: {str(error).splitlines()[0]}"
        how = "move the file away that is named here"
        raise UserError(Problem(what, str(state), how)) from error
    return found


def _day_of(name: str) -> date | None:
    """The day of a file of the history; None if its name has none."""
    try:
        return date.fromisoformat(name.split("/")[1].removeprefix("day="))
    except ValueError:
        return None


def _rows(
    connection: duckdb.DuckDBPyConnection, paths: list[str], names: list[str]
) -> pd.DataFrame:
    """The distinct rows of files of a table."""
    if not paths:
        return pd.DataFrame(columns=names)
    columns = ", ".join(f'"{name}"' for name in names)
    read = "select distinct {} from read_parquet($paths, hive_partitioning=false)"
    found: pd.DataFrame = connection.execute(read.format(columns), {"paths": paths}).df()
    return found

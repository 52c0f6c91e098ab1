"""All programs that write into a folder, each as far as it concerns the folder."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from functools import cache
from io import StringIO
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from llmlog.tables import Results
from llmprism.diagnosis import Diagnosis
from llmprism.ingest.commands import ingest_app
from llmprism.pipeline import diagnose
from llmprism.watch.history.recording import History
from llmprism.watch.sources.directory import Directory
from llmprism.watch.sources.spool import Spool, own_spool
from llmprism.watch.state_folder import StateFolder
from prism_common.folders import is_regular
from prism_sim.operations import writing as operations
from prism_sim.products import NAMES, RECORD, stage_files
from prism_sim.studies import corpus, sweep
from prism_sim.studies.kept import Content, Piece, do_missing

FLOWS = "start_ns,end_ns,src,dst,bytes\n" + "".join(
    f"{1_781_000_000_000_000_000 + n * 10**9},{1_781_000_000_500_000_000 + n * 10**9},"
    f"10.0.0.{n % 2 + 1},10.0.0.{2 - n % 2},1000\n"
    for n in range(8)
)


@dataclass(frozen=True)
class Program:
    """A program, and which files of a folder it may replace or remove.

    Attributes
    ----------
    run : writes into a folder, or refuses it.
    owns : the names that are its own, given the folder as it was before.
    """

    name: str
    run: Callable[[Path], object]
    owns: Callable[[Path], set[str]]


def _watch(folder: Path) -> None:
    state = StateFolder(folder)
    try:
        spool = Spool(folder / "spool", ".lines", lambda: b"")
        spool.write(b"a line\n")
        spool.rotate()
        source = Directory(folder / "spool", own_spool(folder / "spool"))
        source.stored(source.take(state.state.position, 0.0))
        History(folder / "history", 30)
        with state.commit() as fresh:
            fresh.events += 1
        state.tidy()
    finally:
        state.close()


def _of_watch(folder: Path) -> set[str]:
    """An empty lock alone is that of a monitor which was killed in its first moment."""
    names = {one.name for one in folder.iterdir()}
    lock = folder / "lock"
    return {"lock"} if names == {"lock"} and is_regular(lock) and not lock.stat().st_size else set()


def _ingest(folder: Path) -> None:
    with TemporaryDirectory() as aside:
        flows = Path(aside) / "flows.csv"
        flows.write_text(FLOWS)
        with redirect_stdout(StringIO()), redirect_stderr(StringIO()):
            ingest_app([str(flows), "--out", str(folder), "--quiet"], standalone_mode=False)


@cache
def _diagnosis() -> Diagnosis:
    with TemporaryDirectory() as aside:
        _ingest(Path(aside) / "in")
        return diagnose(
            Path(aside) / "in" / "flows.parquet", Path(aside) / "in" / "topology.json", "null"
        )


def _stage(stage: str, *names: str) -> Callable[[Path], None]:
    def run(folder: Path) -> None:
        with stage_files(folder, stage) as aside:
            for name in names:
                (aside / name).parent.mkdir(parents=True, exist_ok=True)
                (aside / name).write_text("ours")

    return run


def _of_record(folder: Path) -> set[str]:
    """Names of stages that the record lists; the record itself, and a lock that is ours."""
    path = folder / RECORD
    try:
        listed: Any = json.loads(path.read_bytes())["products"] if is_regular(path) else {}
    except (ValueError, KeyError, TypeError):
        return set()
    own = {name for name in listed if name in NAMES and is_regular(folder / name)}
    return own | {RECORD} | _of_lock(folder)


def _of_lock(folder: Path) -> set[str]:
    lock = folder / ".prism-sim.lock"
    return {lock.name} if is_regular(lock) and not lock.read_bytes() else set()


def _study(_number: int) -> Content:
    return {"figures": {"one": 1.0}}


def _points(open_folder: Callable[[Path], Any]) -> Callable[[Path], None]:
    def run(folder: Path) -> None:
        pieces = [Piece("0123456789abcdef01234567", "one", 1)]
        with open_folder(folder):
            do_missing(_study, pieces, folder / "points", 1, total=1, result="figures")

    return run


def _of_points(folder: Path) -> set[str]:
    """A file with the name of a point is one: it is computed again if it is damaged."""
    names = (f"points/{one.name}" for one in (folder / "points").glob("*.json"))
    return _of_record(folder) | {name for name in names if is_regular(folder / name)}


_SIMULATED = ("flows.parquet", "truth/ranks.parquet")
PROGRAMS = (
    Program("llmprism watch --state", _watch, _of_watch),
    Program("llmprism ingest --out", _ingest, lambda _folder: set()),
    Program("llmprism --out", lambda folder: _diagnosis().write(folder), lambda _folder: set()),
    Program("llmlog --out", lambda folder: Results().write(folder), lambda _folder: set()),
    Program("prism-sim score", _stage("score", "score.json"), _of_record),
    Program("prism-sim report", _stage("report", "report.html", "figures/map.png"), _of_record),
    Program("prism-sim simulate", _stage("simulate", *_SIMULATED), _of_record),
    Program("prism-sim corpus", _stage(corpus.STAGE, corpus.INDEX, corpus.CARD), _of_record),
    Program("prism-sim sweep", _points(sweep.own_folder), _of_points),
    Program("prism-sim operate", _points(operations.own_folder), _of_points),
)
"""Each of them; none of the drawn folders has the mark of an earlier ``--out``."""

"""A reproduction of the paper that is killed and goes on."""

from __future__ import annotations

import json
import signal
from pathlib import Path

from processes import PRISM_SIM, completed, started, wait_until

ARGUMENTS = ["reproduce", "paper", "--reduced", "--seeds", "1", "--out", "out", "--processes", "2"]


def cases_of(folder: Path) -> dict[str, int]:
    """Every finished case, and when it was written."""
    return {path.name: path.stat().st_mtime_ns for path in (folder / "out/cases").glob("*.json")}


def reproduce_after_a_kill(folder: Path, experiments: list[str]) -> None:
    """Kill a reproduction as soon as two cases are finished, and run it again to its end.

    ``before.json`` has the cases that were finished before, ``facts.json`` and ``errors.txt`` what
    the second run printed.
    """
    command = [*PRISM_SIM, *ARGUMENTS, "--only", ",".join(experiments), "--json"]
    with started(command, folder) as process:
        wait_until(lambda: len(cases_of(folder)) >= 2)
        process.send_signal(signal.SIGKILL)
        process.communicate(timeout=60)
    (folder / "before.json").write_text(json.dumps(cases_of(folder)))
    done = completed(command, folder, timeout_s=300)
    assert done.returncode == 0, done.stderr
    (folder / "facts.json").write_text(done.stdout)
    (folder / "errors.txt").write_text(done.stderr)

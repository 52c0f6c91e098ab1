"""Logs of launchers, collectors and trainers of others, in their formats with names of our own."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from typer.testing import CliRunner

from llmlog.cli import app

FOLDER = Path(__file__).parents[1] / "fixtures" / "logs"
CASES = [
    pytest.param(case, id=f"{path.stem}: {case['name']}")
    for path in sorted(FOLDER.glob("*.yaml"))
    for case in yaml.safe_load(path.read_text(encoding="utf-8"))
]
LINE = (
    "{} [2026-02-11 08:00:{:02d}.100000] iteration {:8d}/   50000 | consumed samples: 8 | "
    "elapsed time per iteration (ms): {:.1f} | global batch size: {:5d} | lm loss: 5.0E+00 |"
)


def expanded(text: str) -> str:
    """``@N PREFIX`` is N iterations; ``@@N SIZE MS`` continues them with a size and a length."""
    lines: list[str] = []
    number = 0
    for line in text.split("\n"):
        if match := re.fullmatch(r"@@(\d+) (\d+) (\d+)", line):
            count, size, ms = map(int, match.groups())
            for _ in range(count):
                number += 1
                lines.append(LINE.format("", number % 60, number, ms + number % 3, size))
        elif match := re.fullmatch(r"@(\d+) ?(.*)", line):
            lines += [
                LINE.format(match[2], one, one, 1100.0, 8) for one in range(1, int(match[1]) + 1)
            ]
        else:
            lines.append(line)
    return "\n".join(lines)


def answer(case: dict[str, Any], folder: Path) -> dict[str, Any]:
    """What the command says about the files of a case."""
    for name, text in case["files"].items():
        path = folder / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(expanded(text), encoding="utf-8")
    single = len(case["files"]) == 1
    given = folder / next(iter(case["files"])) if single else folder
    result = CliRunner().invoke(app, [str(given), "--json", "--quiet"])
    assert result.exit_code in (0, 4), result.output
    found: dict[str, Any] = json.loads(result.stdout)
    return found


@pytest.mark.parametrize("case", CASES)
def test_logs_of_others_are_understood(case: dict[str, Any], tmp_path: Path) -> None:
    found = answer(case, tmp_path)
    (job,) = found["jobs"]
    if case.get("failure") is None:
        assert found["failures"] == []
        assert job["failed"] is (False if case.get("understood", True) else None)
        return
    (failure,) = found["failures"]
    shown = {name: failure[name] for name in case["failure"] if name != "ranks"}
    if "ranks" in case["failure"]:
        shown["ranks"] = json.loads(failure["ranks"])
    assert shown == case["failure"]

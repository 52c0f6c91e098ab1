"""A simulation that is shown live: the page has its job, and Ctrl-C ends it."""

from __future__ import annotations

import json
import os
import signal
import time
from pathlib import Path
from typing import Any
from urllib import request

import pytest

from processes import PRISM_SIM, started


def _snapshots(url: str) -> Any:
    until_s = time.monotonic() + 60
    with request.urlopen(f"{url}events", timeout=60) as stream:
        for line in stream:
            assert time.monotonic() < until_s, "the page shows no steps within a minute"
            if line.startswith(b"data:"):
                yield json.loads(line[5:])


@pytest.mark.slow
def test_a_simulation_appears_on_its_page(tmp_path: Path) -> None:
    command = [*PRISM_SIM, "run", "tiny/pair", "--live", "--out", str(tmp_path / "run")]
    with started([*command, "--set", "jobs.0.steps=20"], tmp_path) as process:
        assert process.stderr is not None
        lines = iter(process.stderr.readline, "")
        url = next(line.split()[-1] for line in lines if "live page: " in line)
        shown = next(one for one in _snapshots(url) if one["jobs"] and one["jobs"][0]["step_ms"])
        assert shown["jobs"][0]["name"] == "job-0"
        assert shown["jobs"][0]["server_count"] == 2
        os.kill(process.pid, signal.SIGINT)
        assert process.wait(60) == 0

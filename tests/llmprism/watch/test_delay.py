"""An alert reaches Alertmanager two steps and ten seconds after a step that is slow, or sooner."""

from __future__ import annotations

import threading
import time
from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest

from llmprism.pipeline import diagnose
from llmprism.watch.alerts.alertmanager import Alertmanager
from llmprism.watch.settings import SECOND_NS
from receivers import Posted, receiver
from small_jobs import make_world
from watching import SETTINGS, Watched, put

FIRST, LAST, STEPS = 50, 75, 90  # step 50 is the first slow one
BEFORE_S = 8.0  # from the start of the monitor to the end of that step
TOGETHER_S = 0.5  # of records in a file
LIMIT_S = 10.0


def _arrive(flows: pd.DataFrame, folder: Path) -> None:
    """Leave the records in files as soon as they have ended."""
    ended = flows["end_ns"] <= time.time_ns()
    put(flows[ended], folder, "0.parquet")
    rest = flows[~ended].sort_values("end_ns")
    for piece, own in rest.groupby(rest["end_ns"] // int(TOGETHER_S * SECOND_NS)):
        until_s = own["end_ns"].max() / SECOND_NS - time.time()
        time.sleep(max(until_s, 0.0))
        put(own, folder, f"{piece}.parquet")


def _posted_at(posted: Posted, deadline_s: float, found: list[float]) -> None:
    while not found and time.time() < deadline_s:
        if any(one["labels"]["alertname"] == "SlowGpu" for one in posted.alerts):
            found.append(time.time())
        time.sleep(0.02)


@pytest.mark.slow
def test_the_post_comes_two_steps_and_ten_seconds_after_a_slow_step(tmp_path: Path) -> None:
    slow = {(1, step): 1.5 for step in range(FIRST, LAST)}
    world = make_world(steps=STEPS, slow=slow, jitter=0.01)
    ends = diagnose(*world.save(tmp_path / "whole")).steps.groupby("step")["end_ns"].median()
    step_s = float(ends.diff().median()) / SECOND_NS
    slow_s = time.time() + BEFORE_S
    shift = int(slow_s * SECOND_NS) - int(ends[FIRST])
    times = {name: world.flows[name] + shift for name in ("start_ns", "end_ns")}
    one = Watched(tmp_path / "watched", replace(SETTINGS, window_ns=20 * SECOND_NS))
    one.begin(world.topology)
    arrived: list[float] = []
    with receiver() as posted:
        one.listeners = [Alertmanager(posted.url)]
        limit_s = slow_s + 2 * step_s + LIMIT_S
        threads = [
            threading.Thread(target=_arrive, args=(world.flows.assign(**times), one.incoming)),
            threading.Thread(target=_posted_at, args=(posted, limit_s, arrived)),
        ]
        for thread in threads:
            thread.start()
        one.watch_until(lambda: bool(arrived) or time.time() > limit_s)
        for thread in threads:
            thread.join()
    assert arrived
    assert arrived[0] > slow_s - step_s  # not before its cause

"""A rank's trace by ``torch.profiler``: what the library did, beside what the trainer records."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from lab.trainers.recording import RankRecorder


@contextmanager
def profiled(recorder: RankRecorder) -> Iterator[None]:
    """Profile the block, and write the trace for :mod:`lab.profiles`."""
    from torch.profiler import ProfilerActivity, profile, record_function

    with profile(activities=[ProfilerActivity.CPU]) as trace:
        recorder.mark = record_function
        yield
    name = f"profile-{recorder.plan.job}-{recorder.rank}.json.gz"
    trace.export_chrome_trace(str(Path(recorder.plan.room) / name))

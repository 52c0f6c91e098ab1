"""Start all ranks of a PyTorch job: import the library once, then fork into each namespace.

python -m lab.trainers.launch PLAN.json
"""

from __future__ import annotations

import importlib
import os
import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path

from lab.namespaces import enter
from lab.plan import JobPlan
from lab.trainers import TORCH
from lab.trainers.recording import RankRecorder


def main(path: str) -> int:
    plan = JobPlan.read(Path(path))
    trainer = importlib.import_module(TORCH[plan.trainer])
    children = [_start(plan, rank, trainer.run) for rank in range(plan.ranks)]
    failed = 0
    for _ in children:
        _, status = os.wait()
        failed += status != 0
    return 1 if failed else 0


def _start(plan: JobPlan, rank: int, run: object) -> int:
    child = os.fork()
    if child:
        return child
    code = 1
    try:
        enter(plan.servers[rank])
        os.environ |= {
            "MASTER_ADDR": plan.servers[0], "MASTER_PORT": str(plan.port), "RANK": str(rank),
            "WORLD_SIZE": str(plan.ranks), "GLOO_SOCKET_IFNAME": "eth0",
        }  # fmt: skip
        recorder = RankRecorder(plan, rank)
        assert callable(run)
        with profiled(recorder) if plan.profile else nullcontext():
            run(recorder)
        recorder.write()
        code = 0
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))


# A rank's trace by ``torch.profiler``: what the library did, beside what the trainer records.


@contextmanager
def profiled(recorder: RankRecorder) -> Iterator[None]:
    """Profile the block, and write the trace for :mod:`lab.profiles`."""
    from torch.profiler import ProfilerActivity, profile, record_function

    with profile(activities=[ProfilerActivity.CPU]) as trace:
        recorder.mark = record_function
        yield
    name = f"profile-{recorder.plan.job}-{recorder.rank}.json.gz"
    trace.export_chrome_trace(str(Path(recorder.plan.room) / name))

"""Start all ranks of a PyTorch job: import the library once, then fork into each namespace.

python -m lab.trainers.launch PLAN.json
"""

from __future__ import annotations

import importlib
import os
import sys
import traceback
from contextlib import nullcontext
from pathlib import Path

from lab.namespaces import enter
from lab.plan import JobPlan
from lab.trainers import TORCH
from lab.trainers.profiling import profiled
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

"""Jobs that follow traces written in the tests, and complaints about such traces."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from prism_common.errors import UserError
from prism_sim.toolkit import Run, load_scenario, simulate

CLUSTER = {"servers": 8, "gpus_per_server": 4, "nics_per_server": 4,
           "fabric": {"kind": "rail", "leaf_ports": 8}}  # fmt: skip


def scenario_file(folder: Path, trace: dict[str, Any], **job: Any) -> Path:
    job = {"name": "a", "trace": trace, **job}
    cluster = {**CLUSTER, **job.pop("cluster", {})}
    path = folder / "world.yaml"
    path.write_text(yaml.safe_dump({"cluster": cluster, "jobs": [job]}))
    return path


@pytest.fixture
def replayed(tmp_path: Path) -> Callable[..., Run]:
    """Simulate a job of a trace in the test's folder, one rank a server unless placed else."""

    def make(trace: dict[str, Any], **job: Any) -> Run:
        path = scenario_file(tmp_path, trace, **{"placement": "spread", **job})
        run = Run(tmp_path / "run")
        simulate(load_scenario(path), run)
        return run

    return make


@pytest.fixture
def refused(tmp_path: Path) -> Callable[..., list[str]]:
    """The errors for a trace in the folder of the test."""

    def of(trace: dict[str, Any], **job: Any) -> list[str]:
        path = scenario_file(tmp_path, trace, **job)
        with pytest.raises(UserError) as caught:
            load_scenario(path)
        problems = caught.value.problems
        assert all(problem.where.startswith(f"{path}:") for problem in problems)
        return [f"{p.what} ({p.how})".replace(f"{tmp_path}/", "") for p in problems]

    return of

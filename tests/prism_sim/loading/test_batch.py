"""A batch size of all replicas, in place of micro-batches."""

from __future__ import annotations

from pathlib import Path

import pytest

from prism_sim.toolkit import Job, load_scenario

WORLD = """\
cluster: {servers: 4}
jobs:
  - name: a
    model: llama-7b
    dp: 4
    steps: 1
"""


def _written(**fields: int) -> str:
    return WORLD + "".join(f"    {key}: {value}\n" for key, value in fields.items())


def _job(folder: Path, **fields: int) -> Job:
    path = folder / "world.yaml"
    path.write_text(_written(**fields))
    job = load_scenario(path).jobs[0]
    assert isinstance(job, Job)
    return job


def test_a_global_batch_is_shared_by_replicas(tmp_path: Path) -> None:
    job = _job(tmp_path, global_batch_size=64, micro_batch_size=2)
    assert job.micro_batches == 8
    assert Job.model_validate(job.model_dump()) == job, "a resolved scenario reads back"


def test_both_may_be_given_if_they_agree(tmp_path: Path) -> None:
    assert _job(tmp_path, global_batch_size=64, micro_batches=16).micro_batches == 16


@pytest.mark.parametrize(
    ("fields", "complaint"),
    [
        ({"global_batch_size": 64, "micro_batches": 8},
         "global_batch_size 64 is not dp 4 x micro_batch_size 1 x micro_batches 8 "
         "(leave micro_batches out, or write 16)"),
        ({"global_batch_size": 66},
         "global_batch_size 66 cannot be shared evenly by dp 4 x micro_batch_size 1 "
         "(use a multiple of 4, such as 64 or 68)"),
        ({"global_batch_size": 2},
         "global_batch_size 2 cannot be shared evenly by dp 4 x micro_batch_size 1 "
         "(use a multiple of 4, such as 4)"),
    ],
)  # fmt: skip
def test_a_batch_that_does_not_fit_is_refused_at_its_line(complaints, fields, complaint):
    assert complaints(_written(**fields)) == [(7, complaint)]


def test_without_either_the_missing_key_is_named(complaints):
    [(line, complaint)] = complaints(WORLD)
    assert line == 3
    assert "needs the key 'micro_batches'" in complaint


def test_a_batch_that_is_no_number_is_the_only_complaint(complaints):
    [(line, complaint)] = complaints(WORLD + "    global_batch_size: many\n")
    assert line == 7
    assert "global_batch_size is 'many'" in complaint

"""Names of jobs from Slurm or a CSV, matched by servers and time."""

from __future__ import annotations

import json

import pandas as pd
import pytest

from llmprism.ingest.scheduler_jobs import read_names
from llmprism.job_names import matched
from prism_common.errors import UserError

S = 10**9
SACCT = {"jobs": [
    {"job_id": 41, "name": "old", "nodes": "gpu[01-02]", "time": {"start": 100, "end": 200}},
    {"job_id": 42, "name": "llama", "nodes": "gpu[01-02]", "time": {"start": 300, "end": 0}},
    {"job_id": 43, "name": "queued", "nodes": "None assigned", "time": {"start": 0, "end": 0}},
]}  # fmt: skip
SQUEUE = {"jobs": [
    {"job_id": 42, "name": "llama", "nodes": "gpu01,gpu02",
     "start_time": {"set": True, "infinite": False, "number": 300}, "end_time": {"set": False}},
]}  # fmt: skip
CSV = "job,servers,begin,end\nold,gpu[01-02],100,200\nllama (42),gpu01 gpu02,1970-01-01T00:05:00,\n"


def found(begin_s, end_s, servers=("gpu01.cluster", "gpu02.cluster")):
    jobs = pd.DataFrame({"job": "job-0", "server": list(servers)})
    steps = pd.DataFrame({"job": ["job-0"], "start_ns": [begin_s * S], "end_ns": [end_s * S]})
    return jobs, steps


@pytest.mark.parametrize("text", [json.dumps(SACCT), json.dumps(SQUEUE), CSV])
def test_a_job_has_the_name_of_that_time_and_those_servers(tmp_path, text):
    path = tmp_path / "jobs"
    path.write_text(text)
    names = read_names(path)
    assert matched(*found(310, 400), names) == {"job-0": "llama (42)"}
    assert matched(*found(310, 400, ["gpu07", "gpu08", "gpu01"]), names) == {}
    if len(names) > 1:
        assert matched(*found(110, 190), names)["job-0"].startswith("old")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "not valid JSON"),
        ('{"a": 1}', "no list of jobs"),
        ("job,nodes\n", "the columns servers, begin, end are missing"),
        ("job,servers,begin,end\na,gpu[1-,0,0\n", "no list of names"),
        ("job,servers,begin,end\na,gpu1,yesterday,0\n", "'yesterday' is no time"),
    ],
)
def test_what_cannot_be_read_is_named(tmp_path, text, message):
    path = tmp_path / "jobs"
    path.write_text(text)
    with pytest.raises(UserError, match=message.replace("[", r"\[")):
        read_names(path)

"""The transport protocol is a property of a job."""

from __future__ import annotations

import pytest

from prism_sim.loading.job import Job, TracedJob


def job(**fields: object) -> Job:
    base = {"name": "a", "model": "llama-7b", "micro_batches": 1, "steps": 1}
    return Job.model_validate(base | fields)


@pytest.mark.parametrize(
    ("fields", "transport"),
    [
        ({}, "roce"),
        ({"library": {}}, "tcp"),
        ({"transport": "tcp"}, "tcp"),
        ({"library": {}, "transport": "roce"}, "roce"),
    ],
)
def test_socket_libraries_use_tcp_by_default(fields, transport):
    assert job(**fields).wire_transport == transport


@pytest.mark.parametrize("written", [{}, {"transport": "tcp"}])
def test_a_job_that_follows_a_trace_has_one_too(written):
    trace = {"kind": "simai", "file": "workload.txt"}
    traced = TracedJob.model_validate({"name": "a", "trace": trace} | written)
    assert traced.wire_transport == written.get("transport", "roce")

"""The transport protocol is a property of a job."""

from __future__ import annotations

import pytest

from prism_sim.scenario.job import Job


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
def test_socket_libraries_use_tcp_unless_the_job_says_otherwise(fields, transport):
    assert job(**fields).wire_transport == transport

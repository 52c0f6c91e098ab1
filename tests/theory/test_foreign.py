"""Compare the fabric with SimGrid, flow by flow.

The fixtures have sets of flows and the end of each flow in SimGrid 3.32 (model CM02), so these
tests run without SimGrid. ``python benchmarks/crosscheck.py --fixtures`` writes the fixtures, and
needs SimGrid. The larger comparison is in ``results/reference/fabric.md``.
"""

from __future__ import annotations

import importlib.util
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).parents[2]
FIXTURES = ROOT / "tests" / "fixtures" / "foreign"
NAMES = [pytest.param("random", marks=pytest.mark.full), "rings", "contended"]
WITHIN = 1e-3


def load_flowset():
    """Import the module that reads flow sets; benchmarks are scripts, not a package."""
    spec = importlib.util.spec_from_file_location("flowset", ROOT / "benchmarks" / "flowset.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


flowset = load_flowset()


def flows(name):
    return flowset.read_flow_set(FIXTURES / f"{name}.flows.txt")


def simgrid_ends(name):
    return flowset.read_answer(FIXTURES / f"{name}.ends.txt")


def deviation(program, expected):
    return np.abs(program.run() - expected) / expected


@pytest.mark.parametrize("name", NAMES)
def test_every_flow_ends_as_in_simgrid(name):
    program, expected = flows(name), simgrid_ends(name)
    assert len(expected) == len(program.template) > 250
    assert deviation(program, expected).max() < WITHIN


@pytest.mark.parametrize("name", NAMES)
def test_the_answers_depend_on_sharing(name):
    """If each flow were alone on its links, most ends would differ much from SimGrid's."""
    program, expected = flows(name), simgrid_ends(name)
    alone = replace(program, capacity=program.capacity * 1e6)
    t = program.templates
    narrowest = np.array(
        [program.capacity[t.via["link"][t.ptr[i] : t.ptr[i + 1]]].min() for i in range(t.count)]
    )
    own_ns = np.ceil(program.size_bytes / narrowest[program.template]).astype(np.int64)
    unshared = replace(alone, latency_ns=program.latency_ns + own_ns)
    assert np.median(deviation(unshared, expected)) > 0.05


@pytest.mark.parametrize("name", NAMES)
def test_one_percent_more_bandwidth_is_noticed(name):
    program, expected = flows(name), simgrid_ends(name)
    faster = replace(program, capacity=program.capacity * 1.01)
    assert np.median(deviation(faster, expected)) > 5 * WITHIN


@pytest.mark.parametrize("name", NAMES)
def test_a_flow_set_is_the_same_after_writing_and_reading(name, tmp_path):
    path = FIXTURES / f"{name}.flows.txt"
    remarks = "\n".join(
        line[2:] for line in path.read_text().splitlines()[1:] if line.startswith("# ")
    )
    flowset.write_flow_set(flows(name), tmp_path / "again", remarks)
    assert (tmp_path / "again").read_text() == path.read_text()


def test_a_flow_set_names_the_predecessors_of_each_flow(tmp_path):
    path = tmp_path / "flows"
    path.write_text(
        "# prism flow set 1\n"
        "links 2\n10e9\n2e9\n"
        "routes 2\n1 0\n2 0 1\n"
        "flows 3\n1000 5 0 0\n400 0 1 1 0\n1000 0 0 1 0\n"
    )
    # 0 ends at 5 + 1000/10; then 1 gets 2 bytes/ns, and 2 gets the other 8
    assert flowset.read_flow_set(path).run().tolist() == [105, 305, 230]


@pytest.mark.parametrize("text", ["", "links 1\n", "# prism flow set 2\nlinks 0\n"])
def test_a_file_that_is_not_a_flow_set_is_refused(text, tmp_path):
    path = tmp_path / "flows"
    path.write_text(text)
    with pytest.raises(ValueError, match="is not a flow set"):
        flowset.read_flow_set(path)


def test_a_route_through_a_link_twice_cannot_be_written(tmp_path):
    program = flows("random")
    program.templates.via["weight"][0] = 2
    with pytest.raises(ValueError, match="more than once"):
        flowset.write_flow_set(program, tmp_path / "flows")

"""For any content of a file, the result is a trace or a list of mistakes."""

from __future__ import annotations

import gzip

import pandas as pd
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from evaluation.attacks.targets import damaged, edits
from prism_common.errors import UserError
from prism_sim.importers import KINDS
from prism_sim.scenario.graph import Graph, Task, task_of
from prism_sim.scenario.timings import Timings
from traces import as_json, as_messages, coll, comp, node, recv, send, simai

NODES = [
    node(0, "METADATA", name="ProfilerStep#3"), comp(1, 5, 0, is_cpu_op=False),
    send(2, 64, 1, 1, comm_tag=2), recv(3, 64, 1, 0, comm_tag=4),
    coll(4, "all_reduce", 128, 1, 3, pg_name="g", involved_dim=[True, True]),
]  # fmt: skip
OTHER = [
    comp(0, 5), send(1, 64, 0, 0, comm_tag=4), recv(2, 64, 0, comm_tag=2),
    coll(3, "all_reduce", 128, 1, 2, pg_name="g"),
]  # fmt: skip
TABLE = pd.DataFrame(
    [
        {"dp_rank": 0, "stage": 0, "step": 1, "optype": op, "duration": 0.5, "mc": 0, "mb_id": 0}
        for op in ("optimizer", "optimizer-clip-main-grad", "forward-compute", "backward-compute")
    ]
)
LAYERS = simai(
    "a 5 ALLREDUCE 64 6 NONE 0 7 ALLGATHER_DP_EP 64 100", "b 1 NONE 0 1 NONE 0 1 NONE 0 0"
)
GIVEN = {"chakra": {"file": "t", "groups": {"g": [0, 1]}}}
FILES = {
    "et": ("chakra", "t.0.et", as_messages(NODES)),
    "json": ("chakra", "t.0.json", as_json(NODES, None).encode()),
    "gzip": ("chakra", "t.0.et.gz", gzip.compress(as_messages(NODES), mtime=0)),
    "simai": ("simai", "t", LAYERS.encode()),
    "csv": ("timeline", "t", TABLE.to_csv(index=False).encode()),
}


def outcome(folder, form, content):
    """The result for ``content`` in place of a good file: a trace, or a UserError."""
    kind, name, _ = FILES[form]
    (folder / name).write_bytes(content)
    if kind == "chakra" and not (folder / "t.1.json").exists():
        (folder / "t.1.json").write_text(as_json(OTHER))
    trace = KINDS[kind].model_validate({"kind": kind, "file": "t", **GIVEN.get(kind, {})})
    try:
        return trace.read(folder / "t")
    except UserError as refusal:
        return refusal


@pytest.mark.parametrize("form", FILES)
def test_the_files_are_good_to_begin_with(tmp_path, form):
    assert isinstance(outcome(tmp_path, form, FILES[form][2]), Graph | Timings)


@pytest.mark.parametrize("form", FILES)
def test_a_file_cut_at_any_byte_is_refused_or_read(tmp_path, form):
    """Only references show how much a file should hold, so a cut may go unnoticed."""
    good = FILES[form][2]
    cuts = range(0, len(good), 5 if form == "json" else 1)
    refused = sum(isinstance(outcome(tmp_path, form, good[:n]), UserError) for n in cuts)
    assert refused >= 0.9 * len(cuts)


@pytest.mark.parametrize("form", FILES)
@settings(
    max_examples=80, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(drawn=edits())
def test_a_damaged_file_is_refused_or_read(tmp_path, form, drawn):
    made = outcome(tmp_path, form, damaged(FILES[form][2], drawn))
    for problem in made.problems if isinstance(made, UserError) else ():
        assert problem.what
        assert problem.where


WORDS = st.text(st.characters(codec="utf-8", exclude_categories=["Z", "C"], exclude_characters="#"),
                min_size=1)  # fmt: skip
NUMBERS = st.integers(0, 2**62)


def _work(kind, amount):
    return Task(kind, amount)


def _message(kind, amount, peer, tag):
    return Task(kind, amount, peer=peer, tag=tag)


def _collective(amount, operation, family):
    return Task("collective", amount, operation=operation, family=family)


@settings(max_examples=40, deadline=None)
@given(
    st.one_of(
        st.builds(_work, st.sampled_from(["compute", "host", "wait"]), NUMBERS),
        st.builds(_message, st.sampled_from(["send", "recv"]), NUMBERS, NUMBERS, NUMBERS),
        st.builds(_collective, NUMBERS, WORDS, WORDS),
    ),
    st.lists(NUMBERS, max_size=4),
    NUMBERS,
    st.lists(WORDS, max_size=3),
)
def test_a_task_is_the_line_that_it_is_written_as(task, after, step, names):
    task = task._replace(after=tuple(after), step=step, name=" ".join(names))
    assert task_of(task.line()) == task

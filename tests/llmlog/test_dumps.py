"""Dumps of the flight recorder: who the others wait for, and files that are no dumps."""

from __future__ import annotations

import json
import pickle
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from llmlog.cli import app
from recorder import call, dump, waiting

Dumps = dict[int, dict[str, Any]]


def diagnosed(path: Path) -> dict[str, Any]:
    """The failure that the command finds."""
    result = CliRunner().invoke(app, [str(path), "--json", "--quiet"])
    assert result.exit_code == 0, result.output
    (failure,) = json.loads(result.stdout)["failures"]
    return dict(failure)


def culprits(folder: Path, dumps: Dumps) -> tuple[list[int], str]:
    """Ranks and cause, from one file of all dumps."""
    path = folder / "all.json"
    path.write_text(json.dumps({"ranks": {str(rank): one for rank, one in dumps.items()}}))
    failure = diagnosed(path)
    assert failure["stage"] == "hang"
    return json.loads(failure["ranks"]), failure["cause"]


def test_the_rank_that_never_entered_is_the_culprit(tmp_path: Path) -> None:
    dumps = {rank: waiting(rank) for rank in (0, 1, 3)} | {2: dump(2, {}, [])}
    assert culprits(tmp_path, dumps)[0] == [2]


def test_a_rank_that_waits_itself_is_no_culprit(tmp_path: Path) -> None:
    """Rank 1 did not reach the collective of all, because it waits for rank 0 in its stage."""
    dumps = {
        0: dump(0, {}, []),
        1: dump(1, {2: (10, 9)}, [call(2, 10, "all_reduce")]),
        2: waiting(2),
        3: waiting(3),
    }
    assert culprits(tmp_path, dumps)[0] == [0]


def test_a_rank_whose_gpu_does_not_advance_is_the_culprit(tmp_path: Path) -> None:
    """All have given the same work; only rank 3 has not completed what its peers have."""
    behind = dump(3, {1: (10, 7)}, [call(1, number, "all_reduce") for number in (8, 9, 10)])
    dumps = {rank: waiting(rank) for rank in range(3)} | {3: behind}
    assert culprits(tmp_path, dumps) == ([3], "gpu_hang")


@pytest.mark.parametrize(
    "changes", [{"profiling_name": "nccl:broadcast"}, {"input_sizes": [[7]]}, {"input_dtypes": []}]
)
def test_a_rank_with_another_call_is_the_culprit(tmp_path: Path, changes: dict[str, Any]) -> None:
    dumps = {rank: waiting(rank) for rank in range(4)} | {1: waiting(1, **changes)}
    assert culprits(tmp_path, dumps) == ([1], "collective_mismatch")


def test_sizes_of_an_exchange_may_differ(tmp_path: Path) -> None:
    """Ranks of an all-to-all send what they have; here rank 2 is the one that is absent."""
    dumps = {
        rank: waiting(rank, profiling_name="nccl:all_to_all", input_sizes=[[rank + 1]])
        for rank in (0, 1, 3)
    } | {2: dump(2, {}, [])}
    assert culprits(tmp_path, dumps)[0] == [2]


def test_a_rank_without_a_dump_is_the_culprit(tmp_path: Path) -> None:
    assert culprits(tmp_path, {rank: waiting(rank) for rank in range(3)})[0] == [3]


def test_a_missing_dump_is_no_culprit_if_another_rank_explains_the_hang(tmp_path: Path) -> None:
    dumps = {0: waiting(0), 1: waiting(1), 2: dump(2, {}, [])}
    assert culprits(tmp_path, dumps)[0] == [2]


def test_the_partner_of_a_message_that_nobody_sends_is_the_culprit(tmp_path: Path) -> None:
    """Ranks 2 and 3 wait for activations; rank 1 sends them, rank 0 does not."""
    dumps = {
        0: dump(0, {}, []),
        1: dump(1, {}, [call(5, 9, "send 0->1")]),
        2: dump(2, {}, [call(4, 9, "recv 1<-0")]),
        3: dump(3, {}, [call(5, 9, "recv 1<-0")]),
    }
    assert culprits(tmp_path, dumps)[0] == [0]


def test_ranks_that_wait_in_a_circle_are_all_named(tmp_path: Path) -> None:
    """Rank 0 waits in group 1 for rank 1, which waits in group 2 for rank 0."""
    dumps = {
        0: waiting(0),
        1: dump(1, {2: (10, 9)}, [call(2, 10, "all_reduce")]),
        2: waiting(2),
        3: waiting(3),
    }
    assert culprits(tmp_path, dumps)[0] == [0, 1]


def test_a_pickle_of_each_rank_gives_the_same_answer(tmp_path: Path) -> None:
    dumps = {rank: waiting(rank) for rank in (0, 1, 3)} | {2: dump(2, {}, [])}
    for rank, one in dumps.items():
        (tmp_path / f"nccl_trace_rank_{rank}").write_bytes(pickle.dumps(one))
    assert json.loads(diagnosed(tmp_path)["ranks"]) == [2]


def test_older_versions_have_no_states(tmp_path: Path) -> None:
    """What was given and completed follows from the calls."""
    dumps = {rank: waiting(rank) for rank in (0, 1, 3)} | {2: dump(2, {}, [])}
    for one in dumps.values():
        del one["pg_status"]
    assert culprits(tmp_path, dumps)[0] == [2]


class Evil:
    """Unpickling it would call a function."""

    def __reduce__(self) -> Any:
        return print, ("executed",)


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (pickle.dumps({"entries": [Evil()]}), "only plain types are read"),
        (pickle.dumps(waiting(0))[:-9], "pickle"),
        (pickle.dumps([1, 2]), "no flight-recorder dump"),
        (b'{"entries": [{"x"', "broken JSON"),
        (b'{"ranks": {"0": {"entries": [3]}}}', "no flight-recorder dump"),
    ],
)
def test_what_is_no_dump_is_one_error(tmp_path: Path, content: bytes, reason: str) -> None:
    path = tmp_path / "trace_0"
    path.write_bytes(content)
    result = CliRunner().invoke(app, [str(path)])
    assert result.exit_code == 1
    assert reason in result.stderr
    assert result.stderr.count("error: ") == 1
    assert "executed" not in result.output

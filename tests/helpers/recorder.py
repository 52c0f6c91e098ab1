"""Dumps of PyTorch's flight recorder, made by hand: two stages of two ranks each (tp 2, pp 2).

Group 1 has all ranks, groups 2 and 3 the ranks of a stage; groups 4 and 5 a rank of each stage.
"""

from __future__ import annotations

from typing import Any

GROUPS = {1: [0, 1, 2, 3], 2: [0, 1], 3: [2, 3], 4: [0, 2], 5: [1, 3]}


def call(group: int, number: int, operation: str, **changes: Any) -> dict[str, Any]:
    """An entry of the recorder for an operation that is not completed."""
    entry = {
        "pg_id": group, "process_group": [str(group), f"group {group}"], "op_id": number,
        "collective_seq_id": number, "profiling_name": f"nccl:{operation}", "state": "scheduled",
        "input_sizes": [[8]], "output_sizes": [[8]], "input_dtypes": ["Float"], "retired": False,
        "is_p2p": "<-" in operation or "->" in operation,
    }  # fmt: skip
    return entry | changes


def dump(
    rank: int, states: dict[int, tuple[int, int]], calls: list[dict[str, Any]]
) -> dict[str, Any]:
    """The dump of a rank: given and completed numbers by group, and its open calls."""
    own = {group: ranks for group, ranks in GROUPS.items() if rank in ranks}
    return {
        "version": "2.9",
        "pg_config": {
            str(group): {"name": str(group), "desc": f"group {group}", "ranks": str(ranks)}
            for group, ranks in own.items()
        },
        "pg_status": {
            str(group): {
                "last_enqueued_collective": states.get(group, (9, 9))[0],
                "last_started_collective": -1,
                "last_completed_collective": states.get(group, (9, 9))[1],
            }
            for group in own
        },
        "entries": calls,
    }


def waiting(rank: int, number: int = 10, **changes: Any) -> dict[str, Any]:
    """The dump of a rank that waits in an all-reduce of all ranks."""
    return dump(rank, {1: (number, 9)}, [call(1, 10, "all_reduce", **changes)])

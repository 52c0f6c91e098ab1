"""Ways of failing: what the faulty part prints, with what the row of its kind says."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from prism_sim.logs.failures.python import cuda_fails, raises
from prism_sim.logs.scene import Ending, Scene
from prism_sim.logs.spread import (
    FAILED,
    KILLED,
    End,
    abort,
    connection_fails,
    job_is_cancelled,
    node_dies,
    ranks_end,
    ranks_hang,
)
from prism_sim.logs.text import SECOND_NS, message

Row = dict[str, Any]


def _filled(scene: Scene, text: str) -> str:
    """A text of a row with the names and numbers of the scene."""
    job, rank = scene.job, scene.rank
    local, pid = job.homes[rank][1], job.pid(rank)
    return text.format(
        user=job.user,
        rank=rank,
        local=local,
        host=job.nodes[scene.node],
        number=scene.node + 1,
        master=job.nodes[0],
        pid=pid,
        worker=pid + 4000,
        port=f"{local + 26:02x}",
        slot=f"{local + 27:02x}",
        saved=f"{(scene.iteration or 1) - 1:07d}",
    )


def _kernel(scene: Scene, row: Row) -> None:
    """The lines of the kernel of the faulty node."""
    for entry in row.get("kernel", ()):
        at_ns = scene.when_ns + round(entry.get("after_s", 0) * SECOND_NS)
        if drawn := entry.get("drawn_s"):
            at_ns += scene.seconds(*drawn)
        for number in range(entry.get("times", 1)):
            _kernel_line(scene, entry, at_ns + number * entry.get("every_s", 0) * SECOND_NS)


def _kernel_line(scene: Scene, entry: Row, at_ns: int) -> None:
    kernel, node, job = scene.tools.kernel, scene.node, scene.job
    texts = [_filled(scene, text) for text in entry.get("texts", ())]
    role = entry.get("role", "indicator")
    if entry.get("killed"):
        pid = job.pid(scene.rank) + 4000
        output = kernel.killed(node, at_ns, pid, cgroup=True)
        return scene.kernel_writes(node, at_ns, output, role)
    if "xid" not in entry:
        output = kernel.write(entry["event"], node, at_ns, *texts)
        return scene.kernel_writes(node, at_ns, output, role)
    others = [rank for rank in job.ranks_of[node] if rank != scene.rank]
    for rank in [scene.rank, *(others[:1] if entry.get("both_ends") else [])]:
        own = not entry.get("both_ends")
        output = kernel.xid(rank, at_ns, entry["xid"], *texts, own=own)
        scene.kernel_writes(node, at_ns, output, role)
    return None


def _exception(scene: Scene, row: Row) -> None:
    """An exception of Python in one rank, in those of a node, or in all."""
    if row.get("everywhere"):
        scene.placeless()
    _kernel(scene, row)
    if row.get("whole_node"):
        scene.ranks = [*scene.job.ranks_of[scene.node]]
    ranks = range(scene.job.ranks) if row.get("everywhere") else scene.ranks
    ranks_end(scene, {rank: _raises(scene, rank, row) for rank in ranks})


def _raises(scene: Scene, rank: int, row: Row) -> End:
    return raises(scene, rank, row["event"], _filled(scene, row["text"]), row.get("call"))


def _cuda(scene: Scene, row: Row) -> None:
    """A call of CUDA fails."""
    _kernel(scene, row)
    ranks_end(scene, {scene.rank: cuda_fails(scene, scene.rank, row["error"])})


def _hang(scene: Scene, row: Row) -> None:
    """A rank, or half of a node's, does not reach a collective."""
    _kernel(scene, row)
    if row.get("half_of_node"):
        scene.ranks = [*scene.job.ranks_of[scene.node]][: max(1, scene.job.gpus // 2)]
        scene.rank = scene.ranks[0]
    ranks_hang(scene, scene.ranks, prints=row["prints"], behind=row.get("behind", 1))


def _node_dies(scene: Scene, row: Row) -> None:
    scene.ranks = [*scene.job.ranks_of[scene.node]]
    _kernel(scene, row)
    node_dies(scene)


def _signal(scene: Scene, row: Row) -> None:
    """A signal ends the process of a rank."""
    _kernel(scene, row)
    if fatal := row.get("fatal"):
        output = message("python.fatal", fatal, "")
        scene.rank_writes(scene.rank, scene.when_ns, output, "indicator")
    scene.end_rank(scene.rank, scene.when_ns + round(row["ends_s"] * SECOND_NS))
    end = End(scene.when_ns + scene.seconds(*row["noticed_s"]), row["signal"])
    ranks_end(scene, {scene.rank: end}, "indicator")


def _cancelled(scene: Scene, _row: Row) -> None:
    """The platform takes a node away, and cancels the job."""
    scene.placeless()
    job_is_cancelled(scene, scene.when_ns, "PREEMPTION", Ending("CANCELLED", "0:15"))


def _out_of_memory(scene: Scene, _row: Row) -> None:
    """The kernel ends a rank, and Slurm says so."""
    kernel, node, rank, when_ns = scene.tools.kernel, scene.node, scene.rank, scene.when_ns
    output = kernel.killed(node, when_ns, scene.job.pid(rank), cgroup=True)
    scene.kernel_writes(node, when_ns, output, "indicator")
    scene.end_rank(rank, when_ns)
    ranks_end(scene, {rank: End(when_ns + 5_000_000, KILLED)}, "indicator")
    at_ns = scene.ended_ns[node] + scene.seconds(0.1, 0.4)
    scene.slurm_writes(at_ns, scene.tools.slurm.say("out_of_memory", node), "indicator")
    scene.ending = Ending("OUT_OF_MEMORY", "0:125")


def _agent_ends(scene: Scene, _row: Row) -> None:
    """The agent of a node ends, and its ranks with it: only Slurm reports it."""
    node, when_ns, slurm = scene.node, scene.when_ns, scene.tools.slurm
    scene.ranks = [*scene.job.ranks_of[node]]
    for rank in scene.ranks:
        scene.end_rank(rank, when_ns)
    scene.ended_ns[node] = when_ns
    at_ns = when_ns + scene.seconds(0.1, 0.5)
    scene.slurm_writes(at_ns, slurm.ended(node, KILLED), "indicator")
    ranks_hang(scene, scene.ranks, prints=False)


def _connection(scene: Scene, row: Row) -> None:
    """A rank loses its connection to the next node."""
    _kernel(scene, row)
    if row.get("nccl_port"):
        output = scene.tools.nccl.warns("link_down", scene.rank, scene.when_ns)
        source = scene.job.source(scene.rank, "out")
        scene.write(source, scene.when_ns + 5_000_000, output, "indicator")
    peer = (scene.node + 1) % len(scene.job.nodes)
    ranks_end(scene, connection_fails(scene, {scene.rank: peer}, "indicator"))


def _switch(scene: Scene, _row: Row) -> None:
    """Several nodes behind a switch lose one rail."""
    job, count = scene.job, len(scene.job.nodes)
    behind = [(scene.node + step) % count for step in range(max(1, count // 3))]
    scene.nodes = sorted(set(behind))
    local = job.homes[scene.rank][1]
    on_rail = (rank for node in scene.nodes for rank in job.ranks_of[node])
    scene.ranks = [rank for rank in on_rail if job.homes[rank][1] == local]
    peers = {rank: (job.node_of(rank) + 1) % count for rank in scene.ranks}
    ranks_end(scene, connection_fails(scene, peers, "indicator"))


def _mismatch(scene: Scene, _row: Row) -> None:
    """One rank waits in another collective: its time-out names it."""
    c10d, rank = scene.tools.c10d, scene.rank
    waits = scene.waits._replace(kind="BROADCAST", elements=1)
    limit_ns = scene.when_ns + round(scene.job.timeout_s * SECOND_NS)
    at_ns = limit_ns + scene.seconds(0.0, 0.1)
    reason = c10d.waited(rank, waits, round(scene.job.timeout_s * 1000) + 31)
    scene.rank_writes(rank, at_ns, c10d.say("timeout", rank, at_ns, reason=reason), "indicator")
    abort(scene, rank, at_ns + scene.seconds(0.2, 0.5), reason, "cascade")
    ranks_hang(scene, [rank], prints=False)


def _unreachable(scene: Scene, _row: Row) -> None:
    """A node cannot reach the first node when the job starts."""
    node, at_ns = scene.node, scene.when_ns + 60 * SECOND_NS
    output = scene.tools.torchrun.unreachable()
    scene.agent_writes(node, at_ns, output, "indicator")
    for rank in range(scene.job.ranks):
        scene.silence(rank, scene.job.times.begin_ns)
    scene.ranks = [*scene.job.ranks_of[node]]
    scene.ended_ns[node] = at_ns + scene.seconds(0.1, 0.5)
    scene.slurm_writes(scene.ended_ns[node], scene.tools.slurm.ended(node, FAILED), "cascade")
    job_is_cancelled(scene, scene.ended_ns[node] + SECOND_NS, "", Ending("FAILED", "1:0"))


def _no_interface(scene: Scene, row: Row) -> None:
    """NCCL finds no network on a node."""
    ends = {}
    scene.ranks = [*scene.job.ranks_of[scene.node]]
    for rank in scene.ranks:
        output = scene.tools.nccl.warns("no_interface", rank, scene.when_ns)
        scene.write(scene.job.source(rank, "out"), scene.when_ns, output, "indicator")
        ends[rank] = _raises(scene, rank, row)
    ranks_end(scene, ends)


def _late(scene: Scene, _row: Row) -> None:
    """Data loaders of several ranks wait for the storage."""
    scene.placeless()
    rank, job = scene.rank, scene.job
    for number in range(3):
        at_ns = scene.when_ns + (number * 30 + 1) * SECOND_NS
        late_ms = 900 + 37 * number
        text = f"WARNING:root:batch of rank {rank} was late by {late_ms} ms (data loader)"
        scene.rank_writes(rank, at_ns, message("loader.late", text), "indicator")
        rank = (rank + job.tp) % job.ranks


def _lock_held(scene: Scene, _row: Row) -> None:
    """The monitor of a watchdog says that a thread holds the interpreter."""
    c10d, rank = scene.tools.c10d, scene.rank
    at_ns = scene.when_ns + 480 * SECOND_NS
    if at_ns < scene.when_ns + round(scene.job.timeout_s * SECOND_NS):
        output = c10d.say("stuck", rank, at_ns, seconds=480)
        scene.rank_writes(rank, at_ns, output, "indicator")
    ranks_hang(scene, [rank], prints=False)


WAYS: dict[str, Callable[[Scene, Row], None]] = {
    "exception": _exception,
    "cuda": _cuda,
    "hang": _hang,
    "slow": _kernel,
    "node_dies": _node_dies,
    "signal": _signal,
    "cancelled": _cancelled,
    "out_of_memory": _out_of_memory,
    "agent_ends": _agent_ends,
    "connection": _connection,
    "switch": _switch,
    "mismatch": _mismatch,
    "unreachable": _unreachable,
    "no_interface": _no_interface,
    "late": _late,
    "lock_held": _lock_held,
}
"""Every way by the name that rows give it."""

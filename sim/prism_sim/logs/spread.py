"""How a failure spreads: what agents, other ranks and Slurm report, and when.

*A rank ends.* The agent of its node notices, ends the other ranks there, and names a root cause.
Slurm ends the job if it is set so (KillOnBadExit); before that, neighbours may find their
connections closed. Otherwise, all other ranks wait until the watchdog of their collectives times
out, and each agent names a root cause of its own.

*A rank hangs.* Nobody ends. All others time out within milliseconds of each other.

*A node dies.* Its files end. Neighbours report a peer that does not answer; Slurm notices after
its own time-out.

Source: the order of lines as in public reports of time-outs, and in BLOOM's chronicles.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from prism_sim.logs.scene import Ending, Scene
from prism_sim.logs.text import SECOND_NS, Message, Role
from prism_sim.logs.tools.torchrun import Exit

ABORTED, FAILED, KILLED, TERMINATED = -6, 1, -9, -15
_KILL_WAIT_NS = 62 * SECOND_NS
"""Slurm waits so long for the rest of a step [KillWait and grace]."""
_SLURMD_TIMEOUT_S = (60.0, 300.0)
"""Slurm notices within SlurmdTimeout that a node does not answer."""
_RETRIES_S = (8.0, 25.0)
"""An RDMA connection gives up after its retries."""


class End(NamedTuple):
    """A rank ends by itself: when, and with which exit code."""

    time_ns: int
    code: int


def ranks_end(scene: Scene, ends: Mapping[int, End], role: Role = "cascade") -> None:
    """Ranks end by themselves; ``role`` is what their agents' reports mean.

    An agent is the first to state the failure if the rank could print nothing.
    """
    _agents_report(scene, ends, role)
    if scene.job.kills:
        _neighbours_notice(scene, min(end.time_ns for end in ends.values()))
    else:
        _others_time_out(scene, scene.when_ns, set(ends))
    _slurm_ends_the_job(scene)


def ranks_hang(scene: Scene, stuck: Iterable[int], *, prints: bool, behind: int = 1) -> None:
    """The ranks ``stuck`` stop; if ``prints``, they show their state when the others time out.

    ``behind`` is how far their last collective is behind the one that is waited for.
    """
    stuck = set(stuck)
    for rank in stuck:
        scene.silence(rank, scene.when_ns)
    _others_time_out(scene, scene.when_ns, stuck)
    if prints and scene.tools.c10d.has_status:
        _show_states(scene, stuck, behind)
    _slurm_ends_the_job(scene)


def node_dies(scene: Scene, role: Role = "indicator") -> None:
    """The node of the scene stops at once; ``role`` is that of Slurm's report of it."""
    node, tools = scene.node, scene.tools
    for rank in scene.job.ranks_of[node]:
        scene.end_rank(rank, scene.when_ns)
    scene.dead_ns[node] = scene.ended_ns[node] = scene.when_ns
    _neighbours_notice(scene, scene.when_ns)
    patience_ns = round(scene.job.timeout_s * SECOND_NS)
    noticed_ns = scene.when_ns + min(scene.seconds(*_SLURMD_TIMEOUT_S), patience_ns)
    scene.slurm_writes(noticed_ns, tools.slurm.say("node_failed", node), role)
    scene.ended_ns[node] = noticed_ns
    reason = "NODE FAILURE, SEE SLURMCTLD LOG FOR DETAILS"
    scene.slurm_writes(noticed_ns, tools.slurm.cancelled(noticed_ns, reason), "teardown")
    _end_nodes(scene, noticed_ns)
    scene.ending = Ending("NODE_FAIL", "0:0")


def job_is_cancelled(scene: Scene, time_ns: int, reason: str, ending: Ending) -> None:
    """Slurm cancels the job at ``time_ns``: a user, a time limit, or another job."""
    role: Role = "indicator" if reason == "PREEMPTION" else "teardown"
    scene.slurm_writes(time_ns, scene.tools.slurm.cancelled(time_ns, reason), role)
    _end_nodes(scene, time_ns)
    scene.ending = ending


def connection_fails(scene: Scene, ends: Mapping[int, int], role: Role) -> dict[int, End]:
    """Ranks lose their connections to nodes ``ends``, and abort; returns when."""
    found: dict[int, End] = {}
    for rank, peer in ends.items():
        at_ns = scene.when_ns + scene.seconds(*_RETRIES_S)
        found[rank] = _connection_lost(scene, rank, peer, at_ns, role)
    return found


def _connection_lost(scene: Scene, rank: int, peer: int, at_ns: int, role: Role) -> End:
    nccl = scene.tools.nccl
    lost = nccl.warns("completion" if scene.job.rdma else "closed", rank, at_ns, peer)
    scene.write(scene.job.source(rank, "out"), at_ns, lost, role)
    reason = nccl.statement("failure")
    return abort(scene, rank, at_ns + scene.seconds(0.05, 0.6), reason, role)


def abort(scene: Scene, rank: int, at_ns: int, reason: str, role: Role) -> End:
    """The watchdog of ``rank`` ends its process because of an error."""
    c10d = scene.tools.c10d
    scene.rank_writes(rank, at_ns, c10d.say("torn", rank, at_ns), "boilerplate")
    after_ns = at_ns + scene.seconds(0.01, 0.1)
    scene.rank_writes(rank, after_ns, c10d.terminated(rank, after_ns, reason), role)
    end = End(after_ns + scene.seconds(0.1, 1.5), ABORTED)
    scene.end_rank(rank, end.time_ns)
    return end


def _agents_report(scene: Scene, ends: Mapping[int, End], role: Role = "cascade") -> None:
    """The agent of each node with ended ranks reports the first, and ends the others."""
    for node in sorted({scene.job.node_of(rank) for rank in ends}):
        here = {rank: end for rank, end in ends.items() if scene.job.node_of(rank) == node}
        if node not in scene.ended_ns:
            _agent_reports(scene, node, here, role)


def _agent_reports(scene: Scene, node: int, ends: Mapping[int, End], role: Role) -> None:
    torchrun = scene.tools.torchrun
    noticed_ns = min(end.time_ns for end in ends.values()) + scene.seconds(0.02, 1.0)
    failed = [
        Exit(rank, end.code, noticed_ns)
        for rank, end in sorted(ends.items())
        if end.time_ns <= noticed_ns
    ]
    running = [rank for rank in scene.job.ranks_of[node] if rank not in {e.rank for e in failed}]
    forced = [rank for rank in running if scene.silent_ns.get(rank, noticed_ns) < noticed_ns]
    for rank in running:
        closing = torchrun.say("closing", node, noticed_ns, rank)
        scene.agent_writes(node, noticed_ns, closing, "teardown")
        scene.end_rank(rank, noticed_ns)
    ended_ns = noticed_ns + (30 * SECOND_NS if forced else scene.seconds(0.2, 3.0))
    for rank in forced:
        forcing = torchrun.say("forced", node, ended_ns, rank)
        scene.agent_writes(node, ended_ns, forcing, "teardown")
    after_ns = ended_ns + scene.seconds(0.01, 0.3)
    first = failed[0]
    output = torchrun.say("failed", node, after_ns, first.rank, code=first.code)
    scene.agent_writes(node, after_ns, output, role)
    scene.agent_writes(node, after_ns + 10_000_000, torchrun.summary(node, failed), role)
    scene.ended_ns[node] = after_ns + scene.seconds(0.1, 0.5)


def _neighbours_notice(scene: Scene, failed_ns: int) -> None:
    """Ranks of the neighbouring nodes may find their connections to the node closed."""
    job, count = scene.job, len(scene.job.nodes)
    places = {(scene.node + step) % count for step in (-1, 1)} - {scene.node, *scene.ended_ns}
    found: dict[int, End] = {}
    for node in sorted(places):
        after = _RETRIES_S if job.rdma else (0.02, 0.4)
        for rank in job.ranks_of[node]:
            at_ns = failed_ns + scene.seconds(*after)
            if at_ns < _kill_ns(scene):
                found[rank] = _connection_lost(scene, rank, scene.node, at_ns, "cascade")
    _agents_report(scene, found)


def _kill_ns(scene: Scene) -> int:
    """When Slurm ends the remaining nodes: soon after the first agent has failed."""
    alive = [ns for node, ns in scene.ended_ns.items() if node not in scene.dead_ns]
    return min(alive) + SECOND_NS if alive else 1 << 62


def _others_time_out(scene: Scene, since_ns: int, out: set[int]) -> None:
    """All ranks but ``out`` wait until their watchdogs give up."""
    job, c10d = scene.job, scene.tools.c10d
    limit_ns = since_ns + round(job.timeout_s * SECOND_NS)
    ends: dict[int, End] = {}
    for rank in range(job.ranks):
        if rank in out or rank in scene.silent_ns or job.node_of(rank) in scene.ended_ns:
            continue
        at_ns = limit_ns + scene.seconds(0.0, 0.12)
        ran_ms = round(job.timeout_s * 1000) + int(scene.rng.integers(90))
        reason = c10d.waited(rank, scene.waits, ran_ms)
        timeout = c10d.say("timeout", rank, at_ns, reason=reason)
        scene.rank_writes(rank, at_ns, timeout, "cascade")
        if c10d.has_status:
            state = scene.state_of(int(scene.rng.integers(5)))
            number = scene.waits.number
            status = c10d.say("status", rank, at_ns + 200_000, number=number, state=state)
            scene.rank_writes(rank, at_ns + 200_000, status, "cascade")
        ends[rank] = abort(scene, rank, at_ns + scene.seconds(0.3, 0.9), reason, "cascade")
    _agents_report(scene, ends)


def _show_states(scene: Scene, stuck: Iterable[int], behind: int) -> None:
    """Ranks that could not time out show the collective that they did not reach."""
    c10d, job = scene.tools.c10d, scene.job
    state = scene.state_of(-behind)
    reporter = next((rank for rank in range(job.ranks) if rank not in stuck), 0)
    for rank in stuck:
        at_ns = scene.when_ns + round(job.timeout_s * SECOND_NS) + scene.seconds(0.15, 0.4)
        output = c10d.say("observed", rank, at_ns, reporter=reporter, state=state)
        scene.rank_writes(rank, at_ns, output, "indicator")


def _slurm_ends_the_job(scene: Scene) -> None:
    """Slurm reports ended agents, and ends the nodes that still run."""
    slurm, job = scene.tools.slurm, scene.job
    ended = sorted((ns, node) for node, ns in scene.ended_ns.items())
    if not ended:
        return
    first_ns, _ = ended[0]
    reported = ended[:1] if job.kills else ended
    for ns, node in reported:
        scene.slurm_writes(ns + scene.seconds(0.05, 0.5), slurm.ended(node, FAILED), "cascade")
    rest = [node for node in range(len(job.nodes)) if node not in scene.ended_ns]
    if not rest:
        return
    kill_ns = first_ns + (SECOND_NS if job.kills else _KILL_WAIT_NS)
    for output in (slurm.say("waiting"), slurm.cancelled(kill_ns), slurm.say("terminating")):
        scene.slurm_writes(kill_ns, output, "teardown")
    _end_nodes(scene, kill_ns)


def _end_nodes(scene: Scene, kill_ns: int) -> None:
    """Signals end the agents, and the ranks, of all nodes that still run."""
    torchrun, slurm = scene.tools.torchrun, scene.tools.slurm
    for node in range(len(scene.job.nodes)):
        if node in scene.ended_ns:
            continue
        at_ns = kill_ns + scene.seconds(0.01, 0.3)
        outputs: list[Message] = [torchrun.say("death", node, at_ns)]
        for rank in scene.job.ranks_of[node]:
            outputs.append(torchrun.say("closing", node, at_ns, rank))
            scene.end_rank(rank, at_ns)
        for output in (*outputs, torchrun.ended(node)):
            scene.agent_writes(node, at_ns, output, "teardown")
            at_ns += 2_000_000
        scene.ended_ns[node] = at_ns + scene.seconds(0.5, 4.0)
        scene.slurm_writes(scene.ended_ns[node], slurm.ended(node, TERMINATED), "teardown")

"""Facts about ranks, processes and nodes: summaries of launchers, NCCL's names, tasks."""

from __future__ import annotations

import re
from collections.abc import Iterator

from llmlog.evidence import Ended, Event, Evidence, Writer
from llmlog.names import names_node, short
from llmlog.records import Record

_BLOCK = re.compile(
    r"host\s*: (?P<node>\S+)\s+rank\s*: (?P<rank>\d+) \(local_rank: (?P<local>\d+)\)\s+"
    r"exitcode\s*: (?P<code>-?\d+) \(pid: (?P<pid>\d+)\)"
)
_FIRST = "Root Cause"
_SIGNAL = re.compile(r"\bSignal (\d+) \(SIG\w+\) received by PID|exitcode\s*: -(?P<code>\d+)")
_NCCL_RANK = re.compile(r"\brank (\d+) n[rR]anks (\d+)|^\[Rank (\d+)\]")
_ADDRESS = re.compile(r"(?:Bootstrap|NET/\w+) ?: ?Using \S*?:([\d.]+)<")
_RAY = re.compile(
    r"\((?:node_id=\w+, )?ip=(?P<ip>[\w.:-]+), pid=(?P<pid>\d+)\) world_rank="
    r"(?P<rank>\d+), local_rank=(?P<local>\d+)"
)
_GROUP = re.compile(r"Setting up process group for: .*\[rank=(\d+), world_size=\d+\]")
_HOST_OF_RANK = re.compile(
    r"(?i)hostname[ =:]+(?P<node>[\w.-]+),? (?:.{0,40}?[ _])?(?<!local[ _])rank[ =:]+(?P<rank>\d+)"
)
"""A host and a rank in one line (an environment, a greeting of Horovod)."""
_MAPPING = re.compile(r"global_rank_mapping=.*?(\{.*\})")
_RANKS_OF = re.compile(r"'([\w.-]+)': \[([\d, ]+)\]")
_SIZE = re.compile(r"\b(?:n[rR]anks|world[_ ]size[=:]?) ?(\d{1,6})\b")
_TEXT_RANK = re.compile(r"\bRank(?:ID)?[: ](\d{1,6})\b|\bglobal_rank[=: ]+(\d{1,6})\b")


def learn(evidence: Evidence, writer: Writer, record: Record) -> bool:
    """Note which ranks and addresses a line names; whether it says more than who prints."""
    text = record.text
    if size := _SIZE.search(text):
        evidence.size = max(evidence.size, int(size[1]))
    if record.tool == "nccl":
        return _of_nccl(evidence, writer, record)
    if "world_rank=" in text and (match := _RAY.search(text)):
        rank, node = int(match["rank"]), match["ip"]
        evidence.rank_nodes[rank] = node
        evidence.ranks[Writer(node, None, stream=f"pid {match['pid']}")] = rank
        return True
    if record.pid is not None and (match := _GROUP.search(text)):
        evidence.ranks[writer] = int(match[1])
        return True
    if (
        ("ostname" in text or "HOST" in text)
        and (match := _HOST_OF_RANK.search(text))
        and names_node(match["node"])
    ):
        evidence.rank_nodes.setdefault(int(match["rank"]), match["node"])
        return True
    if "global_rank_mapping" in text and (match := _MAPPING.search(text)):
        for node, ranks in _RANKS_OF.findall(match[1]):
            if names_node(node):
                evidence.rank_nodes |= {int(rank): node for rank in ranks.split(",")}
        return True
    return False


def _of_nccl(evidence: Evidence, writer: Writer, record: Record) -> bool:
    """Ranks, processes and addresses of NCCL's lines, which name their host."""
    node = writer.node
    if node is None:
        return False
    local = Writer(node, record.local)
    if record.host is not None:
        evidence.addresses.setdefault(short(record.host), node)
    if record.pid is not None and record.local is not None:
        evidence.pids[node, record.pid] = record.local
    rank, address = _NCCL_RANK.search(record.text), _ADDRESS.search(record.text)
    if rank and (number := next(text for text in (rank[1], rank[3]) if text)):
        evidence.ranks[local] = int(number)
    if record.rank is not None:
        evidence.rank_nodes[record.rank] = node
    if address:
        evidence.addresses[address[1]] = node
    return bool((rank and rank[1]) or address)


def read_summary(evidence: Evidence, event: Event) -> None:
    """Note the ranks of a summary of torchrun."""
    blocks = list(_BLOCK.finditer(event.text))
    at = event.text.find(_FIRST)
    for match in blocks:
        first = match.start() > at if at >= 0 else match is blocks[-1]
        rank, local, code, pid = (int(match[name]) for name in ("rank", "local", "code", "pid"))
        evidence.ended.append(Ended(rank, local, match["node"], code, pid, first))
        if is_host := names_node(match["node"]):
            evidence.rank_nodes[rank] = match["node"]
            evidence.named[event.file].add(match["node"])
        if first:
            event.fields |= {"node": match["node"] if is_host else None, "code": str(code)}
            event.rank = rank
    if not blocks and (signal := _SIGNAL.search(event.text)):
        event.fields["signal"] = signal[1] or signal["code"]


def read_tasks(evidence: Evidence, event: Event) -> None:
    """Note the node of the tasks that a line of srun lists."""
    node = event.fields.get("node")
    if node is not None:
        evidence.task_nodes |= dict.fromkeys(_numbers(event.fields.get("tasks") or ""), node)


def _numbers(text: str) -> Iterator[int]:
    """The numbers of a list such as ``0,2-3``."""
    for part in filter(None, text.split(",")):
        first, _, last = part.partition("-")
        if first:
            yield from range(int(first), min(int(last or first), int(first) + 100_000) + 1)


def rank_in(text: str) -> int | None:
    """The rank that a line calls its own (``RankID:3``, ``[Rank 3]``); None if it names none."""
    match = _TEXT_RANK.search(text)
    return int(next(number for number in match.groups() if number)) if match else None

"""What was slow before the recording began: no comparison of steps shows it.

A fault that is older than the recording is in every step. Only a comparison with peers shows it: a
transfer with transfers of the same kind and volume over as many hops (rail beside rails, ring
beside rings), and with what its links carry. A rank is compared with its replicas, which only a
pipeline shows: without one, all ranks wait for each other, and a slow one looks like the others.

So a diagnosis says for each job what was compared and what was not (:class:`Scope`). What is slow
here is no finding: it may be as slow by design, and all members of a ring are as slow as its
slowest hop. A ring with a part that a finding names is not listed again.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import pandas as pd

from llmprism.io.flows import FlowTable
from llmprism.io.spread import is_spread
from llmprism.io.topology import Topology
from llmprism.numerics.arrays import Bools, Floats, Ints, grouped, weighted_quantile
from llmprism.part_names import Parts
from prism_common.kinds import OTHER, UNKNOWN

PEERS = 4  # transfers that show what is usual
ALIKE = 2.0  # times the volume of a peer, at most
SLOWER = 2.0  # times as long as peers: hosts and switches of one kind differ by less
FEW = 0.5  # share of the transfers: if more are slow, none is
REACHED = 0.5  # of the rate of its link: slower transfers are worth a remark
NEARLY = 0.98  # of the slowest: transfers that are as slow
FAST = 0.9  # quantile of the rates of a transfer, by bytes
STAGES_WITH = 3  # replicas that show what is usual in a stage
SAMPLE = 2_000_000  # records whose rates are looked at
_NAMED = 3
UNKNOWN_HOP = "?"


@dataclass(frozen=True)
class Scope:
    """What was compared in one job, beyond its steps with each other.

    Attributes
    ----------
    compared : what was compared, in words.
    not_judged : what the records do not show, in words, with the reason.
    slow : what is slow in all steps beside its peers, in words.
    """

    job: str
    compared: tuple[str, ...] = ()
    not_judged: tuple[str, ...] = ()
    slow: tuple[str, ...] = ()


def scopes_of(
    flows: FlowTable, topology: Topology, tables: Mapping[str, pd.DataFrame]
) -> tuple[Scope, ...]:
    """The scope of every job with steps, from the records and the tables of the diagnosis."""
    steps, culprits = tables["steps"], _culprits(tables["findings"])
    layouts = {
        str(row["job"]): (int(row["pp"]), int(row["dp"]))
        for row in tables["layouts"].to_dict("records")
    }
    transfers = _transfers(flows, topology, tables["pairs"])
    by_job = dict(iter(transfers.groupby("job", sort=False)))
    return tuple(
        _scope(
            str(job),
            flows,
            topology,
            by_job.get(job, transfers.iloc[:0]),
            layouts.get(str(job), (-1, -1)),
            culprits.get(str(job), set()),
        )
        for job in tables["jobs"]["job"].unique()
        if (steps["job"] == job).any()
    )


def _scope(
    job: str,
    flows: FlowTable,
    topology: Topology,
    transfers: pd.DataFrame,
    sizes: tuple[int, int],
    culprits: set[str],
) -> Scope:
    compared: list[str] = []
    not_judged: list[str] = []
    slow: list[str] = []
    ratio = _beside_peers(transfers)
    known = np.isfinite(ratio)
    if known.any():
        shown = f"{SLOWER:g} times as long stands out"
        compared.append(f"transfers with others of the same kind and volume ({shown})")
        slow += _slow_beside_peers(flows, topology, transfers, ratio, culprits)
    else:
        not_judged.append(f"transfers that were slow before the recording began: {_WHY_NO_PEERS}")
    reached = transfers["reached"].max() if len(transfers) else np.nan
    if np.isfinite(reached):
        compared.append("transfers with the rates of their links")
        if reached < REACHED and not known.any():
            slow.append(f"no transfer reaches more than {reached:.0%} of the rate of its link")
    if topology.servers_unknown:
        not_judged.append(
            "which NICs share a server, so layout and culprits are guesses: the topology names no "
            "servers (llmprism ingest --topology)"
        )
    if _is_spread(flows, transfers):
        not_judged.append(WHICH_LINK)
    pp, dp = sizes
    if pp > 1 and dp >= STAGES_WITH:
        compared.append("ranks with their replicas")
    else:
        not_judged.append(f"ranks that were slow before the recording began: {_why_no_ranks(pp)}")
    return Scope(job, tuple(compared), tuple(not_judged), tuple(slow))


WHICH_LINK = (
    "which link between switches is slow or loses packets: messages are spread over several paths, "
    "and records do not tell these apart. Counters of the spines' ports do"
)


def _is_spread(flows: FlowTable, transfers: pd.DataFrame) -> bool:
    """Whether most transfers between leaves are spread over several paths.

    Records say so by one path or another, or by one that is unknown between two known leaves.
    """
    across = transfers[transfers["hops"] > 1]
    hidden = [_is_hidden(flows.paths[code]) for code in across["path"].tolist()]
    return bool(len(across) and (across["spread"] | np.array(hidden, bool)).mean() > FEW)


def _is_hidden(path: str) -> bool:
    """Whether both leaves of a path are known, and nothing between them."""
    first, *between, last = path.split("|")
    return {*between} == {UNKNOWN_HOP} and UNKNOWN_HOP not in (first, last)


def _why_no_ranks(stages: int) -> str:
    """Why ranks cannot be compared with their replicas."""
    if stages < 1:
        return "the layout is unknown"
    return (
        "fewer than three replicas" if stages > 1 else "without a pipeline, all wait for each other"
    )


_WHY_NO_PEERS = "records show no rates, or too few of them are alike"


def _transfers(flows: FlowTable, topology: Topology, pairs: pd.DataFrame) -> pd.DataFrame:
    """The pairs that carry training data: volume, rate, hops, and the share of the link's rate."""
    order = {address: code for code, address in enumerate(flows.addresses)}
    pairs = pairs[~pairs["kind"].isin([OTHER, UNKNOWN])].drop_duplicates(["src", "dst"])
    src, dst = (pairs[side].map(order).fillna(-1).to_numpy(np.int64) for side in ("src", "dst"))
    kept = (src >= 0) & (dst >= 0)
    pairs, key = pairs[kept], (src * len(order) + dst)[kept]
    rows = np.arange(0, len(flows), max(1, len(flows) // SAMPLE))
    by_key = np.argsort(key)
    of_row = flows.src[rows].astype(np.int64) * len(order) + flows.dst[rows]
    place = np.minimum(np.searchsorted(key[by_key], of_row), max(key.size - 1, 0))
    there = key[by_key][place] == of_row if key.size else np.zeros(rows.size, bool)
    rows, pair = rows[there], by_key[place[there]]
    measured = _measured(flows, rows, pair, len(pairs))
    gbps = topology.nic_gbps
    return pd.DataFrame(
        {
            "job": pairs["job"].to_numpy(object),
            "kind": pairs["kind"].to_numpy(object),
            "src": pairs["src"].to_numpy(object),
            "dst": pairs["dst"].to_numpy(object),
            "path": measured[0],
            "spread": _spread(flows, rows, pair, len(pairs)),
            "hops": [_hops(flows, code) for code in measured[0].tolist()],
            "volume": measured[1],
            "rate": measured[2],
            "reached": measured[2] / gbps,
        }
    )


def _measured(flows: FlowTable, rows: Ints, pair: Ints, count: int) -> tuple[Ints, Floats, Floats]:
    """Path code, volume [bytes] and rate [Gbit/s] of each pair; NaN where no record shows a rate.

    The rate is that of its fast records: others may have waited.
    """
    size = flows.bytes[rows].astype(np.float64)
    lasted = flows.lengths_ns(rows).astype(np.float64)
    volume: Floats = np.bincount(pair, size, count).astype(np.float64)
    path: Ints = np.full(count, -1, np.int64)
    path[pair] = flows.path[rows]
    rate: Floats = np.full(count, np.nan)
    shown = lasted > 0
    speed = 8 * size[shown] / lasted[shown]
    at, fast = weighted_quantile(pair[shown], speed, size[shown], FAST)
    rate[at] = fast
    return path, volume, rate


def _spread(flows: FlowTable, rows: Ints, pair: Ints, count: int) -> Bools:
    """Whether the records of each pair change their path from one to the next."""
    by_pair = grouped(pair, count)
    several = np.zeros(count, np.bool_)
    lowest, highest = (
        np.full(count, fill) for fill in (np.iinfo(np.int64).max, np.iinfo(np.int64).min)
    )
    path = flows.path[rows].astype(np.int64)
    np.minimum.at(lowest, pair, path)
    np.maximum.at(highest, pair, path)
    for one in np.flatnonzero(lowest < highest).tolist():
        several[one] = is_spread(flows, rows[by_pair.rows(one)])
    return several


def _hops(flows: FlowTable, code: int) -> int:
    """Switches of a path; 0 if it is unknown."""
    return flows.paths[code].count("|") + 1 if code >= 0 else 0


def _beside_peers(transfers: pd.DataFrame) -> Floats:
    """How many times as long each transfer takes as its peers; NaN where too few are alike."""
    ratio = np.full(len(transfers), np.nan)
    place = np.arange(len(transfers))
    for _, own in transfers.assign(place=place).groupby(["kind", "hops"], sort=False):
        rate, volume = own["rate"].to_numpy(float), own["volume"].to_numpy(float)
        usual = _usual(rate, volume)
        ratio[own["place"].to_numpy()] = usual / rate
    return ratio


def _usual(rate: Floats, volume: Floats) -> Floats:
    """The median rate of the transfers with a volume like that of each."""
    found = np.full(rate.size, np.nan)
    classes = np.round(np.log(np.maximum(volume, 1.0)) / np.log(ALIKE))
    for one in np.unique(classes).tolist():
        alike = (classes == one) & np.isfinite(rate)
        if alike.sum() > PEERS:
            found[alike] = np.median(rate[alike])
    return found


def _culprits(findings: pd.DataFrame) -> dict[str, set[str]]:
    """By job: the parts that its findings name, as :func:`_parts` has them."""
    found: dict[str, set[str]] = {}
    for job, kind, culprit in findings[["job", "culprit_kind", "culprit"]].itertuples(index=False):
        place = str(culprit).partition(">")[0]  # without its direction
        name = f"server {place}" if kind == "server" else "|".join(sorted(place.split("|")))
        found.setdefault(str(job), set()).add(name)
    return found


def _slow_beside_peers(
    flows: FlowTable,
    topology: Topology,
    transfers: pd.DataFrame,
    ratio: Floats,
    culprits: set[str],
) -> Iterator[str]:
    known = np.isfinite(ratio)
    slow = known & (np.nan_to_num(ratio) > SLOWER)
    if not slow.any() or slow.sum() > FEW * known.sum():
        return
    crossed = [_parts(flows, topology, row) for row in transfers.itertuples()]
    slow &= ~_explained(transfers, crossed, slow, culprits)
    if not slow.any():
        return
    worst = slow & (np.nan_to_num(ratio) >= NEARLY * ratio[slow].max())
    shared = _shared(topology, crossed, worst, known)
    where = f"; the slowest cross {', '.join(shared)}" if shared else ""
    yield (
        f"{slow.sum():,} of {known.sum():,} transfers take {np.median(ratio[slow]):.3g} times as "
        f"long as their peers in all steps{where}. Something there is slow, or they share it"
    )


def _explained(
    transfers: pd.DataFrame, crossed: list[set[str]], slow: Bools, culprits: set[str]
) -> Bools:
    """The slow transfers that cross a culprit, and those in a ring with them."""
    explained = slow & np.array([bool(parts & culprits) for parts in crossed], np.bool_)
    while True:
        ends = {*transfers.loc[explained, "src"], *transfers.loc[explained, "dst"]}
        joined = transfers["src"].isin(ends) | transfers["dst"].isin(ends)
        more = slow & joined.to_numpy(np.bool_)
        if more.sum() == explained.sum():
            return explained
        explained = more


def _shared(topology: Topology, crossed: list[set[str]], worst: Bools, known: Bools) -> list[str]:
    """Parts of the network that all of the ``worst`` transfers cross, and fewest others.

    The hops of a ring go at the pace of its slowest one, and are nearly as slow.
    """
    common = set.intersection(*(crossed[row] for row in np.flatnonzero(worst).tolist()))
    others = np.flatnonzero(known & ~worst).tolist()
    beside = {part: sum(part in crossed[row] for row in others) for part in common}
    fewest = min(beside.values(), default=0)
    best = sorted(part for part, count in beside.items() if count == fewest)[:_NAMED]
    names = Parts({nic.address: nic.model_dump() for nic in topology.endpoints})
    return [names.name("link" if "|" in part else "", part) for part in best]


def _parts(flows: FlowTable, topology: Topology, row: object) -> set[str]:
    """NICs, servers, switches and links that a transfer crosses."""
    src, dst, path, spread = (getattr(row, name) for name in ("src", "dst", "path", "spread"))
    nics = [topology.endpoints[topology.codes[one]] for one in (src, dst)]
    hops = flows.paths[path].split("|") if path >= 0 else []
    if spread:
        hops = [hops[0], UNKNOWN_HOP, hops[-1]]
    switches = [hop for hop in hops if hop != UNKNOWN_HOP]
    links = {"|".join(sorted(ends)) for ends in pairwise(hops) if UNKNOWN_HOP not in ends}
    plugged = [topology.leaves[topology.codes[one]] for one in (src, dst)]
    own = {leaf for leaves in plugged for leaf in leaves if len(leaves) == 1 or leaf in switches}
    return {src, dst, *(f"server {nic.server}" for nic in nics), *switches, *links, *own}


def scopes_from(content: object) -> tuple[Scope, ...]:
    """Read scopes as JSON has them; what is no scope is passed over."""
    rows = content if isinstance(content, list) else []
    return tuple(
        Scope(str(row.get("job")), *(_texts(row.get(name)) for name in _LISTS))
        for row in rows
        if isinstance(row, dict)
    )


_LISTS = ("compared", "not_judged", "slow")


def _texts(content: object) -> tuple[str, ...]:
    return tuple(str(one) for one in content) if isinstance(content, list) else ()

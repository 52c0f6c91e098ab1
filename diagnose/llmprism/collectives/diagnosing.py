"""A diagnosis of what libraries recorded: the tables that flow records would fill."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
from numpy.typing import NDArray

from llmprism.collectives.judging import as_judged, context_of, durations_of, rings_of, view_of
from llmprism.collectives.operations import US, Operations, clock_offsets_ns
from llmprism.collectives.reading import Records
from llmprism.collectives.structure import (
    Shape,
    Stepped,
    connected,
    first_attempts,
    shapes_of,
    steps_of,
)
from llmprism.diagnosis import Diagnosis, conform
from llmprism.io.flows import Intake
from llmprism.io.topology import Endpoint, Topology
from llmprism.job_names import members_of, servers_of
from llmprism.methods.prism.culprits.network import unnamed
from llmprism.methods.prism.durations import Durations
from llmprism.methods.prism.explanation import Explanation, row_of
from llmprism.methods.prism.findings import always_row, cost_of, numbered
from llmprism.methods.prism.parameters import LEAST_SURE, MOST_FINDINGS
from llmprism.methods.prism.persistent import persistent
from llmprism.methods.prism.search import LocatedCulprit, search
from llmprism.model import CANNOT_TELL, UNKNOWN
from llmprism.numerics.arrays import Ints
from llmprism.numerics.missing import finite_median
from llmprism.persistent_deviations import Scope
from llmprism.verdict import Reason, RecordsVerdict
from prism_common.files import made_by
from prism_common.quantities import counted, duration

METHOD = "collectives"
JUDGE = "prism"
"""The method that judges what collectives show: a finding is worth what its findings were."""
CLOCKS_NS = 1e6
"""Clocks that differ by less are those of one cluster with NTP."""
NO_LINK = "which link or switch a slow transfer crosses (collectives name none; flow records do)"
COMPARED = "how long each process waits for the others, in each step and beside its peers"


@dataclass(frozen=True)
class CollectiveDiagnosis:
    """The diagnosis, and what its tables have no place for.

    Attributes
    ----------
    operations : all records, with who waited how long.
    addresses : of each process.
    notes : what is missing in the records, in words.
    """

    diagnosis: Diagnosis
    operations: Operations
    addresses: list[str]
    notes: list[str]

    def write_late(self, path: Path) -> None:
        """Write how late each process joined each collective, and how long it transferred."""
        records = self.operations.records
        table = records.table().select(["communicator", "operation", "number"])
        table = table.add_column(0, "address", records.named("process", self.addresses))
        for name in ("late_ns", "waited_ns", "transfer_ns"):
            table = table.append_column(name, [getattr(self.operations, name).astype(np.int64)])
        table = table.replace_schema_metadata({"program": made_by("llmprism")})
        pq.write_table(table, path, compression="zstd")


def diagnose(records: Records, topology: Topology) -> CollectiveDiagnosis:
    """Diagnose records; on a host that is not in ``topology``, a process is HOST/NUMBER."""
    records = on_servers(records, topology)
    operations = Operations(records)
    home_of = {end.server: end.home for end in topology.endpoints}
    sets = connected(operations, [home_of.get(one.host, one.host) for one in records.processes])
    places = first_attempts(records, sets)
    network, endpoints = _placed(records, topology, places)
    given = _given(network, endpoints, records.rows)
    shapes, rings = [*shapes_of(operations, sets, given, places)], rings_of(operations)
    found = [*_stepped(operations, shapes)]
    longest = {
        shape.name: (shape, steps)
        for shape, steps in sorted(found, key=lambda one: one[1].end_ns.shape[1] if one[1] else 0)
    }
    whole = [longest[name] for name in dict.fromkeys(shape.name for shape in shapes)]
    known = [(shape, as_judged(steps)) for shape, steps in found if steps is not None]
    origin_ns = operations.origin_us * US
    views = [view_of(shape, steps, endpoints[shape.processes], origin_ns)
             for shape, steps in known]  # fmt: skip
    context = context_of(network, views, rings, endpoints)
    rows = [
        row | {name: row[name] + steps.first for name in ("first_step", "last_step")}
        for (shape, steps), view in zip(known, views, strict=True)
        for row in _findings(durations_of(operations, shape, steps, rings, context, view), shape)
    ]
    offsets = clock_offsets_ns(operations)
    addresses = [network.addresses[code] for code in endpoints.tolist()]
    tables = {
        "jobs": pd.concat([_jobs(records, addresses, shape) for shape in shapes]),
        "layouts": pd.DataFrame([_layout(*one) for one in whole]),
        "groups": pd.concat([_groups(operations, addresses, shape) for shape, _ in whole]),
        "findings": numbered(rows),
    }
    if known:
        steps = [_steps(operations, addresses, offsets, *one) for one in known]
        tables["steps"] = pd.concat(steps, ignore_index=True)
    plain, spans = conform(JUDGE, tables)
    reasons = tuple(_unknown(shape) for shape, steps in whole if steps is None)
    verdict = RecordsVerdict(bool(known), reasons, {"records": len(records.rows)})
    verdict = verdict.with_scopes(Scope(name, (COMPARED,), (NO_LINK,)) for name in longest)
    aside = dict(records.set_aside)
    intake = Intake(len(records.rows) + sum(aside.values()), len(records.rows), aside, {})
    diagnosis = Diagnosis(
        METHOD, **plain, spans_in_parts=spans, intake=intake, verdict=verdict,
        left_out=("pairs", "spans"),
    )  # fmt: skip
    notes = [*_notes(operations, known, shapes, offsets, network)]
    notes += [f"{shape.name}: its communicators join processes of several given jobs, or of none"
              for shape in shapes if np.unique(given[shape.processes]).size > 1]  # fmt: skip
    return CollectiveDiagnosis(diagnosis, operations, addresses, notes)


def on_servers(records: Records, topology: Topology) -> Records:
    """The same, where hosts are called as the servers that they are."""
    servers = servers_of(topology, {one.host for one in records.processes})
    processes = [one._replace(host=servers.get(one.host, one.host)) for one in records.processes]
    return replace(records, processes=processes)


def _stepped(operations: Operations, shapes: list[Shape]) -> Iterator[tuple[Shape, Stepped | None]]:
    """The steps of each attempt, numbered through all attempts of a job."""
    begun: Counter[str] = Counter()
    for shape in shapes:
        steps = steps_of(operations, shape)
        if steps is not None:
            steps = replace(steps, first=begun[shape.name])
            begun[shape.name] += steps.end_ns.shape[1]
        yield shape, steps


def _placed(records: Records, topology: Topology, places: Ints) -> tuple[Topology, Ints]:
    """The topology with all processes, and the endpoint of each: processes of a host in order.

    Processes have the endpoint of that whose place they have.
    """
    order = sorted(np.unique(places).tolist(), key=lambda code: records.processes[code].order)
    hosts = Counter(records.processes[code].host for code in order)
    theirs: dict[str, list[Endpoint]] = {}
    for end in topology.endpoints:
        theirs.setdefault(end.server, []).append(end)
    count: Counter[str] = Counter()
    chosen: dict[int, Endpoint] = {}
    for code in order:
        host = records.processes[code].host
        number, listed = count[host], theirs.get(host, [])
        count[host] += 1
        if listed:
            share = max(hosts[host], len(listed)) if hosts[host] > 1 else len(listed)
            chosen[code] = listed[min(number * len(listed) // share, len(listed) - 1)]
        else:
            if host in records.folders:
                number = int(records.processes[code].pid)
            chosen[code] = Endpoint(address=f"{host}/{number}", server=host, nic=number)
    ports = dict.fromkeys((*topology.ports, *chosen.values()))
    network = replace(topology, ports=tuple(ports))
    codes = [network.codes[chosen[code].address] for code in places.tolist()]
    return network, np.array(codes, np.int64)


def _given(network: Topology, endpoints: Ints, rows: NDArray[Any]) -> Ints:
    """The number of the job of each process that an operator gives, or less than 0."""
    no = np.zeros(0, np.int64)
    ends = rows["end_us"] * US
    first, last = (int(ends.min()), int(ends.max())) if ends.size else (0, 0)
    return members_of(network, first, last, (no.astype(np.int32),) * 2, no)[endpoints]


def _jobs(records: Records, addresses: list[str], shape: Shape) -> pd.DataFrame:
    codes = shape.processes.tolist()
    hosts = [records.processes[code].host for code in codes]
    servers = [None if host in records.folders else host for host in hosts]
    own = {"job": shape.name, "address": [addresses[code] for code in codes], "server": servers}
    return pd.DataFrame(own).drop_duplicates(["job", "address"])


def _layout(shape: Shape, steps: Stepped | None) -> dict[str, Any]:
    known = steps is not None and np.isfinite(steps.length_ns).any()
    period = finite_median(steps.length_ns) if steps is not None and known else CANNOT_TELL
    named = {"missing_ranks": shape.missing, "communicators": len(shape.kind)}
    return {
        "job": shape.name, **shape.layout, "schedule": UNKNOWN, "sharding": UNKNOWN,
        "micro_batches": steps.micro_batches if steps else CANNOT_TELL, "period_ns": round(period),
        "confidence": 0.0 if min(shape.layout.values()) < 0 else 1.0, "evidence": json.dumps(named),
    }  # fmt: skip


def _groups(operations: Operations, addresses: list[str], shape: Shape) -> pd.DataFrame:
    """Members of each communicator; those of a pipeline in the order of their stages."""
    members = operations.records.members
    members = members[np.isin(members[:, 1], [*shape.kind])]
    process, communicator, place = members[np.lexsort((members[:, 0], members[:, 1]))].T
    table = pd.DataFrame({
        "job": shape.name, "kind": [shape.kind[one] for one in communicator.tolist()],
        "group": communicator, "address": [addresses[code] for code in process.tolist()],
        "position": pd.array(place, "Int64"),
    })  # fmt: skip
    table["position"] = table["position"].mask(table["kind"] != "pp")
    return table.drop_duplicates(["job", "kind", "group", "address"])


def _steps(
    operations: Operations, addresses: list[str], offsets: dict[str, float], shape: Shape,
    steps: Stepped,
) -> pd.DataFrame:  # fmt: skip
    """The steps of each process, by the clock that most hosts have."""
    processes = [operations.records.processes[code] for code in shape.processes.tolist()]
    ahead = np.array([offsets.get(process.host, 0.0) for process in processes])
    end = steps.end_ns - ahead[:, None]
    count = end.shape[1]
    start = np.concatenate((np.full((len(end), 1), np.nan), end[:, :-1]), axis=1)
    table = pd.DataFrame({
        "job": shape.name, "step": np.tile(steps.first + np.arange(count), len(end)),
        "address": np.repeat([addresses[code] for code in shape.processes.tolist()], count),
        "start_ns": start.ravel(), "end_ns": end.ravel(), "waited_ns": steps.waited_ns.ravel(),
        "late_ns": steps.late_ns.ravel(), "confidence": 1.0 if steps.is_measured else 0.5,
    }).dropna(subset=["start_ns", "end_ns"])  # fmt: skip
    for name in ("start_ns", "end_ns"):
        table[name] = table[name].round().astype(np.int64) + operations.origin_us * US
    return table.assign(dp_end_ns=table["end_ns"]).drop_duplicates(["job", "address", "step"])


def _findings(durations: Durations, shape: Shape) -> Iterator[dict[str, Any]]:
    """What the judge finds in one job: longer steps, then what is slow in all of them."""
    names = set()
    for number, culprit in enumerate(search(durations)):
        if number == MOST_FINDINGS:
            return
        names.add(culprit.attribution.name)
        yield _row(durations, culprit, np.inf if shape.missing else LEAST_SURE)
    for always in persistent(durations):
        if always.attribution.name not in names:
            yield always_row(durations, always)


def _row(durations: Durations, culprit: LocatedCulprit, least_sure: float) -> dict[str, Any]:
    named, window = culprit.attribution, culprit.scene.window
    if named.level == "network" and named.sure < least_sure:
        named = unnamed(named, durations.job)
    explanation = Explanation(
        durations.job, named.level, named.symptom, named.cause, named.kind, named.name,
        window.first, window.last, window.level / (1 + window.level),
        min(culprit.chance * named.sure, 1.0),
        {**named.evidence, "log_odds": round(culprit.odds, 1)},
    )  # fmt: skip
    return row_of(explanation, cost_of(durations, culprit))


def _unknown(shape: Shape) -> Reason:
    text = (
        f"the operations of its {counted(len(shape.kind), 'communicator')} do not repeat"
        " three times with serial numbers, so its steps are unknown"
    )
    return Reason("no_steps", shape.name, text)


def _notes(
    operations: Operations, known: list[tuple[Shape, Stepped]], shapes: list[Shape],
    offsets: dict[str, float], network: Topology,
) -> Iterator[str]:  # fmt: skip
    """What is missing, or measured less well, in words."""
    nics = Counter(end.server for end in network.endpoints)
    hosts = Counter(process.host for process in operations.records.processes)
    if partly := sum(count < nics[host] for host, count in hosts.items()):
        what = f"on {counted(partly, 'server')}, fewer processes than NICs have records"
        yield f"{what}, and these do not say which NIC a process has"
    if lost := operations.records.lost:
        yield f"ring buffers lost {counted(lost, 'record')}"
    for folder in sorted(operations.records.folders):
        yield f"dumps of the flight recorder name no host; {folder}/3 is the rank 3 of {folder}"
    for shape in shapes:
        if shape.missing:
            ranks = counted(shape.missing, "rank")
            yield f"{shape.name}: {ranks} of its communicators without records"
    tick_ns = operations.tick_ns
    ends = f"ends are known to {duration(tick_ns)}" if np.isfinite(tick_ns) else "ends are unknown"
    for shape, steps in known:
        if not steps.is_measured:
            yield (
                f"{shape.name}: {ends}, so the lengths of its steps follow from waiting; what slows"
                " all processes alike is unknown"
            )
    apart = {host: ahead for host, ahead in offsets.items()
             if abs(ahead) > max(CLOCKS_NS, 2 * tick_ns)}  # fmt: skip
    if apart:
        host, most = max(apart.items(), key=lambda one: abs(one[1]))
        yield (
            f"clocks of {counted(len(apart), 'host')} differ from the others, that of {host} by"
            f" {duration(abs(most))}; times are corrected"
        )

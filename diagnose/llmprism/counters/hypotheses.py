"""What counters count: hypotheses, each tried on whole series against link rates and time.

Neither a name nor a single value decides. Each question has few answers; an answer is *consistent*
if nearly all readings fit it: what a port moves between two readings fits its link, and counters
rise. The answer that alone is consistent is taken. If several are, or none is, the input is
refused, and the message has all of them.

| question | answers |
|---|---|
| form | counters that rise (of 64 bits; of 32 bits that wrap), differences, rates |
| unit | words of 4 bytes or bytes, if the name says words; else bytes or bits |
| which of several counters | the one that counted most: others leave out RDMA, or wrap |
| local times | the clock went back by an hour, or readings came out of order |
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from llmprism.counters.cleaning import FASTEST_BPS, HOLE_INTERVALS, OVER_LINK, WORD
from llmprism.counters.readings import IN, OUT, Form, PortReadings, Unit
from llmprism.numerics.arrays import Floats, Ints
from prism_common.errors import Problem, UserError
from prism_common.quantities import percent

FITS = 0.02
"""Share of the readings that may contradict an answer: resets, holes, damage."""
FULL = 0.9
"""Of a word: counters of 32 bits that wrap many times reach values above it."""
HARDLY = 0.01
"""Share of the changes of a counter that are falls, if it is reset now and then. Traffic falls as
often as it rises, so differences fall far more often."""
SELDOM = 0.1
"""The same for short recordings."""
FALLS_OF_TRAFFIC = 0.25
"""Share of the changes of differences that are falls, at least."""
NEAR_A_SECOND = 2.0
"""Intervals between one second over this and this many: there, rates are nearly differences."""
FEW_CHANGES = 20
"""Fewer changes show nothing of how often a series falls."""
PACKET_BYTES = (20.0, 20_000.0)
"""Mean size of packets."""
FACTORS: Mapping[Unit, float] = {"bytes": 1.0, "words": 4.0, "bits": 0.125}
RIVALS: Mapping[Unit, Unit] = {"words": "bytes", "bytes": "bits", "bits": "bytes"}
HOUR_NS = 3_600_000_000_000
HOW_UNIT = "export counters of bytes, or correct the rates of links in the topology"
HOW_FORM = (
    "name --form cumulative or --form differences; counters of 64 bits (ifHCInOctets) leave no"
    " doubt"
)


@dataclass(frozen=True)
class Placed:
    """A counter of a port, the endpoint that it belongs to, and the rate of its link [bit/s]."""

    code: int
    limit_bps: float
    port: PortReadings


def decided(given: Sequence[Placed], form: Form | None) -> tuple[Form, list[Placed], list[str]]:
    """The form of all counters, one counter in bytes for each port, and remarks.

    ``form`` is what the input says of it.

    Raises
    ------
    UserError : several answers are consistent, or none is.
    """
    remarks: Counter[str] = Counter()
    ports = [
        Placed(one.code, one.limit_bps if one.limit_bps > 0 else FASTEST_BPS,
               _without_clock_change(one.port, remarks))
        for one in given
    ]  # fmt: skip
    known, ports = _form_of(ports, form, remarks)
    units = [(own, _unit_of(own, known, remarks)) for own in _by_counter(ports)]
    ports = [_scaled(one, unit) for own, unit in units for one in own]
    chosen = _one_each(ports, known, remarks)
    return known, chosen, [f"{text} ({count} ports)" for text, count in remarks.items()]


def _without_clock_change(port: PortReadings, remarks: Counter[str]) -> PortReadings:
    """The same port on a clock without the hour that local clocks repeat in autumn."""
    gap_ns = np.diff(port.time_ns)
    back = np.flatnonzero(gap_ns < 0)
    if port.has_zone or back.size != 1 or gap_ns.size < FEW_CHANGES:
        return port
    usual = float(np.median(gap_ns[gap_ns > 0]))
    if not -HOUR_NS <= gap_ns[back[0]] < min(-HOUR_NS + HOLE_INTERVALS * usual, 0):
        return port
    later = port.time_ns + HOUR_NS * (np.arange(port.time_ns.size) > back[0])
    sorted_values = port.values[IN][np.argsort(port.time_ns, kind="stable")]
    if np.mean(np.diff(sorted_values) < 0) <= HARDLY:
        return port
    remarks[
        "times are local, and the clock went back by an hour: readings after it are an hour later"
    ] += 1
    return replace(port, time_ns=later)


def _series(one: Placed) -> Iterator[tuple[Ints, Floats]]:
    """Values of each direction in order of time, and what the link carries between them [bytes]."""
    order = np.argsort(one.port.time_ns, kind="stable")
    gap_ns = np.diff(one.port.time_ns[order]).astype(np.float64)
    for name in (IN, OUT):
        yield one.port.values[name][order], one.limit_bps / 8e9 * gap_ns


def _by_counter(ports: Sequence[Placed]) -> list[list[Placed]]:
    found: dict[tuple[str, Unit], list[Placed]] = {}
    for one in ports:
        found.setdefault((one.port.counter, one.port.unit), []).append(one)
    return [*found.values()]


def _form_of(
    ports: list[Placed], given: Form | None, remarks: Counter[str]
) -> tuple[Form, list[Placed]]:
    """Whether counters are cumulative, and the ports with the counters of that form."""
    if given is not None:
        return given, ports
    forms: dict[Form, list[Placed]] = {}
    refused: list[tuple[UserError, list[Placed]]] = []
    for own in _by_counter(ports):
        try:
            forms.setdefault(_form_of_one(own), []).extend(own)
        except UserError as error:
            refused.append((error, own))
    if not ports:
        return "cumulative", []
    if not forms:
        raise UserError([problem for why, _ in refused for problem in why.problems])
    form: Form = "cumulative" if "cumulative" in forms else "differences"
    for why, own in refused:
        remarks[f"{own[0].port.counter!r} is not read: {why.problems[0].what}"] += len(own)
    return form, forms[form]


def _form_of_one(ports: Sequence[Placed]) -> Form:
    """The form of one counter at all of its ports.

    Raises
    ------
    UserError : several forms are consistent, or none is.
    """
    seen: Counter[str] = Counter()
    top, factors = 0, []
    for one in ports:
        for values, room in _series(one):
            seen += _evidence(values, OVER_LINK * room)
            top = max(top, int(values.max(initial=0)), WORD * int(values.min(initial=0) < 0))
            factors += [float(np.median(room)) * 8 / one.limit_bps] if room.size else []
    falls = seen["falls"] / max(seen["changes"], 1)
    if seen["falls"] <= HARDLY * seen["changes"] + 1 + len(ports) / 10:
        return "cumulative"
    found: list[tuple[Form, str]] = []
    if FULL * WORD <= top < WORD and seen["too large a wrap"] <= FITS * seen["falls"]:
        found.append(("cumulative", "counters of 32 bits that wrap"))
    elif not FULL * WORD <= top < WORD and falls <= SELDOM:
        found.append(("cumulative", "counters that are reset"))
    if falls >= FALLS_OF_TRAFFIC and seen["too large"] <= FITS * seen["readings"]:
        found.append(("differences", "differences since the last reading"))
        gap_s = float(np.median(factors))
        is_near = 1 / NEAR_A_SECOND < gap_s < NEAR_A_SECOND
        if len(found) == 1 and not is_near and _are_rates(ports, gap_s):
            found.append(("differences", "rates a second"))
    if len(found) == 1:
        return found[0][0]
    share = f"{percent(falls, 0)} of the changes are falls"
    if found:
        texts = " and ".join(text for _, text in found)
        raise UserError(Problem(f"these values can be {texts} ({share})", "", HOW_FORM))
    over = percent(seen["too large"] / max(seen["readings"], 1), 0)
    what = (
        "these values are neither counters nor differences nor rates of bytes in one unit:"
        f" {share}, and as differences {over} of them are more than their links carry"
    )
    raise UserError(Problem(what, "", HOW_UNIT))


def _evidence(values: Ints, most: Floats) -> Counter[str]:
    """Changes of one series, and what contradicts its forms, if a link carries ``most`` bytes."""
    steps = np.diff(values)
    falls = (steps < 0) & ~((values[:-1] < 0) & (values[1:] >= 0))
    over = (values[1:] < 0) | (_over_few(values[1:]) > _over_few(most))
    counts = {"falls": falls, "changes": steps != 0, "too large": over, "readings": steps < WORD**2}
    counts["too large a wrap"] = falls & (steps + WORD > most)
    return Counter({name: int(np.count_nonzero(which)) for name, which in counts.items()})


def _are_rates(ports: Sequence[Placed], gap_s: float) -> bool:
    """Whether what links carry allows the values to be bytes a second."""
    over = [
        _over_few(values[1:] * gap_s) > _over_few(OVER_LINK * room)
        for one in ports
        for values, room in _series(one)
    ]
    return bool(np.concatenate(over).mean() <= FITS)


def _over_few(values: Any) -> Floats:
    """Running sums over several intervals: a refresh may deliver what all of them moved."""
    width = min(round(HOLE_INTERVALS), values.size)
    sums: Floats = values.astype(np.float64)
    return np.convolve(sums, np.ones(width), "same") if width else sums


def _unit_of(ports: Sequence[Placed], form: Form, remarks: Counter[str]) -> Unit:
    """The unit of one counter at all ports."""
    named = ports[0].port.unit
    rival = RIVALS[named]
    fits = {unit: _fits(ports, form, FACTORS[unit]) for unit in (named, rival)}
    counter = ports[0].port.counter or "bytes"
    if fits[named]:
        if named != "bytes":
            remarks[f"{counter!r} counts {_named(named)}: it is converted to bytes"] += len(ports)
        return named
    if fits[rival] and named == "words":
        remarks[f"{counter!r} counts bytes: as {_named(named)} it would not fit its links"] += len(
            ports
        )
        return rival
    readings = f"as {_named(rival)} it would fit" if fits[rival] else f"nor as {_named(rival)}"
    what = f"{counter!r} does not fit the links (or the packets) as {_named(named)}; {readings}"
    raise UserError(Problem(what, "", HOW_UNIT))


def _named(unit: Unit) -> str:
    return {"words": "words of 4 bytes", "bytes": "bytes", "bits": "bits"}[unit]


def _fits(ports: Sequence[Placed], form: Form, factor: float) -> bool:
    """Whether nearly all of what was moved fits the links, and packets have a size of packets."""
    over = total = 0
    sizes = []
    for one in ports:
        for values, room in _series(one):
            steps = _moved(values, form)
            few = _over_few(steps)
            over += int((few * factor > _over_few(OVER_LINK * room)).sum())
            total += int((few > 0).sum())
        for bytes_name, packets_name in ((IN, "in_packets"), (OUT, "out_packets")):
            if packets_name in one.port.values and one.port.unit == "words":
                packets = _moved(one.port.values[packets_name], form).sum()
                if packets >= FEW_CHANGES:
                    size = _moved(one.port.values[bytes_name], form).sum() * factor / packets
                    sizes.append(float(size))
    low, high = PACKET_BYTES
    is_packet = not sizes or low <= float(np.median(sizes)) <= high
    return over <= SELDOM * total and is_packet


def _moved(values: Ints, form: Form) -> Floats:
    """What was counted between readings, without falls."""
    steps = values[1:] if form == "differences" else np.diff(values)
    return np.maximum(steps, 0).astype(np.float64)


def _scaled(one: Placed, unit: Unit) -> Placed:
    if unit == "bytes":
        return one
    values = dict(one.port.values)
    for name in (IN, OUT):
        values[name] = values[name] * 4 if unit == "words" else values[name] // 8
    return replace(one, port=replace(one.port, values=values, unit="bytes"))


def _one_each(ports: Sequence[Placed], form: Form, remarks: Counter[str]) -> list[Placed]:
    """Of each port the counter that counted most."""
    by_name: dict[str, list[Placed]] = {}
    for one in ports:
        by_name.setdefault(one.port.port, []).append(one)
    chosen = []
    for several in by_name.values():
        most = max(several, key=lambda one: sum(_moved(v, form).sum() for v, _ in _series(one)))
        if len(several) > 1:
            others = ", ".join(repr(one.port.counter) for one in several if one is not most)
            remarks[f"{most.port.counter!r} counted most, and is read in place of {others}"] += 1
        chosen.append(most)
    return chosen

"""What each stage of a diagnosis can do with flow records, and which setting would allow more.

A stage is judged by figures alone (:mod:`llmprism.check.facts`). A figure that decides is shown,
and a setting is named with the value that would do.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from llmprism.check.facts import COVERED, Facts
from llmprism.io.screening import TOO_FAST
from prism_common.quantities import duration, percent

CAN, PARTLY, CANNOT = "can", "partly", "cannot"
_FINE = 100  # ticks or idle gaps in a step, for its length to about 1 %
_COARSE = 10  # idle gaps in a step, for its parts to show at all
_TICKS = 2  # in a step, for it to have a length
_SHARE = 0.5
_STRAY = 0.01  # of the bytes: mail, file systems, and what NVLink does not carry
_FEW_STEPS = 10  # to compare a slow part with


@dataclass(frozen=True)
class Stage:
    """What one stage can do: ``can``, ``partly`` or ``cannot``, the figures, what would mend it."""

    stage: str
    answer: str
    figures: str
    mend: str = ""


def stages(facts: Facts) -> Iterator[Stage]:
    """Yield what each stage can do with the records."""
    yield _jobs(facts)
    yield _kinds(facts)
    yield _layouts(facts)
    yield _steps(facts)
    yield _messages(facts)
    yield _ranks(facts)
    yield _rates(facts)
    yield _paths(facts)
    yield _connections(facts)
    yield _loads(facts)
    if facts.domains:
        yield _inside_domains(facts)
    if facts.port_leaves:
        yield _ports_of_nics(facts)


def _jobs(facts: Facts) -> Stage:
    figures = [f"{facts.records:,} of {facts.rows:,} records", _count(facts.jobs, "job") + " found"]
    figures += [f"{count:,} set aside: {why}" for why, count in facts.set_aside.items()]
    if facts.jobs:
        return Stage("jobs and pairs", CAN, "; ".join(figures))
    mend = "record longer, or at the switches of the training servers"
    if facts.rows and not facts.records:
        mend = "give a --topology with the addresses that flows have"
        if TOO_FAST in facts.set_aside:
            mend = "write times in ns: llmprism ingest --time-unit UNIT converts them"
    return Stage("jobs and pairs", CANNOT, "; ".join(figures), mend)


def _count(number: int, what: str) -> str:
    return f"{number:,} {what}{'' if number == 1 else 's'}"


def _kinds(facts: Facts) -> Stage:
    figures = f"{facts.known_pairs:,} of {facts.pairs:,} pairs have a kind"
    if not facts.known_pairs:
        return Stage(
            "kinds of traffic", CANNOT, figures, "as for steps: kinds show in what repeats"
        )
    if facts.with_ports <= _SHARE:
        mend = "add both ports to the exporter's flow key: kinds share a pair of addresses"
        return Stage("kinds of traffic", PARTLY, f"{figures}; {_ports(facts)}", mend)
    answer = CAN if facts.known_pairs == facts.pairs else PARTLY
    return Stage("kinds of traffic", answer, figures)


def _layouts(facts: Facts) -> Stage:
    """Judge layouts as the diagnosis does; but a sampled packet has its own size, no message's."""
    if facts.sampling > 1 and not facts.record_ns:
        figures = f"sampled 1:{facts.sampling}: sizes show the MTU, not the message"
        return Stage("layouts", CANNOT, figures, _unsampled(facts))
    figures = f"{facts.sure_layouts:,} of {_count(facts.jobs, 'job')} with confidence 50 % or more"
    if facts.jobs and facts.sure_layouts == facts.jobs:
        return Stage("layouts", CAN, figures)
    mend = _unsampled(facts) if facts.sampling > 1 else "as for steps, and record longer"
    return Stage("layouts", PARTLY if facts.layouts else CANNOT, figures, mend)


def _unsampled(facts: Facts) -> str:
    return f"export every packet of these hosts (sampling 1:1 instead of 1:{facts.sampling})"


def _steps(facts: Facts) -> Stage:
    figures = [
        f"clock tick {duration(facts.tick_ns)}",
        f"half of the bytes in records of {duration(facts.record_ns)} or longer",
    ]
    mends = list(_steps_mends(facts))
    if facts.sampling > 1:
        figures.append(f"sampled 1:{facts.sampling}")
    if facts.step_ns is None:
        figures += [f"records cover {percent(facts.covered)} of the time", "no step found"]
        if not mends:
            figures.append(f"{duration(facts.span_ns)} recorded")
            mends = ["record at least ten steps; llmprism on the same files gives the reasons"]
        return Stage("steps", CANNOT, ", ".join(figures), "; ".join(mends))
    figures.insert(0, f"step {duration(facts.step_ns)}")
    if facts.jobs_with_steps < facts.jobs:
        figures.append(f"in {facts.jobs_with_steps} of {facts.jobs} jobs")
    if mends:
        answer = CANNOT if _hides_steps(facts) else PARTLY
        return Stage("steps", answer, ", ".join(figures), "; ".join(mends))
    error = max(facts.tick_ns, 1) / facts.step_ns
    figures.append(f"error of a step from the clock up to {percent(error)}")
    is_fine = error * _FINE <= 1 and facts.jobs_with_steps == facts.jobs
    wanted = f"times in {duration(facts.step_ns / _FINE)} or finer" if error * _FINE > 1 else ""
    return Stage("steps", CAN if is_fine else PARTLY, ", ".join(figures), wanted)


def _hides_steps(facts: Facts) -> bool:
    """Return whether the records are too long or their clock too coarse for the steps found."""
    step = facts.step_ns or 0.0
    return facts.record_ns >= step or facts.tick_ns * _TICKS > step


def _steps_mends(facts: Facts) -> Iterator[str]:
    """Yield the settings that keep steps from showing, or from being right."""
    step = facts.step_ns
    if facts.sampling > 1:
        yield _unsampled(facts)
    if step is not None and facts.tick_ns * _TICKS > step:
        finer = duration(max(step / _FINE, 1))
        yield f"times in {finer} or finer (IPFIX fields 152/153 are in ms, 156/157 in ns)"
    elif step is None and facts.tick_ns >= 1e9:
        yield "times in ms or finer (IPFIX fields 152/153 are in ms, 156/157 in ns)"
    if step is not None and (facts.idle_gap_ns or 0) > step:
        found = duration(facts.idle_gap_ns)
        yield f"an idle (inactive) timeout of {duration(step / _FINE)} instead of {found}"
    elif step is not None and facts.record_ns > step:
        yield f"idle and active timeouts below {duration(step / _COARSE)}"
    elif step is None and facts.covered > COVERED:
        gap = f" instead of {duration(facts.idle_gap_ns)}" if facts.idle_gap_ns else ""
        yield f"an idle timeout of a few ms{gap}: between bursts there must be silence"


def _messages(facts: Facts) -> Stage:
    name = "micro-batches"
    if facts.idle_gap_ns is None:
        mend = "tell how records are cut: ingest packets, or a table with idle_gap_ns in its notes"
        return Stage(name, PARTLY, "the idle gap is not known, and too few records show it", mend)
    about = "about " if facts.is_gap_measured else ""
    gap = f"idle gap {about}{duration(facts.idle_gap_ns)}"
    if facts.step_ns is None:
        return Stage(name, CANNOT, f"{gap}, no step found", "as for steps")
    per_step = facts.step_ns / max(facts.idle_gap_ns, 1)
    answer = CAN if per_step >= _FINE else PARTLY if per_step >= _COARSE else CANNOT
    wanted = f"an idle (inactive) timeout of {duration(facts.step_ns / _FINE)} or less"
    figures = f"{gap}, {per_step:,.0f} in a step, {facts.pipelines} pairs of pipelines"
    return Stage(name, answer, figures, "" if answer == CAN else wanted)


def _ranks(facts: Facts) -> Stage:
    """Judge slow ranks: they are late by a part of a step, on clocks that must agree on it."""
    name = "slow ranks"
    if facts.step_ns is None:
        return Stage(name, CANNOT, "no step found", "as for steps")
    steps = f"{facts.steps:,} steps"
    if facts.steps < _FEW_STEPS:
        return Stage(name, PARTLY, steps, f"record at least {_FEW_STEPS} steps")
    if facts.clock_error_ns is None:
        figures = f"{steps}, nothing shows whether clocks of switches agree"
        mend = f"make sure that they do, within {duration(facts.step_ns / _FINE)} (PTP)"
        return Stage(name, CAN, figures, mend)
    share = facts.clock_error_ns / facts.step_ns
    where = f"{_count(facts.clock_pairs, 'pair')} of hosts" if facts.clock_pairs else "switches"
    figures = f"{steps}, clocks of {where} differ by up to {duration(facts.clock_error_ns)}"
    figures += f", {percent(share)} of a step"
    if share * _FINE <= 1:
        return Stage(name, CAN, figures)
    mend = f"synchronise the switches' clocks within {duration(facts.step_ns / _FINE)} (PTP)"
    return Stage(name, PARTLY if share * _COARSE <= 1 else CANNOT, figures, mend)


def _rates(facts: Facts) -> Stage:
    """Judge slow NICs and links: a rate needs a record that lasts many ticks."""
    name = "slow NIC or link"
    figures = f"a record lasts {duration(facts.record_ns)}, clock tick {duration(facts.tick_ns)}"
    if not facts.record_ns:
        mend = "export first and last packet of each flow"
        return Stage(name, CANNOT, figures, _unsampled(facts) if facts.sampling > 1 else mend)
    if facts.step_ns is None:
        return Stage(name, CANNOT, f"{figures}, no step found", "as for steps")
    if facts.record_ns >= _FINE * facts.tick_ns:
        return Stage(name, CAN, figures)
    answer = PARTLY if facts.record_ns >= _COARSE * facts.tick_ns else CANNOT
    wanted = duration(max(facts.record_ns / _FINE, 1))
    return Stage(name, answer, figures, f"times in {wanted} or finer")


def _paths(facts: Facts) -> Stage:
    has = facts.with_path > _SHARE
    figures = f"{percent(facts.with_path)} of the records have a path"
    mend = "" if has else "export at leaves and spines, and ingest all of them together"
    return Stage("slow switch or link", CAN if has else CANNOT, figures, mend)


def _connections(facts: Facts) -> Stage:
    has = facts.with_ports > _SHARE
    mend = "" if has else "add both ports to the exporter's flow key"
    return Stage("parallel connections", CAN if has else CANNOT, _ports(facts), mend)


def _ports(facts: Facts) -> str:
    return f"{percent(facts.with_ports)} of the records have ports"


def _inside_domains(facts: Facts) -> Stage:
    name = "groups in NVLink domains"
    servers = f"{_count(facts.domain_servers, 'server')} share {_count(facts.domains, 'domain')}"
    if facts.inside_domains > _STRAY:
        figures = f"{servers}; {percent(facts.inside_domains)} of the bytes are inside of them"
        mend = "correct the domains in --topology: what NVLink carries leaves no record"
        return Stage(name, PARTLY, figures, mend)
    figures = f"{servers}; what their GPUs exchange leaves no record"
    return Stage(name, CANNOT, figures, "read the NVLink counters of GPUs, beside flows")


def _ports_of_nics(facts: Facts) -> Stage:
    name = "all ports of NICs"
    if facts.seen_leaves is None:
        mend = "ingest records of all leaves together, with the names of the leaves"
        return Stage(name, PARTLY, "no record tells the leaf that it was seen at", mend)
    figures = f"{facts.seen_leaves:,} of {facts.port_leaves:,} ports of senders are seen"
    if facts.seen_leaves == facts.port_leaves:
        return Stage(name, CAN, figures)
    mend = "export at all leaves: each sees a part of what a NIC sends (or a port is down)"
    return Stage(name, PARTLY, figures, mend)


def _loads(facts: Facts) -> Stage:
    has = facts.has_rates
    figures = "link rates are known" if has else "no link rate is known"
    mend = "" if has else "give --topology with Gbit/s"
    return Stage("load of links", CAN if has else CANNOT, figures, mend)

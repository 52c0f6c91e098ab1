"""The command line: ``prism-sim``.

Results go to stdout, progress and messages to stderr. Commands import their dependencies when
they run, so that ``--help`` is fast.
"""

from __future__ import annotations

import signal
import sys
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from llmprism.defaults import MEMORY_LIMIT_GIB, METHOD, TIME_LIMIT_S
from llmprism.options import MemoryLimit, TimeLimit
from prism_common.command import new_app
from prism_common.program import run_program
from prism_sim.commands.bounds import Bound, check_bounds, parse_bound
from prism_sim.commands.command import Command, Group
from prism_sim.commands.comparing import compare, corpus, scoreboard
from prism_sim.commands.costing import whatif
from prism_sim.commands.exporting import export
from prism_sim.commands.operating import operate
from prism_sim.commands.options import (
    FailUnder,
    Live,
    Method,
    NoReport,
    Out,
    RunFolder,
    ScenarioName,
    Seed,
    Settings,
    Speed,
    folder_name,
    out_folder,
)
from prism_sim.commands.regressing import regress
from prism_sim.commands.schemas import schema
from prism_sim.commands.session import BELOW, CANNOT_TELL, WRONG, Session, in_session
from prism_sim.commands.sweeping import sweep

if TYPE_CHECKING:
    from llmprism.diagnosis import Diagnosis
    from prism_sim.loading.scenario import Scenario
    from prism_sim.run_folder import Run
    from prism_sim.score import Score

HELP = """Simulate LLM training clusters, see them as flow records, and score the diagnosis.

Start with: prism-sim run tiny/quickstart

Results go to stdout, progress and messages to stderr. Exit codes: 0 success; 1 the scenario or
the data is wrong; 2 wrong usage; 3 a figure of the score misses its bound; 4 the records do
not suffice for a diagnosis; 130 interrupted.
"""

_SEABORN = ("seaborn", "scipy.stats", "scipy.cluster", "scipy.spatial")
_COMPILER = ("numba.np.arraymath", "scipy.linalg")
app = new_app(cls=Group, help=HELP, no_args_is_help=True)


def _bounds(texts: list[str]) -> list[Bound]:
    try:
        return [parse_bound(text) for text in texts]
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint="--fail-under") from None


def _register(example: str, name: str | None = None) -> Callable[[Callable[..., None]], Any]:
    """Register a command with a session, whose help ends with an ``example``."""
    register = app.command(name, cls=Command, epilog=f"Example: prism-sim {example}")
    return lambda work: register(in_session(work))


@app.callback()
def _options(
    version: Annotated[bool, typer.Option("--version", help="Print the version and exit.")] = False,
) -> None:
    """Options of the program; :class:`Group` answers ``--version``."""


@_register("run tiny/quickstart --seed 7 --set jobs.0.dp=4")
def run(
    session: Session,
    scenario: ScenarioName,
    fail_under: FailUnder,
    settings: Settings,
    method: Method = METHOD,
    time_limit: TimeLimit = TIME_LIMIT_S,
    memory_limit: MemoryLimit = MEMORY_LIMIT_GIB,
    seed: Seed = None,
    out: Out = None,
    no_report: NoReport = False,
    live: Live = False,
    speed: Speed = 1.0,
) -> None:
    """Simulate a scenario, diagnose its flows, score and report."""
    bounds = _bounds(fail_under)
    from llmprism.isolation.runner import Limits
    from prism_sim.commands import stages
    from prism_sim.products import exclusive

    limits = Limits.of(time_limit, memory_limit)
    check_bounds(bounds)
    _import_without(*_COMPILER)
    stages.note_compilation(session)
    stages.check_method(method)
    loaded = _load(session, scenario, settings, seed)
    made = _run_of(loaded, _out(scenario, out, settings, seed))
    files = {"run": str(made.folder)}
    with exclusive(made.folder):
        stages.simulate(session, loaded, made, _invocation())
        if live:
            from prism_sim.commands.live import show_live

            raise typer.Exit(show_live(session, made, speed, method))
        diagnosis = stages.diagnose(
            session, made.flows, made.topology, method, made.diagnosis_folder, limits
        )
        score = stages.score(session, made)
        if not no_report:
            _import_without(*_SEABORN)
            stages.report(session, made)
            files["report"] = str(made.report)
    _show_score(session, score, files, bounds, diagnosis)


@_register("simulate tiny/pair --out capture")
def simulate(
    session: Session,
    scenario: ScenarioName,
    settings: Settings,
    seed: Seed = None,
    out: Out = None,
) -> None:
    """Simulate a scenario: flows, topology and truth."""
    from prism_sim.commands import stages

    _import_without(*_COMPILER)
    stages.note_compilation(session)
    loaded = _load(session, scenario, settings, seed)
    made = _run_of(loaded, _out(scenario, out, settings, seed))
    stages.simulate(session, loaded, made, _invocation())
    manifest = made.read_json(made.manifest)
    facts = {"run": str(made.folder), "flows": str(made.flows)}
    facts |= {key: manifest[key] for key in ("records", "simulated_ns") if key in manifest}
    session.facts(facts)


@_register("logs logs/demo --seed 7 --set logs.failures=300")
def logs(
    session: Session,
    scenario: ScenarioName,
    settings: Settings,
    seed: Seed = None,
    out: Out = None,
) -> None:
    """Write logs of drawn jobs, with their truth, without flows."""
    from prism_sim.commands import stages

    loaded = _load(session, scenario, settings, seed)
    made = _run_of(loaded, out)
    stages.logs(session, loaded, made, _invocation())
    written = made.read_json(made.manifest)["logs"]
    session.facts({"run": str(made.folder), "logs": str(made.logs), **written})


@_register("diagnose results/pair/0 --method paper")
def diagnose(
    session: Session,
    flows: Annotated[
        Path, typer.Argument(metavar="RUN", help="The folder of a run, or a flow table, Parquet.")
    ],
    topology: Annotated[
        Path | None,
        typer.Option("--topology", metavar="FILE", help="Topology, JSON. Default: that of RUN."),
    ] = None,
    method: Method = METHOD,
    time_limit: TimeLimit = TIME_LIMIT_S,
    memory_limit: MemoryLimit = MEMORY_LIMIT_GIB,
    out: Annotated[
        Path | None, out_folder("Folder to write. Default: diagnosis, beside the flows.")
    ] = None,
) -> None:
    """Diagnose flow records, of a run or of your own."""
    from llmprism.isolation.runner import Limits
    from llmprism.terminal import spelled
    from prism_common.escapes import printable
    from prism_sim.commands import stages
    from prism_sim.commands.listing import summary_lines

    stages.check_method(method)
    if flows.is_dir():
        made = stages.existing(flows)
        flows, topology = made.flows, topology or made.topology
    if topology is None:
        raise typer.BadParameter("name the topology of these flows", param_hint="--topology")
    folder = out or flows.parent / "diagnosis"
    limits = Limits.of(time_limit, memory_limit)
    diagnosis = stages.diagnose(session, flows, topology, method, folder, limits)
    summary = {"diagnosis": str(folder), **diagnosis.summary()}
    lines = [*summary_lines(summary), *spelled(diagnosis, topology), *summary["conclusion"]]
    session.result(summary, *map(printable, lines))
    _end_with_verdict(session, diagnosis)


@_register("score results/pair/0 --fail-under jobs.accuracy=1")
def score(
    session: Session,
    run_folder: RunFolder,
    fail_under: FailUnder,
    tables: Annotated[
        Path | None,
        typer.Option(
            "--tables",
            metavar="FOLDER",
            parser=folder_name,
            help="Tables of a diagnosis that another program made; they replace that of the run.",
        ),
    ] = None,
) -> None:
    """Compare the diagnosis of a run with its truth."""
    bounds = _bounds(fail_under)
    from prism_sim.commands import stages

    check_bounds(bounds)
    made = stages.existing(run_folder)
    if tables is not None:
        stages.adopt_tables(session, made, tables)
    result = stages.score(session, made)
    _show_score(session, result, {"run": str(made.folder)}, bounds)


@_register("report results/pair/0")
def report(
    session: Session,
    run_folder: RunFolder,
) -> None:
    """Draw the figures of a run; write report and trace."""
    from prism_sim.commands import stages

    made = stages.existing(run_folder)
    _import_without(*_SEABORN)
    stages.report(session, made)
    facts = {"report": str(made.report), "trace": str(made.trace)}
    session.facts(facts)


@_register("validate mine.yaml --set cluster.servers=32")
def validate(
    session: Session,
    scenarios: Annotated[
        list[str], typer.Argument(metavar="SCENARIO...", help="Files or bundled names.")
    ],
    settings: Settings,
) -> None:
    """Check scenarios and list their errors."""
    from prism_sim.commands.validating import verdict

    verdicts = [verdict(name, settings) for name in scenarios]
    session.result(
        {"scenarios": [one.as_data() for one in verdicts]}, *(one.line() for one in verdicts)
    )
    for one in verdicts:
        session.warn(one.warnings)
        session.complain(one.problems)
    if any(one.problems for one in verdicts):
        raise SystemExit(WRONG)


@_register("new mine && prism-sim run mine.yaml")
def new(
    session: Session,
    name: Annotated[str, typer.Argument(metavar="NAME", help="The file; .yaml is added.")],
    method: Annotated[
        bool, typer.Option("--method", help="Write a package with a method of diagnosis instead.")
    ] = False,
    force: Annotated[bool, typer.Option("--force", help="Replace the files.")] = False,
) -> None:
    """Write a commented scenario to start from, or the package of a method."""
    from prism_sim.commands.new import write_method, write_new

    if method:
        folder = write_method(name, force)
        session.result({"method": str(folder)}, str(folder))
        session.note(f"install it with: pip install -e {folder}")
        return
    path = write_new(name, force)
    session.result({"scenario": str(path)}, str(path))
    session.note(f"run it with: prism-sim run {path}")


@_register("list figures", name="list")
def list_things(
    session: Session,
    topic: Annotated[
        str | None,
        typer.Argument(metavar="[TOPIC]", help="One section, such as figures. Default: all."),
    ] = None,
) -> None:
    """List scenarios, studies, presets, faults, schedules, methods, figures."""
    from prism_sim.commands.listing import listing

    data, text = listing(topic)
    session.result(data, text)


_register("export results/pair/0 --format ipfix")(export)
app.command(cls=Command, epilog="Example: prism-sim schema study > study.schema.json")(schema)
_register("whatif tiny/quickstart --set cluster.nic_gbps=200")(whatif)
_register("sweep studies/uplink-capacity --processes 4")(sweep)
_register("compare -m prism -m paper --scenario tiny/quickstart --seeds 3")(compare)
_register("scoreboard --family replicas --worlds 3")(scoreboard)
_register("corpus --family replicas --worlds 3 --out corpus")(corpus)
_register("regress --junit results.xml")(regress)
_register("operate operations/what-diagnosis-brings")(operate)


def main() -> None:
    """Entry point of ``prism-sim``."""
    signal.signal(signal.SIGTERM, _terminate)
    run_program(lambda: app(prog_name="prism-sim"))


def _terminate(*_: Any) -> None:
    """Raise an exception, so that half-written files are deleted."""
    raise SystemExit(128 + signal.SIGTERM)


def _invocation() -> list[str]:
    return ["prism-sim", *sys.argv[1:]]


def _load(session: Session, scenario: str, settings: list[str], seed: int | None) -> Scenario:
    from prism_sim.loading.bundled import find
    from prism_sim.loading.loader import load_with_warnings, parse_override

    overrides = dict(parse_override(text) for text in settings)
    if seed is not None:
        overrides["seed"] = seed
    loaded = load_with_warnings(find(scenario), overrides)
    session.warn(loaded.warnings)
    return loaded.scenario


def _out(scenario: str, out: Path | None, settings: list[str], seed: int | None) -> Path | None:
    """The folder to write; that of a run whose scenario is simulated again as it is."""
    is_run = Path(scenario).is_dir() and out is None and not settings and seed is None
    return Path(scenario) if is_run else out


def _run_of(scenario: Scenario, out: Path | None) -> Run:
    from prism_sim.run_folder import Run

    return Run.default(scenario.name, scenario.seed, out)


def _import_without(name: str, *unused: str) -> None:
    """Import a module without parts of scipy that no command needs: they take a second.

    Seaborn's own replacement estimates densities then, and it draws no clusters; numba compiles
    ``np.inner`` without BLAS. A program of a user is left alone.
    """
    if not {name, *unused} & sys.modules.keys():
        hidden: dict[str, Any] = sys.modules
        hidden |= dict.fromkeys(unused)
        try:
            import_module(name)
        finally:
            for part in unused:
                del hidden[part]


def _show_score(
    session: Session,
    score: Score,
    files: dict[str, str],
    bounds: list[Bound],
    diagnosis: Diagnosis | None = None,
) -> None:
    """Print the score and the files; exit 3 if a bound is missed, 4 if no job could be judged."""
    from prism_sim.render.table import score_table

    lines = [f"{key}: {path}" for key, path in files.items()]
    verdict = {"verdict": diagnosis.verdict.as_dict()} if diagnosis else {}
    words = _in_words(diagnosis, Path(files["run"])) if diagnosis else []
    content = {**files, **verdict, "score": score.to_json()}
    session.result(content, score_table(score), *words, *lines)
    missed = [reason for bound in bounds if (reason := bound.missed_by(score))]
    for reason in missed:
        print(f"below what was asked: {reason}", file=sys.stderr)
    if missed:
        raise SystemExit(BELOW)
    if diagnosis:
        _end_with_verdict(session, diagnosis)


def _in_words(diagnosis: Diagnosis, folder: Path) -> list[str]:
    """What was found, and what else was judged; names in it may be of others."""
    from llmprism.terminal import spelled
    from prism_common.escapes import printable
    from prism_sim.run_folder import Run

    conclusion = diagnosis.conclusion.lines() if diagnosis.verdict.can_tell else []
    words = [*spelled(diagnosis, Run(folder).topology), *conclusion]
    return [*map(printable, words), ""] if words else []


def _end_with_verdict(session: Session, diagnosis: Diagnosis) -> None:
    """Report why records do not suffice; exit 4 if that is true of every job."""
    lines = diagnosis.verdict.lines()
    if diagnosis.verdict.can_tell:
        session.note("\n".join(lines)) if lines else None
        return
    session.complain(lines)
    raise SystemExit(CANNOT_TELL)

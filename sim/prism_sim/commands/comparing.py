"""``prism-sim compare``, ``scoreboard`` and ``corpus``: methods on worlds, and worlds as files."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from llmprism.defaults import MEMORY_LIMIT_GIB, TIME_LIMIT_S
from llmprism.options import MemoryLimit, TimeLimit
from prism_common.command import option
from prism_common.quantities import counted
from prism_sim.commands.options import Processes, folder_name, out_folder
from prism_sim.commands.session import WRONG, Session

if TYPE_CHECKING:
    from prism_sim.render.comparison import Block
    from prism_sim.studies.comparison import Comparison
    from prism_sim.studies.measuring import World


_LINE_EVERY_S = 30.0  # of progress, if stderr is not a terminal
_SIDE_BY_SIDE, _NAMES_WIDTH = 3, 22  # methods and letters of names in a table of 80 columns

Methods = Annotated[
    list[str],
    option(
        "NAME",
        "A method, or any package.module:object; may be repeated. null is always added.",
        "--method",
        "-m",
    ),
]
Worlds = Annotated[int, typer.Option("--worlds", metavar="N", min=1, help="Worlds of a family.")]
Families = Annotated[
    list[str],
    option(
        "NAME",
        "A bundled family of worlds, or its file; may be repeated. Default: all bundled ones.",
        "--family",
        default_factory=list,
        show_default=False,
    ),
]


FurtherMethods = Annotated[
    list[str],
    option(
        "NAME",
        "A further method; may be repeated.",
        "--method",
        "-m",
        default_factory=list,
        show_default=False,
    ),
]


def compare(
    session: Session,
    method: Methods,
    scenario: Annotated[
        str | None, option("SCENARIO", "A file, or a bundled scenario.", "--scenario")
    ] = None,
    suite: Annotated[Path | None, option("FILE", "A suite of scenarios, YAML.", "--suite")] = None,
    seeds: Annotated[int, option("N", "Seeds of the scenario.", "--seeds", min=1)] = 5,
    time_limit: TimeLimit = TIME_LIMIT_S,
    memory_limit: MemoryLimit = MEMORY_LIMIT_GIB,
    out: Annotated[
        Path | None, out_folder("Folder to write. Default: results/compare/NAME.")
    ] = None,
    processes: Processes = None,
) -> None:
    """Compare methods on the same worlds, with paired differences.

    Each world is simulated once and diagnosed by every method, in a process of its own without the
    truth. Differences are those from the first method, with 95 % intervals over the worlds. A
    method that crashes, hangs, takes too much memory, returns invalid tables or opens the truth
    has the reason in its row, and counts as one that finds nothing. An interrupted comparison
    continues where it stopped.
    """
    if (scenario is None) == (suite is None):
        raise typer.BadParameter("give either --scenario or --suite")
    from prism_sim.studies.comparison import worlds_of_scenario, worlds_of_suite

    if scenario is not None:
        worlds = worlds_of_scenario(scenario, seeds)
    else:
        worlds = worlds_of_suite(Path(str(suite)))
    folder = out or Path("results") / "compare" / worlds[0].group
    limits = (time_limit, memory_limit)
    title = f"Comparison on {worlds[0].group}"
    _show(session, _compared(session, worlds, method, folder, title, limits, processes))


def scoreboard(
    session: Session,
    family: Families,
    method: FurtherMethods,
    worlds: Worlds = 10,
    time_limit: TimeLimit = TIME_LIMIT_S,
    memory_limit: MemoryLimit = MEMORY_LIMIT_GIB,
    out: Annotated[Path | None, out_folder("Folder. Default: results/scoreboard.")] = None,
    processes: Processes = None,
) -> None:
    """Measure all methods on families of worlds; one page.

    The methods are prism, paper, the rivals of this package, and those of --method. An interrupted
    scoreboard continues where it stopped.
    """
    from llmprism import methods
    from prism_sim.studies.comparison import families_called, worlds_of_families

    asked = [*methods.names(), *method]
    asked.sort(key=lambda name: name != "prism")  # it is the reference
    with session.stage("draw worlds"):
        drawn = worlds_of_families(families_called(family), worlds)
    folder = out or Path("results") / "scoreboard"
    limits = (time_limit, memory_limit)
    _show(session, _compared(session, drawn, asked, folder, "Scoreboard", limits, processes))


def _compared(
    session: Session,
    worlds: list[World],
    methods: list[str],
    folder: Path,
    title: str,
    limits: tuple[float, float],
    processes: int | None,
) -> Comparison:
    from llmprism.isolation.runner import Limits
    from prism_sim.products import exclusive
    from prism_sim.studies.comparison import compare_on
    from prism_sim.studies.pool import default_processes

    at_once = processes or default_processes()
    with exclusive(folder), session.stage(counted(len(worlds), "world"), _LINE_EVERY_S) as progress:
        return compare_on(worlds, methods, folder, title, Limits.of(*limits), at_once, progress)


def _show(session: Session, found: Comparison) -> None:
    from prism_sim.render.comparison import blocks
    from prism_sim.studies.comparison import FILES

    files = {Path(name).suffix[1:]: str(found.folder / name) for name in FILES}
    lines = [f"{kind}: {path}" for kind, path in files.items()]
    narrow = [part for block in blocks(found.groups) for part in block.narrowed(_SIDE_BY_SIDE)]
    tables = [_table(block) for block in narrow]
    session.result({"files": files, "groups": found.groups}, *tables, *lines)


def _table(block: Block) -> Any:
    from rich.text import Text

    from llmprism.terminal import empty_table

    table = empty_table(title=Text(block.title), title_justify="left")
    for place, head in enumerate(block.head):
        width = _NAMES_WIDTH if place == 0 else None
        table.add_column(Text(head), overflow="fold", max_width=width)
    for name, *cells in block.rows:
        table.add_row(Text(_in_words(name)), *(Text(cell.replace(" (", "\n(")) for cell in cells))
    return table


def _in_words(figure: str) -> str:
    """The path of a figure as words, which a narrow column can break between."""
    return figure.replace(".", ": ").replace("_", " ")


# ``prism-sim corpus``: worlds of families as files, with an index and a data card.


def corpus(
    session: Session,
    family: Families,
    worlds: Worlds = 10,
    check: Annotated[
        Path | None,
        option(
            "FOLDER",
            "Make every world of a corpus again instead, and compare it bit for bit.",
            "--check",
            parser=folder_name,
        ),
    ] = None,
    out: Annotated[Path | None, out_folder("Folder to write. Default: results/corpus.")] = None,
) -> None:
    """Write worlds of families as files, flows and topology apart from the truth.

    The worlds of a family follow from their seeds, 0, 1, 2, ..., bit for bit. The index has a hash
    that names what a score was measured on. Exits 1 if --check finds a difference.
    """
    from prism_sim.studies import corpus as corpora
    from prism_sim.studies.comparison import families_called

    if check is not None:
        with session.stage("check", 30.0) as progress:
            problems = corpora.check_corpus(check, progress)
        session.facts({"corpus": str(check), "differences": len(problems)})
        session.complain(problems)
        if problems:
            raise SystemExit(WRONG)
        return
    folder = out or Path("results") / "corpus"
    found = families_called(family)
    with session.stage(counted(len(found) * worlds, "world"), 30.0) as progress:
        index = corpora.write_corpus(found, worlds, folder, progress)
    facts = {"corpus": str(folder), "hash": index["hash"], "bytes": index["bytes"]}
    session.facts({**facts, "files": len(index["files"])})

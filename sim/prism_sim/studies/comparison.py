"""A comparison of methods: its worlds, its result, and its files."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from llmprism.isolation.runner import LIMITS, Limits
from prism_common.files import replacing
from prism_sim.families import draw, read_family
from prism_sim.families.family import Family, bundled_families
from prism_sim.loading.bundled import find
from prism_sim.loading.loader import load
from prism_sim.loading.scenario import Scenario
from prism_sim.products import stage_files
from prism_sim.render.comparison import as_html, as_latex, as_markdown, as_tables
from prism_sim.render.comparison import draw as draw_figure
from prism_sim.render.paint import pdf
from prism_sim.run_folder import Run
from prism_sim.scenario.words import did_you_mean
from prism_sim.studies.measuring import World, measure, with_null
from prism_sim.studies.paired import COMPARED, compared
from prism_sim.studies.reading import known_methods
from prism_sim.studies.regression.suite import read_suite

if TYPE_CHECKING:
    import pandas as pd

STAGE = "comparison"
TABLE, ESTIMATES, MARKDOWN, PAGE, LATEX, FIGURE = FILES = (
    "comparison.parquet",
    "comparison.json",
    "comparison.md",
    "comparison.html",
    "comparison.tex",
    "comparison.pdf",
)


@dataclass(frozen=True)
class Comparison:
    """The result of a comparison.

    Attributes
    ----------
    folder : its files: a table, the estimates as JSON, a page in Markdown and in HTML, tables of
        LaTeX, and a figure at the width of a column.
    table : a row for each world and method: figures, time [s], memory [bytes], reason of a failure.
    groups : the estimates of each set or family of worlds; see :func:`~.paired.compared`.
    """

    title: str
    folder: Path
    table: pd.DataFrame = field(repr=False)
    groups: dict[str, Any] = field(repr=False)

    @property
    def markdown(self) -> str:
        """The page in Markdown."""
        return as_markdown(self.title, self.groups)

    def _repr_html_(self) -> str:
        return as_tables(self.groups)


def worlds_of_scenario(scenario: str, seeds: int) -> list[World]:
    """A scenario with so many seeds, from its own on."""
    first = load(find(scenario))
    numbers = range(first.seed, first.seed + seeds)
    return [World(first.name, load(find(scenario), {"seed": seed})) for seed in numbers]


def worlds_of_suite(path: Path) -> list[World]:
    """Every scenario of a suite, in the form of those of the regression, with its seeds."""
    return [World(path.stem, case.scenario, case.name) for case in read_suite(path)]


def worlds_of_families(families: Iterable[Family], count: int) -> list[World]:
    """The first ``count`` worlds of each family."""
    return [
        World(family.name, Scenario.model_validate(draw(family, seed)))
        for family in families
        for seed in range(count)
    ]


def families_called(names: Sequence[str]) -> list[Family]:
    """Families by their names, or the paths of their files; all bundled ones without names.

    Raises
    ------
    UserError : there is no such family.
    """
    from prism_common.errors import Problem, UserError

    known = bundled_families()
    found = []
    for name in names or [*known]:
        if name not in known and not Path(name).is_file():
            what = f"there is no family {name!r}, and no file"
            raise UserError(Problem(what, "--family", did_you_mean(name, [*known])))
        found.append(known[name] if name in known else read_family(Path(name)))
    return found


def compare_on(
    worlds: Sequence[World],
    methods: Sequence[str],
    folder: Path,
    title: str,
    limits: Limits = LIMITS,
    processes: int = 1,
    progress: Callable[[float, str], None] | None = None,
) -> Comparison:
    """Measure ``methods`` on ``worlds``, and write the table and the pages into ``folder``.

    Differences are those from the first method. The null method is always measured.

    Raises
    ------
    UserError : a method is unknown, or a world could not be simulated.
    """
    known_methods(methods)
    asked = with_null(methods)
    table = measure(worlds, asked, folder, limits, processes, progress)
    groups = {
        str(group): compared(rows, asked[0], COMPARED)
        for group, rows in table.groupby("group", sort=False)
    }
    found = Comparison(title, folder, table, groups)
    with stage_files(folder, STAGE) as aside:
        with replacing(aside / TABLE) as partial:
            table.to_parquet(partial, index=False)
        Run(aside).write_json(aside / ESTIMATES, groups)
        (aside / MARKDOWN).write_text(found.markdown, encoding="utf-8")
        (aside / PAGE).write_text(as_html(title, groups), encoding="utf-8")
        (aside / LATEX).write_text(as_latex(groups), encoding="utf-8")
        with replacing(aside / FIGURE) as partial:
            partial.write_bytes(pdf([draw_figure(group) for group in groups.values()]))
    return found

"""The gate is a gate: small defects turn it red, one at a time, and harmless changes do not.

Every change is made in a copy of the sources, and the command runs there as a user runs it. A
defect of the diagnoser changes what its public function returns, so it does not depend on the
inside of a method.
"""

from __future__ import annotations

import ast
import json
import os
import re
import shutil
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from processes import completed

ROOT = Path(__file__).resolve().parents[3]
SUITES = {
    "compute": "  - {scenario: faults/slow-server, seeds: [1]}",
    "network": "  - {scenario: faults/flapping-nic, seeds: [1]}",
    "published": "  - {scenario: telemetry/tcp-cluster, seeds: [1], methods: [paper]}",
}
"""A case of each of three groups of the bundled suite, with the same headlines."""

DIAGNOSIS = "diagnose/llmprism/pipeline.py"
WRAPPED = """

from dataclasses import replace as _replace

_whole = diagnose


def diagnose(*arguments, **options):
    found = _whole(*arguments, **options)
    jobs, pairs, groups = found.jobs.copy(), found.pairs.copy(), found.groups.copy()
    steps, findings = found.steps.copy(), found.findings.copy()
{change}
    return _replace(
        found, jobs=jobs, pairs=pairs, groups=groups, steps=steps, findings=findings
    )
"""


@dataclass(frozen=True)
class Copy:
    """A copy of the sources, in which files can be changed and restored."""

    folder: Path

    @contextmanager
    def changed(self, *changes: tuple[str, Callable[[str], str]]) -> Iterator[None]:
        """Change the text of files; each change has to change something."""
        before = {name: (self.folder / name).read_text() for name, _ in changes}
        try:
            for name, change in changes:
                path = self.folder / name
                text = change(path.read_text())
                assert text != path.read_text(), name
                path.write_text(text)
            yield
        finally:
            for name, text in before.items():
                (self.folder / name).write_text(text)

    def regress(self, suite: str, *words: str, **environment: str) -> dict[str, Any]:
        """The result of ``prism-sim regress`` of the copy, as JSON."""
        command = [sys.executable, "-m", "prism_sim", "regress", "--suite", f"{suite}.yaml"]
        sources = os.pathsep.join(str(self.folder / top) for top in ("sim", "diagnose"))
        variables = {**os.environ, "PYTHONPATH": sources, **environment}
        words = ("--quiet", "--json", "--processes", "1", *words)
        done = completed([*command, *words], self.folder, timeout_s=900, env=variables)
        assert done.returncode in (0, 3), done.stderr
        found: dict[str, Any] = json.loads(done.stdout)
        assert "--update" in words or done.returncode == (3 if found["failed"] else 0)
        return found


@pytest.fixture(scope="module")
def copy(tmp_path_factory: pytest.TempPathFactory) -> Copy:
    """The sources as they are, with a reference of their own."""
    folder = tmp_path_factory.mktemp("copy")
    for name in ("sim", "diagnose", "scenarios"):
        shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
    made = Copy(folder)
    for name, cases in SUITES.items():
        (folder / f"{name}.yaml").write_text(f"cases:\n{cases}\n")
        made.regress(name, "--update")
    return made


def in_diagnosis(*lines: str) -> tuple[str, Callable[[str], str]]:
    """Change the tables of every diagnosis by these lines of Python."""
    body = "\n".join(f"    {line}" for line in lines)
    return DIAGNOSIS, lambda text: text + WRAPPED.format(change=body)


def replaced(name: str, old: str, new: str) -> tuple[str, Callable[[str], str]]:
    """Replace a text that occurs in the file ``name``."""
    return name, lambda text: text.replace(old, new)


def appended(name: str, *lines: str) -> tuple[str, Callable[[str], str]]:
    return name, lambda text: text + "\n\n" + "\n".join(lines) + "\n"


Change = tuple[str, Callable[[str], str]]

DEFECTS: dict[str, tuple[Change, str, str, str]] = {
    "findings dropped": (
        in_diagnosis("findings = findings.iloc[:0]"), "compute", "method", "culprit first",
    ),
    "culprit off by one": (
        in_diagnosis(
            "names = sorted(jobs['address'])",
            "after = dict(zip(names, names[1:] + names[:1]))",
            "servers = sorted(set(jobs['server'].astype(str)))",
            "after |= dict(zip(servers, servers[1:] + servers[:1]))",
            "findings['culprit'] = [after.get(one, one) for one in findings['culprit']]",
        ),
        "compute", "method", "culprit first",
    ),
    "stages swapped": (
        in_diagnosis(
            "last = groups.groupby(['job', 'kind', 'group'], observed=True)['position']"
            ".transform('max')",
            "is_stage = (groups['kind'] == 'pp') & (groups['position'] >= 0)",
            "groups.loc[is_stage, 'position'] = last - groups['position']",
        ),
        "compute", "method", "stages in order",
    ),
    "microseconds for nanoseconds": (
        in_diagnosis(
            "steps['end_ns'] = steps['start_ns'] + (steps['end_ns'] - steps['start_ns']) // 1000",
        ),
        "compute", "method", "step error",
    ),
    "clock with a bias": (
        in_diagnosis("for name in ('start_ns', 'end_ns', 'dp_end_ns'):",
                     "    steps[name] += 50_000"),
        "published", "method", "boundary error",
    ),
    "refinement dropped": (
        in_diagnosis("pairs['kind'] = pairs['kind_unrefined']"),
        "published", "method", "pairs right",
    ),
    "bucket lost": (
        appended(
            "sim/prism_sim/training/data_parallel/base.py",
            "_all = buckets",
            "def buckets(*arguments):",
            "    return _all(*arguments)[:-1] or _all(*arguments)",
        ),
        "network", "simulator", "",
    ),
    "direction of a figure turned": (
        replaced(
            "sim/prism_sim/score/faults.py",
            'right("injected faults whose top alarm names the true culprit in its window")',
            'lower("injected faults whose top alarm names the true culprit in its window")',
        ),
        "compute", "method", "culprit first",
    ),
    "rates read after the end": (
        replaced(
            "sim/prism_sim/training/collectives/ring.py",
            "    course = Course(",
            "    pace[:], burst[:] = pace[-1], burst[-1]\n    course = Course(",
        ),
        "network", "simulator", "",
    ),
    "cost doubled": (in_diagnosis("findings['cost'] *= 2"), "compute", "method", "cost error"),
}  # fmt: skip
"""Each defect: its place, a suite, what it has to blame, and a headline that has to fail."""


@pytest.mark.slow
@pytest.mark.parametrize("name", DEFECTS)
def test_a_small_defect_turns_it_red(copy: Copy, name: str) -> None:
    change, suite, blamed, headline = DEFECTS[name]
    with copy.changed(change):
        found = copy.regress(suite)
    assert found["failed"]
    failing = [one for one in found["headlines"] if one["verdict"] in ("lost", "redefined")]
    if blamed == "simulator":
        assert found["drifted"]
    else:
        assert found["drifted"] == []
        assert headline in {one["name"] for one in failing}
        assert {one["by"] for one in failing} == {"method"}


def formatted_otherwise(text: str) -> str:
    """The same program without comments, and with other line breaks and quotes."""
    return ast.unparse(ast.parse(text))


def renamed(old: str, new: str) -> Callable[[str], str]:
    """Another name for a private function."""
    return lambda text: re.sub(rf"\b{old}\b", new, text)


def comments_changed(text: str) -> str:
    return "# The same scenario.\n\n" + re.sub(r"^#.*\n", "", text, flags=re.MULTILINE)


HARMLESS: dict[str, Change] = {
    "modules of the simulator formatted otherwise": (
        "sim/prism_sim/training/data_parallel/base.py", formatted_otherwise,
    ),
    "modules of the score formatted otherwise": (
        "sim/prism_sim/score/timeline.py", formatted_otherwise,
    ),
    "modules of the diagnoser formatted otherwise": (
        "diagnose/llmprism/io/flows.py", formatted_otherwise,
    ),
    "a function renamed": ("sim/prism_sim/score/alarms.py", renamed("_flags_of", "_flags_for")),
    "comments of a scenario changed": ("scenarios/faults/slow-server.yaml", comments_changed),
    "a description changed": replaced(
        "scenarios/faults/flapping-nic.yaml", "The link of a NIC", "A link of a NIC"
    ),
    "a further figure in the score": appended(
        "sim/prism_sim/studies/cases.py",
        "_before = scored_figures",
        "def scored_figures(*arguments):",
        "    return {**_before(*arguments), 'further': 1.0}",
    ),
    "rows in another order, other numbers, a further column, and rounding": in_diagnosis(
        "pairs, groups, steps = (table.iloc[::-1] for table in (pairs, groups, steps))",
        "findings['finding'] += 100",
        "findings['remark'] = 'none'",
        "findings['confidence'] *= 1 - 1e-12",
        "steps = steps.assign(end_ns=steps['end_ns'] + 1)",
    ),
    "a log message": appended(
        "diagnose/llmprism/io/topology.py",
        "import logging",
        "logging.getLogger(__name__).debug('read')",
    ),
    "a result that is computed once": appended(
        "diagnose/llmprism/io/topology.py",
        "from functools import cache",
        "read_topology = cache(read_topology)",
    ),
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("suite", SUITES)
def test_harmless_changes_do_not_turn_it_red(copy: Copy, suite: str) -> None:
    """All at once, and with other hashes of text."""
    with copy.changed(*HARMLESS.values()):
        found = copy.regress(suite, PYTHONHASHSEED="7")
    assert not found["failed"], found
    assert {one["verdict"] for one in found["headlines"]} == {"same"}
    assert len(HARMLESS) == len(DEFECTS) == 10

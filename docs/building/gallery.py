"""The programs of the gallery: a table of scenarios, and what each of their pictures shows.

Examples of one kind differ in their scenario and in what to look at. ``examples.yaml`` has these,
and ``pictures.yaml`` the program around them; other examples are programs of their own.
"""

from __future__ import annotations

import json
import shutil
import textwrap
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).resolve().parents[2]
EXAMPLES = ROOT / "docs" / "examples"
ORDER = ("plot_slow_server", "plot_slow_nic", "plot_crash", "plot_healthy", "plot_campaign")
"""Examples that come first in their section; the others follow by name."""
_PROGRAM = '''"""
{title}
{line}

{about}
"""

import matplotlib.pyplot as plt

import prism_sim as ps

{run}
{before}
# %%
{seen}

{picture}
# %%
{found}

run.diagnosis.findings[["symptom", "cause", "culprit", "first_step", "last_step", "confidence"]]
'''


def write_examples(folder: Path) -> None:
    """Copy the gallery into ``folder``, with the programs of the table."""
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(EXAMPLES, folder, ignore=shutil.ignore_patterns("*.yaml"))
    for name, text in programs().items():
        (folder / f"{name}.py").write_text(text, encoding="utf-8")


def programs() -> dict[str, str]:
    """The program of each example of the table, by section and name."""
    table, pictures = (
        yaml.safe_load((EXAMPLES / f"{name}.yaml").read_text(encoding="utf-8"))
        for name in ("examples", "pictures")
    )
    return {name: _program(one, pictures[one["picture"]]) for name, one in table.items()}


def _program(one: dict[str, Any], picture: dict[str, str]) -> str:
    run = f'run = ps.run("{one.get("scenario")}")'
    if "scenarios" in one:
        run = f"runs = {{name: ps.run(name) for name in {json.dumps(one['scenarios'])}}}"
    if "faults" in one:
        faults = f"faults = {json.dumps(one['faults'])}"
        faults = textwrap.fill(faults, 98, subsequent_indent=10 * " ", break_long_words=False)
        run = f'{faults}\nrun = ps.run("{one["scenario"]}", set={{"faults": faults}})'
    return _PROGRAM.format(
        title=one["title"],
        line="=" * len(one["title"]),
        about=textwrap.fill(one["about"], 100),
        run=run,
        before=picture.get("before", ""),
        seen=_comment(one["seen"]),
        found=_comment(f"{one.get('found', 'The diagnosis')}:"),
        picture=picture["draw"].format(**one.get("of", {})),
    )


def _comment(text: str) -> str:
    return textwrap.fill(text, 98, initial_indent="# ", subsequent_indent="# ")


def gallery_look(_settings: dict[str, Any], _name: str) -> None:
    """Give every example the style of the reports."""
    import matplotlib as mpl

    from prism_sim.render.paint import RULES

    mpl.rcParams.update(
        {**RULES, "figure.figsize": (8, 3.4), "figure.constrained_layout.use": True}
    )


def gallery_order(name: str) -> tuple[int, str]:
    """Where an example stands in its section."""
    stem = Path(name).stem
    return (ORDER.index(stem) if stem in ORDER else len(ORDER), stem)

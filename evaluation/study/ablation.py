"""Measure what each part of ``prism`` contributes, on drawn hostile worlds, and write the page.

    python -m evaluation ablation            # resumes: finished worlds are not run again

The variants are in ``variants.py``, the worlds in ``scenarios/hostile.yaml``. Results of single
worlds are saved in ``results/ablation``. The page is ``results/reference/ablation.md``, and
``ablation.json`` beside it has every figure.
"""

from __future__ import annotations

import hashlib
import json
import shutil
import sys
from pathlib import Path
from statistics import mean
from typing import Any

from evaluation.paths import REFERENCE, ROOT, TEMPLATES
from evaluation.study import hostile
from evaluation.study.variants import REDUCED, REPAIRED, Variant
from llmprism.pipeline import diagnose_files
from prism_sim.toolkit import (
    Content,
    Piece,
    Run,
    default_processes,
    fingerprint,
    kept_results,
    render_page,
    score_run,
    simulate,
    table,
    working_folder,
)

SAVED = ROOT / "results" / "ablation"
PAGE = REFERENCE / "ablation.md"
SCRIPTS = [Path(__file__).with_name(name) for name in ("ablation.py", "variants.py")]
SEED = 51
FIXTURES = ROOT / "tests" / "fixtures"
FIGURES = {
    "jobs": ("jobs", "accuracy"),
    "pairs": ("pairs", "accuracy"),
    "steps found": ("timeline", "coverage"),
    "steps too many": ("timeline", "steps_unexplained"),
    "DP end": ("timeline", "dp_end_error_mean"),
    "step": ("timeline", "step_error_mean"),
}
ERRORS = ("DP end", "step")  # figures that are shares of a step
CAPTURES = "real captures"
LAYOUTS = "layouts"
HIGHER = ("jobs", "pairs", LAYOUTS, "steps found")
COLUMNS = ("jobs", "pairs", LAYOUTS, "steps found", "steps too many", "DP end", "step")
WORSE = 0.005  # a share that fell by less is not mentioned
MENTIONED = 3
PUBLISHED = Variant("paper", "the published method")
OURS = Variant("prism", "the whole method")

Figures = dict[str, dict[str, float | None]]
"""Figures of one world by method and name."""


def measure(family: str) -> Content:
    """Figures of every variant on one world; on the captures, means over all of them."""
    if family == CAPTURES:
        every = [_of_capture(path) for part in ("captures", "lab") for path in _cases(part)]
        found = {
            one: {name: _average([own[one][name] for own in every]) for name in COLUMNS}
            for one in every[0]
        }
        return {"result": found}
    with working_folder() as folder:
        run = Run(folder)
        simulate(hostile.scenario_of(family, SEED), run)
        return {"result": _of_run(run)}


def _cases(part: str) -> list[Path]:
    return sorted(path for path in (FIXTURES / part).iterdir() if (path / "truth").exists())


def _of_capture(case: Path) -> Figures:
    with working_folder() as folder:
        shutil.copytree(case, folder, dirs_exist_ok=True)
        return _of_run(Run(folder))


def _of_run(run: Run) -> Figures:
    return {one.name: _figures(run, one.name) for one in (PUBLISHED, *REPAIRED, OURS, *REDUCED)}


def _figures(run: Run, method: str) -> dict[str, float | None]:
    diagnose_files(run.flows, run.topology, method=method).write(run.diagnosis_folder)
    score = score_run(run).to_json()
    layouts = [_same_layout(job) for job in score["parallelism"]["jobs"]]
    figures = {name: score[part][key] for name, (part, key) in FIGURES.items()}
    return {**figures, LAYOUTS: mean(layouts) if layouts else None}


def _same_layout(job: dict[str, Any]) -> bool:
    found, true = job["inferred"], job["true"]
    return found is not None and all(found[axis] == true[axis] for axis in ("dp", "pp", "tp"))


def _average(values: list[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return mean(known) if known else None


def page_of(results: dict[str, Figures]) -> str:
    """The page in Markdown; ``results`` by family."""
    return render_page(
        TEMPLATES,
        "ablation",
        seed=SEED,
        repaired=_table(results, [PUBLISHED, *REPAIRED, OURS], PUBLISHED),
        reduced=_table(results, [OURS, *REDUCED], OURS),
    )


def _table(results: dict[str, Figures], variants: list[Variant], base: Variant) -> str:
    rows = []
    for one in variants:
        means = [_mean(name, [own[one.name][name] for own in results.values()]) for name in COLUMNS]
        rows.append([f"`{one.name}`", one.meaning, *means, _changed(results, one, base)])
    return table(["method", "what it does", *COLUMNS, "families that change most"], rows)


def _mean(name: str, values: list[float | None]) -> str:
    average = _average(values)
    form = "{:.2%}" if name in ERRORS else "{:.0f}" if name.startswith("steps too") else "{:.3f}"
    return "-" if average is None else form.format(average)


def _changed(results: dict[str, Figures], one: Variant, base: Variant) -> str:
    """The families of which a share differs most from that of ``base``, with both values."""
    found: list[tuple[float, str]] = []
    for family, own in results.items():
        pairs = {name: (own[base.name][name] or 0.0, own[one.name][name] or 0.0) for name in HIGHER}
        name = max(pairs, key=lambda name: abs(pairs[name][1] - pairs[name][0]))
        before, after = pairs[name]
        if abs(after - before) > WORSE:
            found.append((-abs(after - before), f"{family}: {name} {before:.2f} to {after:.2f}"))
    return "; ".join(text for _, text in sorted(found)[:MENTIONED])


def main() -> None:
    """Measure the missing worlds, and write the page and the figures."""
    pieces = [Piece(_key(one), f"{one} {SEED}", one) for one in (*hostile.families(), CAPTURES)]
    kept = kept_results(
        measure, pieces, SAVED, default_processes(), lambda _, text: print(text, file=sys.stderr)
    )
    if failed := [f"{one['case']}: {one['error']}" for one in kept if "error" in one]:
        raise SystemExit("\n".join(failed))
    results = {piece.task: one["result"] for piece, one in zip(pieces, kept, strict=True)}
    PAGE.write_text(page_of(results))
    PAGE.with_suffix(".json").write_text(json.dumps(results, indent=1) + "\n")


def _key(family: str) -> str:
    """Hash of everything that the result of a family depends on."""
    scenario: object = family
    if family != CAPTURES:
        scenario = hostile.scenario_of(family, SEED).model_dump(mode="json")
    content = [fingerprint(), [path.read_text() for path in SCRIPTS], scenario]
    text = json.dumps(content, sort_keys=True)
    return hashlib.blake2b(text.encode(), digest_size=12).hexdigest()

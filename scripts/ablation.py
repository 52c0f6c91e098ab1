"""Measure what each part of ``prism`` contributes, on drawn hostile worlds, and write the page.

    python scripts/ablation.py            # resumes: finished worlds are not run again

The variants are in ``variants.py``, the worlds in ``scenarios/hostile.yaml``. Results of single
worlds are saved in ``results/ablation``. The page is ``results/reference/ablation.md``, and
``ablation.json`` beside it has every figure.
"""

from __future__ import annotations

import hashlib
import json
import sys
from pathlib import Path
from statistics import mean
from typing import Any

import hostile
from llmprism.pipeline import diagnose_files
from prism import FIGURES, World
from prism_sim.toolkit import (
    Content,
    Piece,
    Run,
    default_processes,
    do_missing,
    fingerprint,
    kept_content,
    render_page,
    score_run,
    simulate,
    table,
    working_folder,
)
from variants import REDUCED, REPAIRED, Variant

ROOT = Path(__file__).resolve().parent.parent
SAVED = ROOT / "results" / "ablation"
PAGE = ROOT / "results" / "reference" / "ablation.md"
TEMPLATES = Path(__file__).with_name("templates")
SEED = 51
SHOWN = {name: place for name, place in FIGURES.items() if name != "step"}
HIGHER = ("jobs", "pairs", "steps found")
WORSE = 0.005  # a share that fell by less is not mentioned
MENTIONED = 3
PUBLISHED = Variant("paper", "the published method")
OURS = Variant("prism", "the whole method")

Figures = dict[str, dict[str, float | None]]
"""Figures of one world by method and name."""


def measure(world: World) -> Content:
    """Figures of every variant on one world."""
    with working_folder() as folder:
        run = Run(folder)
        simulate(hostile.scenario_of(*world), run)
        found = {
            one.name: _figures(run, one.name) for one in (PUBLISHED, *REPAIRED, OURS, *REDUCED)
        }
    return {"world": world._asdict(), "result": found}


def _figures(run: Run, method: str) -> dict[str, float | None]:
    diagnose_files(run.flows, run.topology, method=method).write(run.diagnosis_folder)
    score = score_run(run).to_json()
    return {name: score[part][key] for name, (part, key) in SHOWN.items()}


def key_of(world: World) -> str:
    """Hash of everything that the result of ``world`` depends on."""
    scenario = hostile.scenario_of(*world).model_dump(mode="json", exclude={"description"})
    own = [Path(__file__).with_name(name).read_text() for name in ("ablation.py", "variants.py")]
    content = json.dumps([fingerprint(), own, scenario], sort_keys=True)
    return hashlib.blake2b(content.encode(), digest_size=12).hexdigest()


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
        means = [_mean(name, [own[one.name][name] for own in results.values()]) for name in SHOWN]
        rows.append([f"`{one.name}`", one.meaning, *means, _changed(results, one, base)])
    return table(["method", "what it does", *SHOWN, "families that change most"], rows)


def _mean(name: str, values: list[float | None]) -> str:
    known = [value for value in values if value is not None]
    form = "{:.2%}" if name == "DP end" else "{:.0f}" if name.startswith("steps too") else "{:.3f}"
    return form.format(mean(known)) if known else "-"


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
    worlds = [World(family, SEED) for family in hostile.families()]
    pieces = [Piece(key_of(world), world.family, world) for world in worlds]
    do_missing(
        measure, pieces, SAVED, default_processes(), lambda _, text: print(text, file=sys.stderr),
        total=len(pieces), result="result",
    )  # fmt: skip
    kept: dict[str, Any] = {piece.task.family: kept_content(SAVED, piece.key) for piece in pieces}
    failed = [f"{family}: {one['error']}" for family, one in kept.items() if "error" in one]
    if failed:
        raise SystemExit("\n".join(failed))
    results = {family: one["result"] for family, one in kept.items()}
    PAGE.write_text(page_of(results))
    PAGE.with_suffix(".json").write_text(json.dumps(results, indent=1) + "\n")


if __name__ == "__main__":
    main()

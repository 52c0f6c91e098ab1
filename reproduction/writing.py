"""The page ``paper.md``: one section an experiment, and at the end what cannot be reproduced."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from llmprism.io.writing import replacing
from reproduction.base import Picture
from reproduction.running import Results

PAGE = "paper.md"

SEEDS = 5
"""Seeds of every case, unless asked otherwise."""

_HEAD = """\
# The published evaluation, and ours

Jiang et al., *LLMPrism: Black-box Performance Diagnosis for Production LLM Training Platforms*
(arXiv 2505.00342, DSN 2025 industry track), experiment by experiment: the figure as
published, and the same figure from simulated clusters, diagnosed by `method="paper"` and scored
against the truth. Every number and picture here comes from one command,

```
prism-sim reproduce paper{seeds} --update
```

which resumes where it was stopped.{took}
"""
_REDUCED = "\n**Reduced form:** small worlds that show the way; compare nothing with it.\n"


def write_page(
    results: Sequence[Results], seeds: Sequence[int], reduced: bool, page: Path, images: Path
) -> list[Path]:
    """Write the page and its pictures; returns their paths, the page first."""
    from prism_sim.render.paint import write_png

    pictures = {r.experiment.name: r.experiment.pictures(r.done) for r in results if r.done}
    images.mkdir(parents=True, exist_ok=True)
    files = {p.name: images / f"paper-{p.name}.png" for many in pictures.values() for p in many}
    for picture in (picture for many in pictures.values() for picture in many):
        write_png(picture.figure, files[picture.name])
    to_images = Path(_way(page.parent, images))
    parts = [_head(seeds, reduced, sum(r.cpu_seconds for r in results))]
    parts += [_section(r, pictures.get(r.experiment.name, []), to_images) for r in results]
    parts.append(_gaps(results))
    with replacing(page) as partial:
        partial.write_text("\n".join(parts), encoding="utf-8")
    return [page, *files.values()]


def _way(here: Path, there: Path) -> str:
    import os.path

    return os.path.relpath(there.resolve(), here.resolve())


def _head(seeds: Sequence[int], reduced: bool, cpu_seconds: float) -> str:
    asked = "" if len(seeds) == SEEDS else f" --seeds {len(seeds)}"
    told = (
        f"means over seeds {seeds[0]} to {seeds[-1]}, with the lowest and the highest in brackets"
    )
    if len(seeds) == 1:
        told = f"of seed {seeds[0]} alone, which leaves out how much they vary"
    minutes = cpu_seconds / 60
    took = f" All cases together took {minutes:.0f} CPU minutes." if minutes >= 1 else ""
    return (
        _HEAD.format(seeds=asked, took=took)
        + f"\nOurs are {told}.\n"
        + (_REDUCED if reduced else "")
    )


def _section(results: Results, pictures: Sequence[Picture], images: Path) -> str:
    parts = [f"## {results.experiment.title}\n"]
    parts.append(
        results.experiment.section(results.done) if results.done else "Nothing finished.\n"
    )
    parts += [_shown(picture, images) for picture in pictures]
    parts += [f"- **{name} failed:** {error}\n" for name, error in results.failed]
    return "\n".join(parts)


def _shown(picture: Picture, images: Path) -> str:
    way = (images / f"paper-{picture.name}.png").as_posix()
    return f"![{picture.caption}]({way})\n\n*{picture.caption}*\n"


def _gaps(results: Sequence[Results]) -> str:
    told = [gap for r in results if r.done for gap in r.experiment.gaps(r.done)]
    return "\n".join(["## What we cannot reproduce, and why\n", *(f"- {gap}" for gap in told), ""])

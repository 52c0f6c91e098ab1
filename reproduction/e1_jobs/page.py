"""E1 on the page: the number of exact jobs, and the platform before and after merging."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from prism_sim.toolkit import paint
from reproduction import pages
from reproduction.base import METHOD, OTHER_METHOD, Done, PageFigure
from reproduction.e1_jobs.measure import KINDS
from reproduction.pages import with_range

if TYPE_CHECKING:
    import numpy as np
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from numpy.typing import NDArray

    Cells = NDArray[np.float64]

_LABELS = {"large": "jobs of two servers or more", "small": "single-server jobs among them"}
_COLUMNS, _BAND = 120, 9  # servers in a row; eight NICs and a gap
_GPUS = 8  # of a server


def section(done: Sequence[Done]) -> str:
    """The published figures and ours, and the jobs of the first draw."""
    first = done[0]
    scenario = first.trial.scenario
    return pages.text(
        "e1",
        gpus=f"{scenario.cluster.gpus:,}",
        jobs=len(scenario.jobs),
        window=f"{scenario.duration_s:g}",
        rows=[row for kind in KINDS if (of := _of(done, kind)) for row in _rows(kind, of)],
        small=_small(done),
        seed=scenario.seed,
        kind=_kind(first),
        drawn=first.result["jobs"],
    )


def _small(done: Sequence[Done]) -> dict[str, Any] | None:
    """Figures about single-server jobs, if these were drawn."""
    small = [one.result for one in _of(done, "small")]
    if not small:
        return None
    single = [sum(job["gpus"] <= _GPUS for job in result["jobs"]) for result in small]
    return {
        "missed": with_range(single),
        "true": small[0]["true"],
        "found": with_range([result["found"] for result in small]),
    }


def _kind(one: Done) -> str:
    return _LABELS[one.trial.settings["kind"]]


def _of(done: Sequence[Done], kind: str) -> list[Done]:
    return [one for one in done if one.trial.settings["kind"] == kind]


def _rows(kind: str, done: Sequence[Done]) -> Iterator[dict[str, Any]]:
    """Numbers of inferred and exact jobs, and of draws in which all are exact, by each method."""
    runs = [one.result for one in done]
    others = [result[OTHER_METHOD] for result in runs]
    methods = ((f"ours, {_LABELS[kind]}", METHOD, runs), ("the same", OTHER_METHOD, others))
    for label, method, found in methods:
        all_exact = sum(r["exact"] == max(r["true"], r["found"]) for r in found)
        yield {"label": label, "method": method, "found": found, "all_exact": all_exact,
               "runs": runs, "millions": [r["records"] / 1e6 for r in runs]}  # fmt: skip


def gaps(done: Sequence[Done]) -> list[str]:
    """The difference from the publication that remains."""
    large = [one.result for one in _of(done, "large")]
    exact = sum(result["exact"] == result["true"] for result in large)
    return pages.paragraphs("e1-gaps", exact=exact, draws=len(large))


def pictures(done: Sequence[Done]) -> list[PageFigure]:
    """Recognition before and after merging, for the first draw of each kind."""
    firsts = [of[0] for kind in KINDS if (of := _of(done, kind))]
    caption = pages.sentence("e1-recognition", panels=len(firsts))
    return [PageFigure("recognition", caption, _draw(firsts))]


@paint.styled
def _draw(firsts: Sequence[Done]) -> Figure:
    """Draw both labels for the first of ``firsts``, and the second label for the others."""
    lead = firsts[0].result
    made = paint.figure(12, 2.6 + 2.9 * len(firsts))
    panels = made.subplots(1 + len(firsts), 1, squeeze=False)[:, 0]
    colours = [_hue(number) for number in range(_top(lead["labels"]["cluster"]))]
    _show(panels[0], _grid(lead["labels"]["cluster"]), colours)
    panels[0].set_title(f"Before: {lead['clusters']} cross-machine clusters, one colour each")
    for at, (panel, one) in enumerate(zip(panels[1:], firsts, strict=True)):
        _show_jobs(panel, one.result)
        kind = _kind(one)
        panel.set_title(
            f"{'After' if at == 0 else 'Another draw, after'} ({kind}): {one.result['found']} jobs "
            f"found, {one.result['exact']} of {one.result['true']} exact"
        )
    jobs = paint.job_colours(job["job"] for job in lead["jobs"])
    entries = [
        paint.swatch(jobs[job["job"]], f"{job['job']}: {job['gpus']} GPUs, {job['model']}")
        for job in lead["jobs"]
    ]
    entries.append(paint.swatch(paint.GRID, "no traffic"))
    heading = "Jobs of the first two panels; crosses: not recognised exactly"
    legend = made.legend(handles=entries, loc="outside lower left", ncols=5, title=heading)
    legend.set_alignment("left")
    paint.title(made, f"{lead['clusters']} clusters become {lead['found']} jobs")
    return made


def _top(text: str) -> int:
    return max(map(int, text.split())) + 1


def _grid(text: str) -> Cells:
    """Labels as a picture: servers from left to right in several bands, NICs from top to bottom."""
    import numpy as np

    labels = np.array(text.split(), float).reshape(-1, _BAND - 1)
    labels[labels < 0] = np.nan
    bands = -(-len(labels) // _COLUMNS)
    cells = np.full((bands * _COLUMNS, _BAND), np.inf)  # infinite: no NIC
    cells[: len(labels), :-1] = labels
    return cells.reshape(bands, _COLUMNS, _BAND).transpose(0, 2, 1).reshape(-1, _COLUMNS)[:-1]


def _show(axes: Axes, cells: Cells, colours: Sequence[Any]) -> None:
    """Draw cells in the colour of their label; cells without a label are grey."""
    import numpy as np
    from matplotlib.colors import to_rgb

    image = np.ones((*cells.shape, 3))
    image[np.isnan(cells)] = to_rgb(paint.GRID)
    known = np.isfinite(cells)
    image[known] = np.array([to_rgb(colour) for colour in colours])[cells[known].astype(int)]
    axes.imshow(image, aspect="auto", interpolation="nearest")
    axes.set_xticks([])
    bands = (cells.shape[0] + 1) // _BAND
    middle = [band * _BAND + (_BAND - 2) / 2 for band in range(bands)]
    axes.set_yticks(middle, [f"from server {band * _COLUMNS}" for band in range(bands)])
    paint.quiet(axes)


def _show_jobs(axes: Axes, result: dict[str, Any]) -> None:
    """Draw NICs in the colour of their inferred job, and a cross on those of inexact jobs."""
    import numpy as np

    true, found = _grid(result["labels"]["true"]), _grid(result["labels"]["found"])
    _show(axes, found, _colours_found(result, true, found))
    missed = {n for n, job in enumerate(result["jobs"]) if not job["exact"]}
    y, x = np.nonzero(np.isin(true, list(missed)))
    axes.scatter(x, y, marker="x", s=9, color=paint.WRONG, linewidths=0.8)


def _colours_found(result: dict[str, Any], true: Cells, found: Cells) -> list[Any]:
    """A colour for each inferred job: that of an exactly equal true job, otherwise a grey."""
    colours = list(paint.job_colours(job["job"] for job in result["jobs"]).values())
    of_found = [_inexact(number) for number in range(max(1, _top(result["labels"]["found"])))]
    for number, job in enumerate(result["jobs"]):
        if job["exact"]:
            (name,) = {int(label) for label in found[true == number]}
            of_found[name] = colours[number]
    return of_found


def _inexact(number: int) -> str:
    """Greys darker than that of NICs without traffic; neighbours differ."""
    return ("#333333", "#666666", "#999999")[number % 3]


def _hue(number: int) -> tuple[float, float, float]:
    """A colour that differs from its neighbours: the hues are a golden angle apart."""
    from colorsys import hsv_to_rgb

    return hsv_to_rgb(number * 0.618034 % 1, 0.45 + 0.2 * (number % 3), 0.92 - 0.15 * (number % 2))

"""Draw the pictures of docs/prism.md, each from a run of a small bundled scenario.

python -m evaluation ideas
"""

from __future__ import annotations

import io
from typing import TYPE_CHECKING

from evaluation.ideas import findings, graph, jobs, records, steps, stops
from evaluation.ideas.scenes import scene
from evaluation.paths import ROOT
from prism_common.files import replacing
from prism_sim.render import paint

if TYPE_CHECKING:
    from matplotlib.figure import Figure

IMAGES = ROOT / "docs" / "images"
COLOURS = 128  # of a picture: it has half the bytes then, and looks the same

PICTURES = {
    "prism-records": (records.SCENARIO, records.draw),
    "prism-steps": (steps.SCENARIO, steps.draw),
    "prism-jobs": (jobs.SCENARIO, jobs.draw),
    "prism-kinds": (records.PIPELINES, records.draw_kinds),
    "prism-graph": (graph.SCENARIO, graph.draw),
    "prism-rings": (stops.IN_A_RING, stops.draw_ring),
    "prism-excess": (findings.SCENARIO, findings.draw_table),
    "prism-windows": (findings.SCENARIO, findings.draw_windows),
    "prism-stops": (stops.SCENARIO, stops.draw),
    "prism-outside": (steps.SAVES, steps.draw_saves),
}
"""The scenario of each picture, and what draws it."""


def main() -> None:
    for name, (scenario, draw) in PICTURES.items():
        with replacing(IMAGES / f"{name}.png") as partial:
            partial.write_bytes(content(draw(scene(scenario))))
        print(f"wrote docs/images/{name}.png from {scenario}")


def content(made: Figure) -> bytes:
    """The figure as PNG with few colours."""
    from PIL import Image

    data = io.BytesIO()
    with Image.open(io.BytesIO(paint.png(made))) as image:
        few = image.convert("RGB").quantize(COLOURS, dither=Image.Dither.NONE)
        few.save(data, format="PNG", optimize=True)
    return data.getvalue()

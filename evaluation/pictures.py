"""Simulate the quickstart and draw the pictures of the README.

python -m evaluation pictures

The first picture is the beginning of the report in a browser; it needs Chromium
(``apt-get install chromium``). The others are figures of the report.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
from pathlib import Path

from evaluation.paths import ROOT
from llmprism.files import replacing
from llmprism.pipeline import diagnose_files
from prism_sim.loading.loader import load
from prism_sim.render.figures import FIGURES
from prism_sim.render.paint import write_png
from prism_sim.render.report import render_report
from prism_sim.run_folder import Run
from prism_sim.score import score_run
from prism_sim.simulate import simulate

IMAGES = ROOT / "docs" / "images"
PICTURES = ("timeline",)
BROWSERS = ("chromium", "chromium-browser")
WIDTH, LAST_SECTION = 980, "#close-up"  # of the picture of the report [CSS pixels]


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        run = Run(Path(folder))
        simulate(load(ROOT / "scenarios" / "tiny" / "quickstart.yaml"), run)
        diagnose_files(run.flows, run.topology).write(run.diagnosis_folder)
        score_run(run)
        drawn = {name: FIGURES[name].draw(run) for name in FIGURES}
        for name in PICTURES:
            write_png(drawn[name], IMAGES / f"{name}.png")
            print(f"wrote docs/images/{name}.png")
        render_report(run, drawn)
        photograph(run.report, IMAGES / "finding.png")


def photograph(page_file: Path, picture: Path) -> None:
    """Save the beginning of a report, up to its timeline, as a picture."""
    browser = next(filter(None, map(shutil.which, BROWSERS)), None)
    if browser is None:
        sys.exit(f"{picture.name} needs Chromium: apt-get install chromium")
    from playwright.sync_api import sync_playwright

    with sync_playwright() as started:
        opened = started.chromium.launch(executable_path=browser, args=["--no-sandbox"])
        size = {"width": WIDTH, "height": 2000}
        page = opened.new_page(viewport=size, device_scale_factor=1.5, color_scheme="light")
        page.goto(page_file.resolve().as_uri())
        boxes = [page.locator(name).bounding_box() for name in ("#findings", LAST_SECTION)]
        top, below = (box["y"] - 14 if box else 0 for box in boxes)
        height = (boxes[1] or {"height": 0})["height"] + below - top + 28
        clip = {"x": 0, "y": top, "width": WIDTH, "height": height}
        with replacing(picture) as partial:
            partial.write_bytes(page.screenshot(clip=clip, animations="disabled"))
        opened.close()
    print(f"wrote docs/images/{picture.name}")

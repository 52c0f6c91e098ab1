"""Simulate the quickstart and draw the pictures of the README.

python -m evaluation pictures

The pictures of the beginning of the report, and of the live page, are those of a browser; they need
Chromium (``apt-get install chromium``). The others are figures of the report.
"""

from __future__ import annotations

import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from evaluation.paths import ROOT
from llmprism.pipeline import diagnose
from prism_common.files import replacing
from prism_sim.loading.loader import load
from prism_sim.render.figures import FIGURES
from prism_sim.render.paint import write_png
from prism_sim.render.report import render_report
from prism_sim.score import score_run
from prism_sim.simulate import simulated

if TYPE_CHECKING:
    from playwright.sync_api import Page

IMAGES = ROOT / "docs" / "images"
PICTURES = ("timeline",)
BROWSERS = ("chromium", "chromium-browser")
WIDTH, LAST_SECTION = 980, "#close-up"  # of the picture of the report [CSS pixels]
LIVE, LIVE_S = (1_200, 980), 120  # size of the live page, and time to wait for it


def main() -> None:
    with simulated(load(ROOT / "scenarios" / "tiny" / "quickstart.yaml")) as run:
        diagnose(run.flows, run.topology).write(run.diagnosis_folder)
        score_run(run)
        drawn = {name: FIGURES[name].draw(run) for name in FIGURES}
        for name in PICTURES:
            write_png(drawn[name], IMAGES / f"{name}.png")
            print(f"wrote docs/images/{name}.png")
        render_report(run, drawn)
        photograph(run.report, IMAGES / "finding.png")
    photograph_live(IMAGES / "live.png")


@contextmanager
def browser_page(width: int, height: int, scale: float) -> Iterator[Page]:
    """A page of Chromium, in CSS pixels; ``scale`` is the number of pixels of each."""
    browser = next(filter(None, map(shutil.which, BROWSERS)), None)
    if browser is None:
        sys.exit("a picture of a page needs Chromium: apt-get install chromium")
    from playwright.sync_api import sync_playwright

    with sync_playwright() as started:
        opened = started.chromium.launch(executable_path=browser, args=["--no-sandbox"])
        yield opened.new_page(
            viewport={"width": width, "height": height},
            device_scale_factor=scale,
            color_scheme="light",
        )
        opened.close()


def save(picture: Path, content: bytes) -> None:
    """Write a picture of the documentation."""
    with replacing(picture) as partial:
        partial.write_bytes(content)
    print(f"wrote docs/images/{picture.name}")


def photograph_live(picture: Path) -> None:
    """Save the live page of the quickstart, when its finding is over, as a picture."""
    with tempfile.TemporaryDirectory() as folder, browser_page(*LIVE, 1.0) as page:
        command = [sys.executable, "-m", "prism_sim", "run", "tiny/quickstart", "--live"]
        command += ["--set", "faults.0.from_step=8", "--set", "faults.0.to_step=12"]
        messages = Path(folder, "messages")
        with messages.open("wb") as file:
            process = subprocess.Popen(
                [*command, "--out", f"{folder}/run"], stdout=subprocess.DEVNULL, stderr=file
            )
        try:
            page.goto(live_address(messages))
            page.wait_for_selector("#incidents .resolved", timeout=LIVE_S * 1_000)
            page.wait_for_selector("#details:not([hidden])")
            save(picture, page.screenshot(animations="disabled"))
        finally:
            process.send_signal(signal.SIGINT)
            process.wait()


def live_address(messages: Path) -> str:
    """The address of the live page, when the program has printed it."""
    deadline = time.monotonic() + LIVE_S
    while time.monotonic() < deadline:
        if found := re.search(r"live page: (\S+)", messages.read_text()):
            return found[1]
        time.sleep(0.2)
    sys.exit(f"there is no live page:\n{messages.read_text()}")


def photograph(page_file: Path, picture: Path) -> None:
    """Save the beginning of a report, up to its timeline, as a picture."""
    with browser_page(WIDTH, 2_000, 1.5) as page:
        page.goto(page_file.resolve().as_uri())
        boxes = [page.locator(name).bounding_box() for name in ("#findings", LAST_SECTION)]
        top, below = (box["y"] - 14 if box else 0 for box in boxes)
        height = (boxes[1] or {"height": 0})["height"] + below - top + 28
        content = page.screenshot(
            clip={"x": 0, "y": top, "width": WIDTH, "height": height}, animations="disabled"
        )
        save(picture, content)

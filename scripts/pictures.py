"""Simulate the quickstart and draw the pictures of the README.

python scripts/pictures.py
"""

from __future__ import annotations

import tempfile
from pathlib import Path

from llmprism.pipeline import diagnose_files
from prism_sim.loading.loader import load
from prism_sim.render.figures import FIGURES
from prism_sim.render.paint import write_png
from prism_sim.run_folder import Run
from prism_sim.score import score_run
from prism_sim.simulate import simulate

ROOT = Path(__file__).resolve().parent.parent
PICTURES = ("timeline",)


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        run = Run(Path(folder))
        simulate(load(ROOT / "scenarios" / "tiny" / "quickstart.yaml"), run)
        diagnose_files(run.flows, run.topology).write(run.diagnosis_folder)
        score_run(run)
        for name in PICTURES:
            path = ROOT / "docs" / "images" / f"{name}.png"
            write_png(FIGURES[name].draw(run), path)
            print(f"wrote {path.relative_to(ROOT)}")


if __name__ == "__main__":
    main()

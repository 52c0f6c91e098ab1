"""``python -m prism_sim``: the same as ``prism-sim``."""

from prism_sim.cli import main

main()

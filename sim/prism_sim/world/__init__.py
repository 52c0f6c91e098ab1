"""One simulated cluster with its jobs and faults, ready to run.

``world`` puts the parts together and lets time pass, ``control`` is what faults may change,
``faults`` begins and ends each fault at its time, and ``truth`` writes down what happened.
"""

from prism_sim.world.truth import write_truth
from prism_sim.world.world import World

__all__ = ["World", "write_truth"]

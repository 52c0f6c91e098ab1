"""One simulated cluster with its jobs and faults, ready to run.

``world`` combines the parts and runs the simulation, ``control`` contains everything that faults
may change, ``faults`` begins and ends each fault at its time, and ``truth`` writes the truth
and describes the jobs for their logs.
"""

from prism_sim.world.truth import logged_jobs, write_truth
from prism_sim.world.world import World

__all__ = ["World", "logged_jobs", "write_truth"]

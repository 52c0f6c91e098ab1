"""Public functions and classes for programs around many runs: studies, reproductions, pages.

``prism_sim.run`` makes one run of a named scenario. Programs that simulate many scenarios,
save their measurements, compare parts of a diagnosis with the truth and write pages import the
functions for that from here, and not from elsewhere in this package. Other modules may
move; these names are stable. ``reproduction/`` is such a program.
"""

from __future__ import annotations

from prism_common.quantities import counted
from prism_common.scratch import working_folder
from prism_sim.cluster.topology import topology_of
from prism_sim.commands import options
from prism_sim.commands.command import Command
from prism_sim.commands.session import WRONG, Session, in_session, open_session
from prism_sim.draws import Draws
from prism_sim.loading.bundled import find as find_scenario
from prism_sim.loading.bundled import folder as scenarios_folder
from prism_sim.loading.closed import read_closed
from prism_sim.loading.job import Job
from prism_sim.loading.loader import load as load_scenario
from prism_sim.loading.scenario import Scenario
from prism_sim.render import paint
from prism_sim.render.markdown import table
from prism_sim.render.pages import render_page
from prism_sim.replay import Stream
from prism_sim.run_folder import Run
from prism_sim.scenario.base import Closed
from prism_sim.scenario.cluster import Cluster
from prism_sim.scenario.job import OnServers
from prism_sim.scenario.names import server_name
from prism_sim.scenario.presets import preset
from prism_sim.scenario.words import did_you_mean
from prism_sim.score import score_run
from prism_sim.score.busy import true_work
from prism_sim.score.encoding import to_json
from prism_sim.score.faults import score_faults
from prism_sim.score.jobs import members, score_jobs
from prism_sim.score.load import Case as ScoreTables
from prism_sim.score.load import load as load_tables
from prism_sim.score.load import rank_rows
from prism_sim.score.matching import Match, match_steps
from prism_sim.score.pairs import score_pairs
from prism_sim.score.stats import RelativeErrors
from prism_sim.score.timeline import figures_of, samples_of
from prism_sim.simulate import simulate, simulated
from prism_sim.studies.fingerprints import fingerprint
from prism_sim.studies.kept import Content, Piece, do_missing
from prism_sim.studies.kept import content as kept_content
from prism_sim.studies.kept import results_of as kept_results
from prism_sim.studies.pool import default_processes
from prism_sim.training.costs import stage_costs

__all__ = [
    "WRONG", "Closed", "Cluster", "Command", "Content", "Draws", "Job", "Match", "OnServers",
    "Piece", "RelativeErrors", "Run", "Scenario", "ScoreTables", "Session", "Stream", "counted",
    "default_processes", "did_you_mean", "do_missing", "figures_of", "find_scenario", "fingerprint",
    "in_session",
    "kept_content", "kept_results", "load_scenario", "load_tables", "match_steps", "members",
    "open_session", "options", "paint", "preset", "rank_rows", "read_closed", "render_page",
    "samples_of", "scenarios_folder", "score_faults", "score_jobs", "score_pairs", "score_run",
    "server_name", "simulate", "simulated", "stage_costs", "table", "to_json", "topology_of",
    "true_work", "working_folder",
]  # fmt: skip

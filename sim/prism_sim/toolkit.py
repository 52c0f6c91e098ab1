"""Public functions and classes for programs around many runs: studies, reproductions, pages.

``prism_sim.run`` makes one run of a named scenario. Programs that simulate many scenarios,
save their measurements, compare parts of a diagnosis with the truth and write pages import the
functions for that from here, and not from elsewhere in this package. Other modules may
move; these names are stable. ``reproduction/`` is such a program.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from prism_common.quantities import counted
    from prism_sim.cluster.topology import topology_of
    from prism_sim.commands import options
    from prism_sim.commands.command import Command
    from prism_sim.commands.session import WRONG, Session, open_session
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
    from prism_sim.score.jobs import members, score_jobs
    from prism_sim.score.load import Case as ScoreTables
    from prism_sim.score.load import load as load_tables
    from prism_sim.score.load import rank_rows
    from prism_sim.score.matching import Match, match_steps
    from prism_sim.score.pairs import score_pairs
    from prism_sim.score.stats import RelativeErrors
    from prism_sim.score.timeline import figures_of, samples_of
    from prism_sim.simulate import simulate
    from prism_sim.studies.fingerprints import fingerprint
    from prism_sim.studies.kept import Content, Piece, do_missing
    from prism_sim.studies.kept import content as kept_content
    from prism_sim.studies.kept import results_of as kept_results
    from prism_sim.studies.pool import default_processes
    from prism_sim.studies.scratch import working_folder
    from prism_sim.training.costs import stage_costs

__all__ = [
    "WRONG",
    "Closed",
    "Cluster",
    "Command",
    "Content",
    "Draws",
    "Job",
    "Match",
    "OnServers",
    "Piece",
    "RelativeErrors",
    "Run",
    "Scenario",
    "ScoreTables",
    "Session",
    "Stream",
    "counted",
    "default_processes",
    "did_you_mean",
    "do_missing",
    "figures_of",
    "find_scenario",
    "fingerprint",
    "kept_content",
    "kept_results",
    "load_scenario",
    "load_tables",
    "match_steps",
    "members",
    "open_session",
    "options",
    "paint",
    "preset",
    "rank_rows",
    "read_closed",
    "render_page",
    "samples_of",
    "scenarios_folder",
    "score_jobs",
    "score_pairs",
    "score_run",
    "server_name",
    "simulate",
    "stage_costs",
    "table",
    "to_json",
    "topology_of",
    "true_work",
    "working_folder",
]

_HOME = {
    "Closed": "prism_sim.scenario.base:Closed",
    "Cluster": "prism_sim.scenario.cluster:Cluster",
    "Command": "prism_sim.commands.command:Command",
    "Content": "prism_sim.studies.kept:Content",
    "Draws": "prism_sim.draws:Draws",
    "Job": "prism_sim.loading.job:Job",
    "Match": "prism_sim.score.matching:Match",
    "OnServers": "prism_sim.scenario.job:OnServers",
    "Piece": "prism_sim.studies.kept:Piece",
    "RelativeErrors": "prism_sim.score.stats:RelativeErrors",
    "Run": "prism_sim.run_folder:Run",
    "Scenario": "prism_sim.loading.scenario:Scenario",
    "ScoreTables": "prism_sim.score.load:Case",
    "Session": "prism_sim.commands.session:Session",
    "Stream": "prism_sim.replay:Stream",
    "WRONG": "prism_sim.commands.session:WRONG",
    "counted": "prism_common.quantities:counted",
    "default_processes": "prism_sim.studies.pool:default_processes",
    "did_you_mean": "prism_sim.scenario.words:did_you_mean",
    "do_missing": "prism_sim.studies.kept:do_missing",
    "figures_of": "prism_sim.score.timeline:figures_of",
    "find_scenario": "prism_sim.loading.bundled:find",
    "fingerprint": "prism_sim.studies.fingerprints:fingerprint",
    "kept_content": "prism_sim.studies.kept:content",
    "kept_results": "prism_sim.studies.kept:results_of",
    "load_scenario": "prism_sim.loading.loader:load",
    "load_tables": "prism_sim.score.load:load",
    "match_steps": "prism_sim.score.matching:match_steps",
    "members": "prism_sim.score.jobs:members",
    "open_session": "prism_sim.commands.session:open_session",
    "options": "prism_sim.commands.options",
    "paint": "prism_sim.render.paint",
    "preset": "prism_sim.scenario.presets:preset",
    "rank_rows": "prism_sim.score.load:rank_rows",
    "read_closed": "prism_sim.loading.closed:read_closed",
    "render_page": "prism_sim.render.pages:render_page",
    "samples_of": "prism_sim.score.timeline:samples_of",
    "scenarios_folder": "prism_sim.loading.bundled:folder",
    "score_jobs": "prism_sim.score.jobs:score_jobs",
    "score_pairs": "prism_sim.score.pairs:score_pairs",
    "score_run": "prism_sim.score:score_run",
    "server_name": "prism_sim.scenario.names:server_name",
    "simulate": "prism_sim.simulate:simulate",
    "stage_costs": "prism_sim.training.costs:stage_costs",
    "table": "prism_sim.render.markdown:table",
    "to_json": "prism_sim.score.encoding:to_json",
    "topology_of": "prism_sim.cluster.topology:topology_of",
    "true_work": "prism_sim.score.busy:true_work",
    "working_folder": "prism_sim.studies.scratch:working_folder",
}
"""Module and name of every public item; a module has no name."""


def __getattr__(name: str) -> Any:
    """Import an item on first use, so that importing this module is fast."""
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    module, _, original = _HOME[name].partition(":")
    home = import_module(module)
    return getattr(home, original) if original else home

"""Policies of localisation, one file a kind; a new kind is a new file and one entry below."""

from __future__ import annotations

from prism_sim.operations.localisations.base import LocalisationBase
from prism_sim.operations.localisations.by_hand import ByHand
from prism_sim.operations.localisations.flows import Flows
from prism_sim.operations.localisations.logs import Logs
from prism_sim.operations.localisations.pairing import Pairing
from prism_sim.operations.localisations.stacks import Stacks
from prism_sim.registry import Registry, by_literal

LOCALISATIONS: Registry[type[LocalisationBase]] = Registry(
    "prism_sim.operations.localisations",
    ByHand,
    Pairing,
    Stacks,
    Flows,
    Logs,
    name_of=by_literal,
)
"""Each kind by its name in a study."""

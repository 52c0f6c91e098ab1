"""Causes of failures with their published counts; a new campaign is a table of the file beside."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from pathlib import Path

from prism_sim.operations.failures import Cause
from prism_sim.registry import Registry


@dataclass(frozen=True)
class Campaign:
    """Causes with their counts, and where they were published."""

    name: str
    about: str
    causes: tuple[Cause, ...]


_DATA = tomllib.loads(Path(__file__).with_name("campaigns.toml").read_text(encoding="utf-8"))

CAMPAIGNS: Registry[Campaign] = Registry(
    "prism_sim.operations.campaigns",
    *(
        Campaign(name, own["about"], tuple(Cause(*cause) for cause in own["causes"]))
        for name, own in _DATA.items()
    ),
    name_of=lambda campaign: campaign.name,
)
"""Each campaign by its name in a study."""

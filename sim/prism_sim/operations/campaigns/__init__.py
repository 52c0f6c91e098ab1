"""Causes of failures with their published counts; a new campaign is a new file and one entry."""

from __future__ import annotations

from prism_sim.operations.campaigns.acme import ACME
from prism_sim.operations.campaigns.base import Campaign
from prism_sim.operations.campaigns.byterobust import BYTEROBUST
from prism_sim.registry import Registry

CAMPAIGNS: Registry[Campaign] = Registry(
    "prism_sim.operations.campaigns",
    BYTEROBUST,
    ACME,
    name_of=lambda campaign: campaign.name,
)
"""Each campaign by its name in a study."""

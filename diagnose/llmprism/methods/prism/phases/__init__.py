"""Phases: when each rank moved traffic of each kind in each step."""

"""Measures of every step: rates, bursts, and the paths of transfers."""

"""The version of the package, and where its files are."""

from pathlib import Path

__version__ = "0.4.0"

PACKAGE = Path(__file__).parent
"""Folder of the package ``prism_sim``."""

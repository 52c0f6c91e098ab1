"""The version of the diagnoser."""

__version__ = "0.2.0"

"""Part of the front."""

"""Causes: one module each; all of them bring suspects forward."""

"""Suspects: what a cause brings forward, what it costs, and who else it may have been."""

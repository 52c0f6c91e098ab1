"""The method of L4 (arXiv 2503.20263), a rival: events compared over jobs, nodes and time."""

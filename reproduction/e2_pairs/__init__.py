"""E2: is the type of each pair of ranks (DP or PP) recognised, and in how long a window?"""

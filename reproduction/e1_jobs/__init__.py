"""E1: does one minute of flows show which addresses form a job?"""

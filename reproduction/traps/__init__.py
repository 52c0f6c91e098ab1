"""The traps: points at which the published method fails, if it is used as printed."""

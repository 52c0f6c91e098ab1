"""What a program needs that runs for long: signals, a log, a guard of its parts, a server."""

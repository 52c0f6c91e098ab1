"""What a monitor finds, how soon, and with what it keeps up: programs and their page."""

"""E4: an hour of switch bandwidth, with a fault that should raise an alert."""

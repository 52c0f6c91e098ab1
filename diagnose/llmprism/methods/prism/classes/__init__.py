"""Classes: connections that behave alike, and the sizes of their messages."""

"""Jobs: components that take their steps together, their attempts, and what no records show."""

"""Records: which of them carry training data, and what groups of endpoints send each other."""

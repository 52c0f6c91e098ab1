"""Steps of one component: how many there are, and which records belong to which."""

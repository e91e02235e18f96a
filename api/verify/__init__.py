"""Random cells against plain torch loops: what `rnnc fuzz` runs."""

"""`rnnc explore`: a local page with a cell on the left, and what it becomes on the right."""

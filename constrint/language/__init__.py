"""What a model is written in: expressions, constraints, declarations and their text."""

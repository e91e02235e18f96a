"""The language of models: expressions, constraints, declarations and their text."""

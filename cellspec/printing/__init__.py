"""A cell's equations as text, LaTeX and JSON."""

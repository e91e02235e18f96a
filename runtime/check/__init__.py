"""Checks of what callers give: every error names the argument, what came and what was expected."""

"""Launches of resident plans: one kernel runs all steps of a direction."""

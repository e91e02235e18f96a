"""Modules as users call them, also on rows of several lengths and with resets, beside torch's."""

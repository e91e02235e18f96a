"""Replays of calls that come again: their work on the device, without the Python that led to it."""

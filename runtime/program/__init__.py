"""Calls that come again: what one asked of the device is recorded, and replayed without the Python
that led to it.
"""

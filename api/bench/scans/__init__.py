"""Scans of cells without R beside the least time that memory allows, and beside peers."""

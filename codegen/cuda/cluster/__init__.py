"""Cluster plans: a cluster of blocks per head and 8 batch rows."""

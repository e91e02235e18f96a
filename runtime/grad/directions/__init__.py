"""Directions of a layer, which run as one call or one after the other."""

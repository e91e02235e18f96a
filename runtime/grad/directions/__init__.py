"""How both directions of a layer run: as one call, or one after the other."""

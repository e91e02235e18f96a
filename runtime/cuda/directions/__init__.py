"""Both directions of time of a layer on a GPU: as one call, or in two streams."""

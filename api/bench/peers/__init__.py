"""All peers in one run: sizes, and how far each result is from float64."""

"""The cells of the literature, one file each."""

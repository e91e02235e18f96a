"""Products of matrices on a GPU, and the sums and orders of what they read and write."""

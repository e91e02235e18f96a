"""CUDA plans and sources: which kernel runs on which GPU, and its text."""

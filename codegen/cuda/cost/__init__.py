"""The cost model of CUDA plans: its constants, what it reads, and its estimates."""

"""`rnnc report`: a cell, its plan and its kernels as one HTML file."""

"""The device below torch: driver calls, graphs, captures, memory, cuBLAS."""

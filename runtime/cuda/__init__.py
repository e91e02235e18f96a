"""The CUDA backend: plans are chosen, compiled by NVRTC and launched."""

"""The CPU backend: generated C++, compiled by the system's compiler."""

"""GPU memory that outlives a call: what is kept, constants, and allocations of the driver."""

"""Runs of a call: by kernels, as a node of autograd, by operators, or as a loop over calls.

The targets of this package are registered here, where all calls come by.
"""

from ..cpu.target import CpuTarget
from ..cuda.target import CudaTarget
from ..targets.registry import TARGETS

TARGETS |= {"cpu": CpuTarget(), "cuda": CudaTarget()}

"""The public names of rnnc, for type checkers and editors."""

from . import cells, distributed, init, nn
from .cellspec.declare import Constant, Gate, Input, Param, State, constant, gate, param, state
from .cellspec.errors import CellError
from .cellspec.functions import abs as abs
from .cellspec.functions import (
    clip,
    clip_gradient,
    cos,
    elu,
    erf,
    exp,
    gelu,
    leaky_relu,
    log,
    logsigmoid,
    maximum,
    minimum,
    reciprocal,
    relu,
    rsqrt,
    sigmoid,
    sign,
    silu,
    sin,
    softplus,
    sqrt,
    square,
    stop_gradient,
    tanh,
    where,
)
from .codegen.cuda.limits import Limits, UnknownGpuError
from .codegen.cuda.planner import plan_for
from .codegen.shape import PlanError, Shape
from .define import Cell, cell
from .errors import (
    BackwardError,
    CompileError,
    NoCompilerError,
    NoCudaError,
    ResidencyError,
    RnncError,
    SecondOrderError,
    SettingError,
    TensorError,
    TransformError,
)
from .runtime.cuda.memory.kept import free_memory
from .runtime.module.earlier import upgrade_optimizer_state
from .runtime.module.rnn import RNN
from .runtime.module.stepper import Stepper
from .runtime.nn.conversion.convert import convert
from .runtime.scan.packed import scan_packed
from .runtime.scan.scan import scan
from .runtime.warmup.warmup import warmup

__version__: str

__all__ = [
    "RNN",
    "BackwardError",
    "Cell",
    "CellError",
    "CompileError",
    "Constant",
    "Gate",
    "Input",
    "Limits",
    "NoCompilerError",
    "NoCudaError",
    "Param",
    "PlanError",
    "ResidencyError",
    "RnncError",
    "SecondOrderError",
    "SettingError",
    "Shape",
    "State",
    "Stepper",
    "TensorError",
    "TransformError",
    "UnknownGpuError",
    "cell",
    "cells",
    "clip",
    "clip_gradient",
    "constant",
    "convert",
    "cos",
    "distributed",
    "elu",
    "erf",
    "exp",
    "free_memory",
    "gate",
    "gelu",
    "init",
    "leaky_relu",
    "log",
    "logsigmoid",
    "maximum",
    "minimum",
    "nn",
    "param",
    "plan_for",
    "reciprocal",
    "relu",
    "rsqrt",
    "scan",
    "scan_packed",
    "sigmoid",
    "sign",
    "silu",
    "sin",
    "softplus",
    "sqrt",
    "square",
    "state",
    "stop_gradient",
    "tanh",
    "upgrade_optimizer_state",
    "warmup",
    "where",
]

"""rnnc: the compiler for recurrent cells.

Write a cell as equations; get its backward, its kernels and a torch module.

Each public name is imported when it is first used, so that `import rnnc` and `rnnc --help` are
quick. `__init__.pyi` declares the same names for type checkers and editors.
"""

import builtins as _builtins
from importlib import import_module as _import_module

from .cellspec.named import find_cells_in as _find_cells_in
from .register import register_operators as _register_operators
from .register import register_operators_after_torch as _register_operators_after_torch

# The public names of each module; those of `_MODULES` are modules themselves.
_NAMES = {
    ".cellspec.declare": "Constant Gate Input Param State constant gate param state",
    ".cellspec.errors": "CellError",
    ".errors": """
        BackwardError CompileError NoCompilerError NoCudaError ResidencyError RnncError
        SecondOrderError SettingError TensorError TransformError
    """,
    ".cellspec.functions": """
        abs asinh atan atan2 ceil clip clip_gradient cos cosh elu erf exp exp2 expm1 floor fmod
        gelu hardsigmoid hardswish hardtanh heaviside leaky_relu lerp log log1p log2 logsigmoid
        maximum minimum mish pow reciprocal relu relu6 remainder round rsqrt sigmoid sign silu sin
        sinh softplus softsign sqrt square stop_gradient tan tanh trunc where with_gradient
    """,
    ".cellspec.gradients": "replace_gradient",
    ".cellspec.noise.distributions": "bernoulli normal uniform",
    ".cellspec.noise.wrappers": "noisy zoneout",
    ".cellspec.stages.reductions": "largest layer_norm mean rms_norm softmax total",
    ".cellspec.tracing.repeat": "repeat",
    ".codegen.cuda.limits": "Limits UnknownGpuError",
    ".codegen.cuda.planner": "plan_for",
    ".codegen.shape": "PlanError Shape",
    ".define": "Cell cell",
    ".runtime.cuda.memory": "free_memory",
    ".runtime.module.earlier": "upgrade_optimizer_state",
    ".runtime.module.rnn": "RNN",
    ".runtime.module.stepper": "Stepper",
    ".runtime.nn.conversion.convert": "convert",
    ".runtime.scan.packed": "scan_packed",
    ".runtime.scan.scan": "scan",
    ".runtime.warmup.warmup": "warmup",
}
_MODULE_OF = {name: module for module, names in _NAMES.items() for name in names.split()}

_MODULES = ("cells", "distributed", "init", "nn")

# A star import replaces no builtin: `abs`, `round` and `pow` of Python work on gates and states.
__all__ = sorted({*_MODULES, *_MODULE_OF} - set(dir(_builtins)))


def __getattr__(name: str) -> object:
    if name == "__version__":
        value: object = _import_module("importlib.metadata").version(__name__)
    elif name in _MODULES:
        value = _import_module(f".{name}", __name__)
        _register_operators()
    elif name in _MODULE_OF:
        value = getattr(_import_module(_MODULE_OF[name], __name__), name)
        _register_operators()
    else:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*(name for name in globals() if name.startswith("__")), *_MODULES, *_MODULE_OF})


_find_cells_in(lambda: _import_module(".cells", __name__))  # type: ignore[arg-type, return-value]
_register_operators_after_torch()

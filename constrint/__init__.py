"""ConstrINT: integer variables, constraints over them, propagation and search.

Made for launch parameters of kernels: variables tied by products, sums, divisibility and bounds.
Where nothing fits it says which constraints clash, and how far a bound would have to move.
"""

from .errors import (
    ConstrintError,
    LimitReached,
    ModelError,
    TextError,
    UnknownVariableError,
    Unsatisfiable,
)
from .language.constraint import Constraint
from .language.expression import Expression, Preference, Variable
from .model import Model
from .solution import Solution
from .solver.explain import Explanation
from .solver.relax import Move, Relaxation

__all__ = [
    "Constraint",
    "ConstrintError",
    "Explanation",
    "Expression",
    "LimitReached",
    "Model",
    "ModelError",
    "Move",
    "Preference",
    "Relaxation",
    "Solution",
    "TextError",
    "UnknownVariableError",
    "Unsatisfiable",
    "Variable",
]

"""ConstrINT: integer variables, constraints over them, propagation and search.

Made for launch parameters of kernels: variables tied by products, sums, divisibility and bounds.
Where nothing fits it says which constraints clash, and how far a bound would have to move.
"""

from .constraint import Constraint
from .errors import (
    ConstrintError,
    LimitReached,
    ModelError,
    TextError,
    UnknownVariableError,
    Unsatisfiable,
)
from .explain import Explanation
from .expression import Expression, Preference, Variable
from .model import Model
from .relax import Move, Relaxation
from .solution import Solution

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

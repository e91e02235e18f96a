"""ConstrINT: integer variables, constraints over them, propagation and search.

It is made for launch parameters of kernels: variables tied by products, sums, divisibility and
bounds. If there is no solution, it says which constraints clash, and how far a bound must move.
"""

from .errors import ConstrintError, ModelError, TextError, UnknownVariableError
from .language.constraint import Constraint
from .language.expression import Expression
from .language.variable import Preference, Variable
from .model import Model
from .solver.explanation import Explanation
from .solver.outcome import LimitReached, Unsatisfiable
from .solver.relax import Move, Relaxation
from .solver.solution import Solution

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

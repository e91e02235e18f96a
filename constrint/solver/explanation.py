"""An explanation: why a model, or one value of a variable, has no solution."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Explanation:
    """Why a model, or one value of a variable, has no solution, or that it has one.

    Attributes:
        subject: the question.
        satisfiable: whether there is a solution.
        core: the names of constraints that clash, in declared order.
        clauses: the text of each of these constraints.
        domains: the declared values of their variables.
        minimal: whether there is a solution without any one constraint of the core. It is false
            only if a limit stopped the work; the core clashes nevertheless.
    """

    subject: str
    satisfiable: bool
    core: tuple[str, ...] = ()
    clauses: tuple[str, ...] = ()
    domains: tuple[str, ...] = ()
    minimal: bool = True

    def __str__(self) -> str:
        if self.satisfiable:
            return self.subject
        if not self.core:
            return f"{self.subject}\n  with {', '.join(self.domains)}"
        if len(self.core) == 1:
            together = "this constraint cannot hold"
        else:
            together = f"these {len(self.core)} constraints clash"
            together += "; drop any one and a solution exists" if self.minimal else ""
        lines = [f"{self.subject}: {together}", *(f"  - {clause}" for clause in self.clauses)]
        if self.domains:
            lines.append(f"  with {', '.join(self.domains)}")
        if not self.minimal:
            lines.append("  (a limit ended the search for a smaller set)")
        return "\n".join(lines)

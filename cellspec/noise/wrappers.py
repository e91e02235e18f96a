"""`zoneout` and `noisy`: cells made of other cells, with inputs that calls draw."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, TypeVar, overload

from ..cell import CellSpec
from ..declare import Input
from ..errors import CellError, kind_of
from ..expression.graph import with_args
from ..expression.node import Node, ordered, symbol
from ..named import named_cell
from .distributions import bernoulli, normal

CellType = TypeVar("CellType", bound=CellSpec)


@overload
def zoneout(cell: CellType, p: float | str | Mapping[str, float | str]) -> CellType: ...
@overload
def zoneout(cell: str, p: float | str | Mapping[str, float | str]) -> Any: ...
def zoneout(cell: CellSpec | str, p: float | str | Mapping[str, float | str]) -> Any:
    r"""Make the same cell with zoneout: at each step a unit keeps its state with a probability.

    Other states read the new value before the choice, as in the paper. Without samples a state is
    the mean of both: `p * old + (1 - p) * new`. Gates, states and params stay, so that weights of
    either cell load into the other.

    Args:
        cell: the cell, or its name in `rnnc.cells`.
        p: the probability for all states, or for each by its name: a number, or the name of a
            constant of the cell. The drawn input of a state `h` is `zoneout_h`.

    Raises:
        CellError: a name is no state of the cell or taken, or `p` is no probability.

    Source: Krueger et al., "Zoneout: regularizing RNNs by randomly preserving hidden activations",
    ICLR 2017.

    Example:
        >>> import rnnc
        >>> cell = rnnc.zoneout(rnnc.cells.lstm, {"c": 0.5})
        >>> print("\n".join(cell.equations()[4:]))
        zoneout_c ~ bernoulli(0.5)
        h' = sigmoid(o)*tanh(sigmoid(f)*c + sigmoid(i)*tanh(z))
        c' = zoneout_c*c + (1 - zoneout_c)*(sigmoid(f)*c + sigmoid(i)*tanh(z))
    """
    spec = _spec(cell)
    names = [state.name for state in spec.states]
    given = p if isinstance(p, Mapping) else dict.fromkeys(names, p)
    _check_names("zoneout", spec, given, names, "state", "{'h': 0.1}")
    draws = {name: bernoulli(given[name]) for name in names if name in given}
    updates, variables = [], list(spec.variables)
    for name, update in zip(names, spec.updates, strict=True):
        keep = symbol(f"zoneout_{name}")
        kept = keep * symbol(name) + (1 - keep) * update
        updates.append(kept if name in draws else update)
        variables.append((update, f"new_{name}"))
    return _with_draws(spec, "zoneout", draws, updates=tuple(updates), variables=tuple(variables))


@overload
def noisy(cell: CellType, sigma: float | str, gates: Iterable[str] | None = None) -> CellType: ...
@overload
def noisy(cell: str, sigma: float | str, gates: Iterable[str] | None = None) -> Any: ...
def noisy(cell: CellSpec | str, sigma: float | str, gates: Iterable[str] | None = None) -> Any:
    """Make the same cell with noise: each gate has a number of a normal distribution added.

    So has a gate that the cell calls with a value: `n(r * h) + noise_n`. Without samples it is the
    cell itself. Gates, states and params stay, so that weights of either cell load into the other.

    Args:
        cell: the cell, or its name in `rnnc.cells`.
        sigma: the standard deviation: a number, or the name of a constant of the cell.
        gates: the names of the gates, by default all. The drawn input of a gate `g` is `noise_g`.

    Raises:
        CellError: a name is no gate of the cell or taken, or `sigma` is no standard deviation.

    Example:
        >>> import rnnc
        >>> rnnc.noisy("elman", 0.1).equations()[1:]
        ('noise_g ~ normal(0, 0.1)', "h' = tanh(g + noise_g)")
    """
    spec = _spec(cell)
    names = [gate.name for gate in spec.gates]
    several = isinstance(gates, Iterable) and not isinstance(gates, str)
    chosen: list[Any] = names if gates is None else list(gates) if several else [gates]
    _check_names("noise", spec, chosen, names, "gate", "gates=['h']")
    draws = {name: normal(0.0, sigma) for name in names if name in chosen}
    new = _with_noise((*spec.updates, *(node for node, _ in spec.variables)), draws)
    updates = tuple(new[update] for update in spec.updates)
    variables = tuple((new[node], name) for node, name in spec.variables)
    return _with_draws(spec, "noise", draws, updates=updates, variables=variables)


def _with_noise(roots: Iterable[Node], draws: Iterable[str]) -> dict[Node, Node]:
    """Return each node with noise added to the gates that it reads, or calls with a value."""
    new: dict[Node, Node] = {}
    for node in ordered(tuple(roots)):
        now = with_args(node, tuple(new[a] for a in node.args))
        is_gate = (node.is_symbol or node.op == "gate") and node.name in draws
        new[node] = now + symbol(f"noise_{node.name}") if is_gate else now
    return new


def _spec(cell: Any) -> CellSpec:
    if isinstance(cell, str):
        return named_cell(cell)
    if not isinstance(cell, CellSpec):
        wanted = "a cell, or a name of rnnc.cells.names()"
        raise CellError(kind_of(cell), wanted, "a function decorated with @rnnc.cell", "cell")
    return cell


def _check_names(
    word: str, cell: CellSpec, given: Iterable[str], names: list[str], what: str, write: str
) -> None:
    """Refuse names that are no states or gates, none at all, and those that the cell has."""
    given = list(given)
    unknown = [name for name in given if name not in names]
    if unknown or not given:
        found = f"{unknown[0]!r}, which is no {what}" if unknown else f"no {what}"
        wanted = f"names of {what}s: {', '.join(names)}"
        write = write.replace("'h'", repr(names[0]))
        raise CellError(f"{word} of {found}", wanted, write, cell.name)
    declared = cell.declarations
    for name in given:
        if f"{word}_{name}" in [d.name for d in declared]:
            raise CellError(
                f"{word} of `{name}`, and the name `{word}_{name}` in the cell",
                f"a cell without this name, which its drawn input has; {word} is added once",
                "the cell that it was made of",
                cell.name,
            )


def _with_draws(cell: CellSpec, word: str, draws: Mapping[str, Input], **others: Any) -> CellSpec:
    """Make the cell with further inputs, and other fields besides."""
    more = [given.model_copy(update={"name": f"{word}_{n}"}) for n, given in draws.items()]
    fields = {"name": f"{cell.name}_with_{word}", "inputs": (*cell.inputs, *more)}
    return cell.model_copy(update=fields | others)

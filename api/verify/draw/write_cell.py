"""Writes a drawn cell as the text of an rnnc cell."""

from __future__ import annotations

from collections.abc import Collection

from .tree import BINARY, RELATIONS, CellDraw, GateDraw, Node

_INFIX = {*BINARY, *RELATIONS, "&", "|", "%"}


def expression_text(node: Node, hidden: Collection[str] = ()) -> str:
    """An expression as Python text, with every operand in brackets.

    Args:
        node: the expression.
        hidden: names of functions that arguments of the cell have.
    """
    texts = [expression_text(a, hidden) for a in node.args]
    if node.op == "name":
        return node.name
    if node.op == "number":
        return repr(node.value) if node.value >= 0 else f"({node.value!r})"
    if node.op == "neg":
        return f"(-{texts[0]})"
    if node.op == "~":
        return f"(~{texts[0]})"
    if node.op == "**":
        return f"({texts[0]} ** {_whole(node.value)})"
    if node.op == "pow":
        return f"({texts[0]} ** {texts[1]})"
    if node.op in _INFIX:
        return f"({texts[0]} {node.op} {texts[1]})"
    if node.op == "gate":
        return f"{node.name}({texts[0]})"
    if node.op == "repeat":
        return node.looped("rnnc.repeat", texts)
    return node.called(f"{'rnnc.' * (node.op in hidden)}{node.op}", texts)


def _whole(value: float) -> str:
    return str(int(value)) if value >= 0 else f"({int(value)})"


def cell_text(cell: CellDraw) -> str:
    """The cell's function and decorator as text; it needs `rnnc` and its names in scope."""
    by_name = {d.name: _declaration(cell, d.name) for d in cell.declared}
    arguments = [by_name[name] for name in cell.order]
    lines = ["@rnnc.cell", "def drawn(", "    *,"]
    lines += [f"    {argument}," for argument in arguments]
    lines.append("):")
    lines += [f"    {target} = {expression_text(value, by_name)}" for target, value in cell.body]
    lines.append(f"    return {', '.join(f'new_{s.name}' for s in cell.states)}")
    return "\n".join(lines) + "\n"


def functions_used(cell: CellDraw) -> list[str]:
    """The functions of the language that the cell calls, in order of appearance."""
    plain = {"name", "number", "neg", "~", "**", "gate", *_INFIX} - {"%"}
    used = [n.op for _, value in cell.body for n in value.walk() if n.op not in plain]
    return list(dict.fromkeys("remainder" if op == "%" else op for op in used))


def _declaration(cell: CellDraw, name: str) -> str:
    for gate in cell.gates:
        if gate.name == name:
            return f"{name}: Gate{_gate_options(gate)}"
    for kind, word, group in (
        ("State", "state", cell.states),
        ("Param", "param", cell.params),
        ("Constant", "constant", cell.constants),
    ):
        for value in group:
            if value.name == name:
                plain = value.value == 0 and kind != "Constant"
                return f"{name}: {kind}" + ("" if plain else f" = {word}({value.value!r})")
    for given in cell.inputs:
        if given.name == name:
            default = "" if given.draw is None else f" = rnnc.{given.draw[0]}{given.draw[1]!r}"
            return f"{name}: Input{default.replace(',)', ')')}"
    raise KeyError(name)


def _gate_options(gate: GateDraw) -> str:
    defaults = GateDraw("")
    options = [
        f"{option}={getattr(gate, option)!r}"
        for option in ("input", "recurrent", "bias", "source")
        if getattr(gate, option) != getattr(defaults, option)
    ]
    return f" = gate({', '.join(options)})" if options else ""

"""Writes a failure as a complete Python test: cell, loop, inputs and comparison."""

from __future__ import annotations

from inspect import getsource

from torch import Tensor

from ..draw.tree import Case
from ..draw.write_cell import cell_text
from ..draw.write_loop import loop_text
from .by_rows import by_rows
from .columns import column_of
from .judge import EXACT
from .ours import COMPILERS, has_rows, parameter_name, rows_of
from .tensors import draw_values, is_given

# The errors that the text allows; the fuzzer itself compares with a loop in the same dtype.
_SHARES = {"float64": EXACT, "float32": 1e-4, "float16": 3e-2, "bfloat16": 2e-1}

_REVERSED = """\
def reversed_loop(wx, *others):
    over_time, last = loop(wx.flip(1), *others)
    return [s.flip(1) for s in over_time], last
"""

_RUN = """\
    def run(call, dtype, views):
        leaves = {}
        for name, tensor in values.items():
            laid = views.get(name, torch.clone)(tensor.to(device, dtype))
            leaves[name] = laid.requires_grad_(name not in without)
        results = call(leaves)
        asked = {name: t for name, t in leaves.items() if t.requires_grad}
        given = {
            name: views.get(f"d {name}", torch.clone)(d.to(device, dtype))
            for name, d in seeds.items()
            if results[name].requires_grad
        }
        if asked and given:
            found = torch.autograd.grad(
                [results[name] for name in given], list(asked.values()), list(given.values()),
                allow_unused=True, materialize_grads=True,
            )
            results |= {f"d {name}": d for name, d in zip(asked, found, strict=True)}
        return results
"""


def report(case: Case, reasons: tuple[str, ...]) -> str:
    """The text of a test.

    Args:
        case: a case that fails.
        reasons: what was wrong.
    """
    values, seeds = draw_values(case, case.seed)
    scan = case.through == "scan"
    names = [s.name for s in case.cell.states]
    lines = [f"# {line}" for reason in reasons for line in reason.splitlines()]
    lines += ["import rnnc", "import torch", "from rnnc import *", ""]
    lines += [f"DEVICE = {case.device!r}", ""]
    lines += [cell_text(case.cell), loop_text(case.cell), "", _REVERSED, "", *_by_rows(case)]
    lines += ["def test_drawn():"]
    lines += [f"    device, names = DEVICE, {names!r}"]
    kept = {n: rows_of(t) if has_rows(n) else t for n, t in values.items()}
    lines += _dict("values", {_leaf(case, n): t for n, t in kept.items()})
    lines += _dict("seeds", {n: t for n, t in seeds.items() if n not in case.silent})
    lines += [f"    without = {[_leaf(case, n) for n in case.without]!r}", "    laid = {"]
    lines += [f"        {n!r}: {_view_text(view)}," for n, view in case.views]
    lines += ["    }", "", *(_scans(case) if scan else _modules(case)), "", _RUN]
    lines += [
        "    wanted = run(twin, torch.float64, {})",
        f"    found = run(ours, torch.{case.dtype}, laid)",
        "    for name, exact in wanted.items():",
        "        assert found[name].shape == exact.shape, name",
        "        scale = exact.abs().max() if exact.numel() else 0.0",
        f"        close = (found[name].double() - exact).abs() <= {_SHARES[case.dtype]} * scale",
        "        assert close.all(), name",
    ]
    return "\n".join(lines) + "\n"


def _leaf(case: Case, name: str) -> str:
    """The name of a tensor in the text; parameters of a module have the module's names."""
    fixed = case.through == "scan" or is_given(name)
    return name if fixed else parameter_name(name)


def _dict(target: str, tensors: dict[str, Tensor]) -> list[str]:
    lines = [f"    {target} = {{"]
    for name, tensor in tensors.items():
        listed = tensor.flatten().tolist()
        shape = tuple(tensor.shape)
        text = f"torch.tensor({listed!r}, dtype=torch.float64).reshape({shape!r})"
        lines.append(f"        {name!r}: {text},")
    return [*lines, "    }"]


def _view_text(view: str) -> str:
    kind, _, axis = view.partition(":")
    return {
        "transposed": "lambda t: t.permute(*range(t.ndim)[::-1]).contiguous()"
        ".permute(*range(t.ndim)[::-1])",
        "offset": "lambda t: torch.cat([t[:1], t])[1:]",
        "strided": "lambda t: t.repeat_interleave(2, -1)[..., ::2]",
        "expanded": f"lambda t: t.narrow({axis or 0}, 0, 1).expand_as(t)",
        "negative": "lambda t: torch._neg_view(-t)",
    }[kind]


def _scans(case: Case) -> list[str]:
    shape = (case.batch, case.heads, case.dim)
    starts = [s.value for s in case.cell.states]
    states = (
        '[leaves[f"states.{n}"] for n in names]'
        if case.states
        else f'[leaves["wx"].new_full({shape}, value) for value in {starts}]'
    )
    params = [p.name for p in case.cell.params]
    outputs = [
        '        over = {f"{n} over time": t for n, t in zip(names, over_time)}',
        '        return over | {f"{n} last": t for n, t in zip(names, last)}',
    ]
    common = [f'        params = {{n: leaves[f"params.{{n}}"] for n in {params}}}']
    return [
        "    def twin(leaves):",
        *common,
        f"        states = {states}",
        '        weights = [leaves.get(n) for n in ("R", "R_diag", "b")]',
        *_columns(case, 'leaves["wx"]'),
        *_run_loop(case, str(case.reverse), "wx", "None"),
        *outputs,
        "",
        "    def ours(leaves):",
        *common,
        f"        states = {states if case.states else None}",
        "        over_time, last = rnnc.scan(",
        f'            {_cell(case)}, leaves["wx"], leaves.get("R"), leaves.get("b"), states,',
        f'            R_diag=leaves.get("R_diag"), params=params, {_choice(case)},',
        f"            reverse={case.reverse},",
        *_inputs(case, "{}"),
        *_masks(case, True),
        "        )",
        *outputs,
    ]


def _modules(case: Case) -> list[str]:
    hidden, plane = case.heads * case.dim, (case.batch, case.heads, case.dim)
    starts = [s.value for s in case.cell.states]
    params = [p.name for p in case.cell.params]
    start = (
        f'[leaves[f"states.{{n}}"][len(lasts)].reshape({plane}) for n in names]'
        if case.states
        else f"[x.new_full({plane}, value) for value in {starts}]"
    )
    states = '[leaves[f"states.{n}"] for n in names]' if case.states else "None"
    if case.through == "step" and case.steps:
        call = [
            "        ys = []",
            f"        for t in range({case.steps}):",
            '            y_t, states = rnn.step(leaves["x"][:, t], states,',
            *_inputs(case, "{}[:, t if {}.shape[1] > 1 else 0]"),
            "            )",
            "            ys.append(y_t)",
            "        y, last = torch.stack(ys, 1), states",
        ]
    else:
        called = "rnn"
        if case.through in COMPILERS:
            compiler = COMPILERS[case.through]
            called = f"torch.compile(rnn, fullgraph=True, backend={compiler!r})"
        turn = "" if case.batch_first else ".transpose(0, 1)"
        call = [
            f'        y, last = {called}(leaves["x"]{turn}, states,',
            *_masks(case, case.batch_first),
            *_inputs(case, f"{{}}{turn}"),
            "        )",
            f"        y = y{turn}",
        ]
    zero = f"x.new_empty(*x.shape[:2], {case.heads}, {case.dim}, 0)"
    product = 'torch.einsum("bti,gndi->btndg", x, by_gate(f"weight_ih_{at}"))'
    return [
        "    def twin(leaves):",
        "        def by_gate(name):  # of rows in the order head, gate, unit",
        f"            split = ({case.heads}, -1, {case.dim})",
        "            rows = leaves.get(name)",
        "            return None if rows is None else rows.unflatten(0, split).transpose(0, 1)",
        "",
        '        x, lasts = leaves["x"], []',
        f"        for k in range({case.layers}):",
        "            ys = []",
        f"            for end in {case.suffixes}:",
        '                at = f"l{k}{end}"',
        f"                wx = {product if case.cell.input_gates else zero}",
        *("        " + line for line in _columns(case, "wx")),
        f"                states = {start}",
        f'                params = {{n: leaves[f"{{n}}_{{at}}"] for n in {params}}}',
        '                words = ("weight_hh", "weight_hd", "bias")',
        '                weights = [by_gate(f"{n}_{at}") for n in words]',
        *("        " + line for line in _run_loop(case, "bool(end)", "wx", "len(lasts)")),
        f"                ys.append(over_time[0].reshape({case.batch}, {case.steps}, {hidden}))",
        f"                lasts.append([s.reshape({case.batch}, {hidden}) for s in last])",
        "            x = torch.cat(ys, 2)",
        '        return {"y": x} | {f"{n} last": torch.stack(ts) for n, ts in'
        " zip(names, zip(*lasts))}",
        "",
        "    def ours(leaves):",
        f"        rnn = rnnc.RNN({_cell(case)}, {case.input_size}, {hidden}, heads={case.heads},",
        f"            num_layers={case.layers}, bias={case.bias}, batch_first={case.batch_first},",
        f"            bidirectional={case.both}, {_choice(case)}, device=device,",
        f"            dtype=torch.{case.dtype})",
        "        for name, parameter in rnn.named_parameters():",
        "            parameter.data.copy_(leaves[name].detach())",
        "            leaves[name] = parameter.requires_grad_(name not in without)",
        f"        states = {states}",
        *call,
        '        return {"y": y} | {f"{n} last": t for n, t in zip(names, last)}',
    ]


def _by_rows(case: Case) -> list[str]:
    """What runs rows one by one, where there are lengths or resets; and what reads inputs."""
    used = [by_rows] * bool(case.rows) + [column_of] * bool(case.cell.inputs)
    if not used:
        return [""]
    return ["from typing import Any, Callable", "", *(f"{getsource(f)}\n" for f in used)]


def _run_loop(case: Case, reverse: str, wx: str, index: str) -> list[str]:
    """The lines that run one direction; `index` is that of its reset values."""
    lines = [
        f"        run_loop = reversed_loop if {reverse} else loop",
        "        def run_part(wx, states):",
        "            return run_loop(wx, *weights, params, states)",
    ]
    if not case.rows:
        return [*lines, f"        over_time, last = run_part({wx}, states)"]
    shape = (case.batch, case.steps, case.heads, case.dim)
    starts = [s.value for s in case.cell.states]
    values = f"[states[0].new_full({shape}, v) for v in {starts}]"
    if case.reset_to != "init":
        own = 'leaves[f"reset_to.{n}"]' + ("" if index == "None" else f"[{index}]")
        kind = {
            "shared": f".reshape({shape[2:]})",
            "rows": f".reshape({(shape[0], 1, *shape[2:])})",
            "stored": f".detach().reshape({shape})",
        }[case.reset_to]
        values = f"[{own}{kind}.expand({shape}) for n in names]"
    return [
        *lines,
        f"        values = {values}",
        f"        over_time, last = by_rows(run_part, {wx}, states, {case.rows!r}, values,"
        f" {reverse})",
    ]


def _masks(case: Case, rows_first: bool) -> list[str]:
    """The arguments of lengths and resets, a line each."""
    lines = []
    if case.lengths:
        lines.append(f"lengths=torch.tensor({[n for n, _ in case.rows]}, device=device),")
    if case.resets:
        mask = [[t in resets for t in range(case.steps)] for _, resets in case.rows]
        turn = "" if rows_first else ".t()"
        lines.append(f"reset=torch.tensor({mask}, device=device){turn},")
    if case.reset_to != "init":
        turn = ".transpose(1, 2)" if case.reset_to == "stored" and not rows_first else ""
        lines.append(f'reset_to=[leaves[f"reset_to.{{n}}"]{turn} for n in names],')
    return [f"            {line}" for line in lines]


def _inputs(case: Case, text: str) -> list[str]:
    """The argument of inputs that no weight multiplies, a line; `text` has `{}` for a tensor."""
    if not case.cell.inputs:
        return []
    names = [i.name for i in case.cell.inputs]
    value = text.replace("{}", 'leaves[f"inputs.{n}"]')
    return [f"            inputs={{n: {value} for n in {names!r}}},"]


def _columns(case: Case, wx: str) -> list[str]:
    """The lines that make the wx of the loop."""
    names = [i.name for i in case.cell.inputs]
    shape = (case.batch, case.steps, case.heads, case.dim)
    if not names:
        return [f"        wx = {wx}"] if wx != "wx" else []
    each = f'*(column_of(leaves[f"inputs.{{n}}"], {shape}) for n in {names!r})'
    return [f"        wx = torch.cat([{wx}, {each}], -1)"]


def _cell(case: Case) -> str:
    return "rnnc.Cell.from_json(drawn.to_json())" if case.json else "drawn"


def _choice(case: Case) -> str:
    choice = f"backend=device, variant={case.variant!r}, save={case.save!r}"
    return f'{choice}, precision="ieee"'

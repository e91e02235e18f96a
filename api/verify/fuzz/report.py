"""Writes a failure as a complete Python test: cell, loop, inputs and comparison."""

from __future__ import annotations

from torch import Tensor

from ..draw.tree import Case
from ..draw.write_cell import cell_text
from ..draw.write_loop import loop_text
from .judge import EXACT
from .ours import COMPILERS, has_rows, parameter_name, rows_of
from .tensors import draw_values

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
    lines += [cell_text(case.cell), loop_text(case.cell), "", _REVERSED, "", "def test_drawn():"]
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
    fixed = case.through == "scan" or name == "x" or name.startswith("states.")
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
        f'        over_time, last = {_looped(case)}(leaves["wx"], *weights, params, states)',
        *outputs,
        "",
        "    def ours(leaves):",
        *common,
        f"        states = {states if case.states else None}",
        "        over_time, last = rnnc.scan(",
        f'            {_cell(case)}, leaves["wx"], leaves.get("R"), leaves.get("b"), states,',
        f'            R_diag=leaves.get("R_diag"), params=params, {_choice(case)},',
        f"            reverse={case.reverse},",
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
            '            y_t, states = rnn.step(leaves["x"][:, t], states)',
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
            f'        y, last = {called}(leaves["x"]{turn}, states)',
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
        f"                states = {start}",
        f'                params = {{n: leaves[f"{{n}}_{{at}}"] for n in {params}}}',
        '                words = ("weight_hh", "weight_hd", "bias")',
        '                weights = [by_gate(f"{n}_{at}") for n in words]',
        "                run_loop = reversed_loop if end else loop",
        "                over_time, last = run_loop(wx, *weights, params, states)",
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


def _looped(case: Case) -> str:
    return "reversed_loop" if case.reverse else "loop"


def _cell(case: Case) -> str:
    return "rnnc.Cell.from_json(drawn.to_json())" if case.json else "drawn"


def _choice(case: Case) -> str:
    choice = f"backend=device, variant={case.variant!r}, save={case.save!r}"
    return f'{choice}, precision="ieee"'

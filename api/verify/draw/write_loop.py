"""Writes a drawn cell as the text of a plain torch loop, which autograd differentiates.

It shares nothing with the compiler: no tracer, no sympy, no table of functions.
"""

from __future__ import annotations

from .tree import BINARY, RELATIONS, CellDraw, Node
from .write_cell import functions_used

_NUMBER = """
def tensor(x):
    if isinstance(x, torch.Tensor):
        return x
    return torch.tensor(float(x), dtype=torch.{numbers}, device=DEVICE)
"""

_CLIP_GRADIENT = """
class ClipGradient(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, bound):
        ctx.save_for_backward(bound)
        return x.clone()

    @staticmethod
    def backward(ctx, d):
        (bound,) = ctx.saved_tensors
        return torch.where(d > bound, bound.to(d.dtype),
                           torch.where(d < -bound, -bound.to(d.dtype), d)), None
"""

_REPEAT = """
def torch_repeat(n, step, *values):
    for _ in range(n):
        new = step(*values)
        values = new if isinstance(new, tuple) else (new,)
    return values if len(values) > 1 else values[0]
"""

# The functions of `x` that torch has under the same names.
_SAME = """sigmoid tanh exp log sqrt rsqrt square reciprocal sin cos erf atan asinh sinh cosh tan
exp2 expm1 log1p log2""".split()
_KINKED = ("relu", "abs", "sign")
_WHOLE = ("floor", "ceil", "trunc")
_OF_MODULES = ("silu", "logsigmoid", "softsign", "mish")
# How torch spells each function. `edge(a, b)` marks where values or slopes jump.
_SPELLINGS = {
    **{f"{name}(x)": f"return torch.{name}(tensor(x))" for name in _SAME},
    **{f"{name}(x)": f"edge(x, 0); return torch.{name}(tensor(x))" for name in _KINKED},
    **{f"{name}(x)": f"return torch.nn.functional.{name}(tensor(x))" for name in _OF_MODULES},
    # They jump at whole numbers. The distance from one is continuous.
    **{
        f"{name}(x)": f"x = tensor(x); edge((x - torch.round(x)).abs(), 0); return torch.{name}(x)"
        for name in _WHOLE
    },
    "round(x)": "x = tensor(x); edge((x - torch.floor(x) - 0.5).abs(), 0); return torch.round(x)",
    "heaviside(x)": "edge(x, 0); return (tensor(x) > 0).to(tensor(x).dtype)",
    "relu6(x)": "edge(x, 0); edge(x, 6); return torch.nn.functional.relu6(tensor(x))",
    "hardtanh(x)": "edge(x, -1); edge(x, 1); return torch.nn.functional.hardtanh(tensor(x))",
    # In float64, torch's own hardsigmoid has a slope in float32.
    "hardsigmoid(x)": "edge(x, -3); edge(x, 3); x = tensor(x)\n"
    "    return torch.where(x < -3, 0, torch.where(x > 3, 1, (x + 3) / 6))",
    # On a GPU, torch's own hardswish multiplies by a sixth in float32.
    "hardswish(x)": "edge(x, -3); edge(x, 3); x = tensor(x)\n"
    "    return torch.where(x < -3, 0, torch.where(x > 3, x, x * ((x + 3) / 6)))",
    **{
        f"{name}(a, b)": "a, b = tensor(a), tensor(b)\n"
        f"    edge((a / b - torch.round(a / b)).abs(), 0); return torch.{name}(a, b)"
        for name in ("remainder", "fmod")
    },
    "pow(a, b)": "return torch.pow(tensor(a), tensor(b))",
    "atan2(a, b)": "return torch.atan2(tensor(a), tensor(b))",
    "lerp(a, b, w)": "a, b, w = tensor(a), tensor(b), tensor(w)\n    return a + w * (b - a)",
    "gelu(x)": 'return torch.nn.functional.gelu(tensor(x), approximate="tanh")',
    "softplus(x)": "return -torch.nn.functional.logsigmoid(-tensor(x))",
    "stop_gradient(x)": "return tensor(x).detach()",
    "leaky_relu(x, slope=0.01)": "edge(x, 0); return torch.where(x > 0, x, slope * x)",
    "elu(x, alpha=1.0)": "edge(x, 0); x = tensor(x)\n"
    "    return torch.where(x > 0, x, alpha * torch.expm1(torch.clamp(x, max=0)))",
    "maximum(a, b)": "edge(a, b); return torch.maximum(tensor(a), tensor(b))",
    "minimum(a, b)": "edge(a, b); return torch.minimum(tensor(a), tensor(b))",
    "clip(x, low, high)": "edge(x, low); edge(x, high); x = tensor(x)\n"
    "    return torch.where(x < low, tensor(low), torch.where(x > high, tensor(high), x))",
    "where(condition, a, b)": "return torch.where(condition, tensor(a), tensor(b))",
    "mean(x)": "return tensor(x).mean(-1, keepdim=True)",
    "total(x)": "return tensor(x).sum(-1, keepdim=True)",
    # The gradient jumps where two units are equally large.
    "largest(x)": "x = tensor(x); top = x.topk(min(2, x.shape[-1]), -1).values\n"
    "    edge(top[..., 0] - top[..., -1] + (x.shape[-1] < 2), 0)\n"
    "    return x.amax(-1, keepdim=True)",
    "softmax(x)": "return torch.softmax(tensor(x), -1)",
    "layer_norm(x)": "x = tensor(x); x = x - x.mean(-1, keepdim=True)\n"
    "    return x * torch.rsqrt((x * x).mean(-1, keepdim=True) + 1e-5)",
    "rms_norm(x)": "x = tensor(x)\n"
    "    return x * torch.rsqrt((x * x).mean(-1, keepdim=True) + 1e-6)",
    "clip_gradient(x, bound)": "return ClipGradient.apply(tensor(x), tensor(bound))",
    "with_gradient(value, of)": "of = tensor(of)\n"
    "    return tensor(value).detach() + (of - of.detach())",
}
_BY_NAME = {signature.partition("(")[0]: signature for signature in _SPELLINGS}


def loop_text(cell: CellDraw, edges: bool = False, numbers: str = "float64") -> str:
    """The text of `loop(wx, R, R_diag, b, params, states)`; it needs `torch` and `DEVICE`.

    The cell's inputs are the last columns of wx.

    Args:
        cell: the cell.
        edges: whether `edge(a, b)` is called where values or slopes jump.
        numbers: the dtype of constants, and of functions of them.
    """
    parts = [_NUMBER.format(numbers=numbers)]
    for function in functions_used(cell):
        if function == "clip_gradient":
            parts.append(_CLIP_GRADIENT)
        if function == "repeat":
            parts.append(_REPEAT)
            continue
        signature = _BY_NAME[function]
        body = _SPELLINGS[signature].splitlines()
        lines = [part.strip() for line in body for part in line.split("; ")]
        kept = [line for line in lines if edges or not line.startswith("edge(")]
        parts.append(f"\ndef torch_{signature}:\n    " + "\n    ".join(kept) + "\n")
    return "\n".join(parts) + "\n\n" + "\n".join(_loop(cell, edges)) + "\n"


def _loop(cell: CellDraw, edges: bool) -> list[str]:
    names = [s.name for s in cell.states]
    listed = ", ".join(names)
    lines = [
        "def loop(_wx, _R, _R_diag, _b, _params, _states):",
        f"    {listed}, = _states",
        "    _history = [[] for _ in _states]",
        "    for _t in range(_wx.shape[1]):",
    ]
    lines += [f"        {c.name} = tensor({c.value!r})" for c in cell.constants]
    lines += [f"        {p.name} = _params[{p.name!r}].expand_as({names[0]})" for p in cell.params]
    first = len(cell.input_gates)
    lines += [
        f"        {value.name} = _wx[:, _t, :, :, {first + i}]"
        for i, value in enumerate(cell.inputs)
    ]
    lines += [f"        {line}" for line in _gates(cell)]
    lines += [f"        {target} = {_text(value, edges)}" for target, value in cell.body]
    for name in names:
        lines.append(f"        {name} = tensor(new_{name}).to({name}.dtype).expand_as({name})")
    lines += [
        f"        for _values, _value in zip(_history, ({listed},)):",
        "            _values.append(_value)",
        "    if not _wx.shape[1]:",
        "        return [_s[:, None][:, :0] for _s in _states], list(_states)",
        f"    return [torch.stack(_values, 1) for _values in _history], [{listed}]",
    ]
    return lines


def _gates(cell: CellDraw) -> list[str]:
    """G = x + R s + b, one line per gate; of one that is called, its product is a function."""
    inputs = [g.name for g in cell.input_gates]
    biases = [g.name for g in cell.bias_gates]
    dense, diagonal = cell.pairs(True), cell.pairs("diagonal")
    lines, called = [], cell.called
    for gate in cell.gates:
        terms = [f"_wx[:, _t, :, :, {inputs.index(gate.name)}]"] if gate.input else []
        products = []
        for i, (owner, source) in enumerate(dense):
            if owner == gate.name:
                # A choice between two numbers has the dtype of numbers.
                factor = "_y.to(_R.dtype)" if owner in called else source
                products.append(f'torch.einsum("noi,bni->bno", _R[{i}], {factor})')
        for i, (owner, source) in enumerate(diagonal):
            if owner == gate.name:
                products.append(f"_R_diag[{i}] * {'_y' if owner in called else source}")
        if gate.name in called:
            lines.append(f"_times_{gate.name} = lambda _y: {' + '.join(products)}")
            products = []
        terms += products
        if gate.bias:
            i = biases.index(gate.name)
            terms.append(f"(0 if _b is None else _b[{i}])")
        lines.append(f"_gate_{gate.name} = {' + '.join(terms) or '0'}")
    # All products read the previous states, under other names, since a gate may have any name.
    return [*lines, *(f"{g.name} = _gate_{g.name}" for g in cell.gates)]


def _text(node: Node, edges: bool) -> str:
    texts = [_text(a, edges) for a in node.args]
    if node.op == "name":
        return node.name
    if node.op == "number":
        # torch does not take whole numbers beyond 64 bits.
        value = float(node.value) if abs(node.value) > 2**53 else node.value
        return repr(value) if value >= 0 else f"({value!r})"
    if node.op in ("neg", "~"):
        return f"({'-' if node.op == 'neg' else '~'}{texts[0]})"
    if node.op == "**":
        return f"({texts[0]} ** {int(node.value)})"
    if node.op == "%":
        return f"torch_remainder({', '.join(texts)})"
    if node.op in RELATIONS and edges:
        return f"(edge({texts[0]}, {texts[1]}) {node.op} 0)"
    if node.op in (*BINARY, *RELATIONS, "&", "|"):
        return f"({texts[0]} {node.op} {texts[1]})"
    if node.op == "gate":
        return f"({node.name} + _times_{node.name}({texts[0]}))"
    if node.op == "repeat":
        return node.looped("torch_repeat", texts)
    return node.called(f"torch_{node.op}", texts)

"""All layers as one operator: opcheck, compilation, precision, dropout, export, other tracers."""

from __future__ import annotations

import ast
import subprocess
import sys

import pytest
import rnnc
import torch
from rnnc.runtime.call.forms import OWN
from rnnc.runtime.call.ragged import Ragged
from rnnc.runtime.call.settings import Asked, CallText, read_call, write_call
from rnnc.runtime.grad.operators.call import call_backward_op, call_op
from torch._dynamo.testing import CompileCounterWithBackend
from torch.utils.checkpoint import checkpoint, create_selective_checkpoint_contexts
from torch.utils.flop_counter import FlopCounterMode

pytestmark = pytest.mark.filterwarnings("ignore:rnnc has no kernels")
# A bias for each gate; a diagonal gate; several params.
WAYS = [
    ("lstm", "both ways"),
    ("unicornn", "jointly"),
    ("fastgrnn", "one way"),
    *[
        pytest.param(name, way, marks=pytest.mark.slow)
        for name, way in (
            ("lstm", "jointly"),
            ("lstm", "one way"),
            ("unicornn", "both ways"),
            ("fastgrnn", "jointly"),
        )
    ],
]


def arguments(cell, layers, way, dropout=0.0, keep=True, given=True, rows=(), all_states=False):
    """The tensors of a call, of 2 heads of 3 units, 3 rows and 4 steps, and its text.

    The parameters of one cell are given gate by gate, as earlier versions did.
    """
    both, joint = way != "one way", way == "jointly"
    rnn = rnnc.RNN(cell, 5, 6, heads=2, num_layers=layers, bidirectional=both, dtype=torch.float64)
    parts, directions = layers * (1 + both), 1 + both
    flat, form = rnn._weights_on(torch.device("cpu")), rnn._form
    if cell.name == "fastgrnn":
        flat, form = form.flat(flat, parts), OWN
    draw = torch.Generator().manual_seed(0)
    x = torch.randn(4, 3, 5, dtype=torch.float64, generator=draw, requires_grad=keep)
    states = [
        torch.rand(parts, 3, 6, dtype=torch.float64, generator=draw).requires_grad_(keep)
        for _ in cell.states
    ]
    drawn = []
    if dropout:
        drawn = [torch.rand(layers - 1, 4, 3, 6 * directions, generator=draw) > dropout]
    ragged = None
    if rows:
        value = torch.rand(parts, 6, dtype=torch.float64, generator=draw).requires_grad_(keep)
        ragged = Ragged(
            torch.tensor([4, 2, 3]) if "lengths" in rows else None,
            torch.rand(4, 3, generator=draw) < 0.4 if "reset" in rows else None,
            [value.clone() for _ in cell.states] if "values" in rows else None,
        )
    settings = rnn._settings(training=False)._replace(dropout=dropout, form=form)
    settings = settings._replace(choice=settings.choice._replace(precision="ieee"))
    kind = None if ragged is None else ragged.kind
    asked = Asked(kind, given, drawn=bool(dropout), joint=joint, all_states=all_states)
    present = tuple(w is not None for w in flat)
    weights = [w.detach().requires_grad_(keep) for w in flat if w is not None]
    others = [] if ragged is None else ragged.tensors()
    tensors = [x, *(states if given else ()), *others, *weights, *drawn]
    return tensors, write_call(CallText(settings, keep, asked, present))


@pytest.mark.parametrize(("name", "way"), WAYS)
def test_opcheck(name, way):
    cell = rnnc.cells.get(name)
    torch.library.opcheck(call_op, arguments(cell, 2, way, dropout=0.3))
    torch.library.opcheck(call_op, arguments(cell, 1, way, keep=False, given=False))


@pytest.mark.parametrize("rows", [("lengths",), ("lengths", "reset", "values")], ids=str)
def test_opcheck_of_rows(rows):
    torch.library.opcheck(call_op, arguments(rnnc.cells.gru, 2, "both ways", rows=rows))


def test_opcheck_of_all_states():
    torch.library.opcheck(call_op, arguments(rnnc.cells.lstm, 2, "jointly", all_states=True))


@pytest.mark.parametrize(
    ("name", "way"), [*WAYS[:2], pytest.param(*WAYS[2], marks=pytest.mark.slow), *WAYS[3:]]
)
def test_opcheck_of_the_backward(name, way):
    cell = rnnc.cells.get(name)
    tensors, text = arguments(cell, 2, way, 0.3)
    tensors, count = [t.detach() for t in tensors], len(cell.states)
    out = call_op(tensors, text)
    results = [out[0], *out[1 + count :]]
    seeds, missing = [torch.randn_like(each) for each in out[: 1 + count]], [None] * count
    every = [True] * (len(tensors) - 1) + [False]
    odd = [i % 2 == 1 and need for i, need in enumerate(every)]
    for given, needs in ((seeds, every), ([None, *seeds[1:]], odd), ([seeds[0], *missing], odd)):
        call = given, tensors, results, needs, text
        torch.library.opcheck(call_backward_op, call)
        found = call_backward_op(*call)
        assert len({d.untyped_storage().data_ptr() for d in found}) == len(found) == sum(needs)


def test_misuse_of_the_operator_is_refused():
    tensors, text = arguments(rnnc.cells.lstm, 2, "one way", keep=False)
    needing = [tensors[0].detach().requires_grad_(), *tensors[1:]]
    with pytest.raises(RuntimeError, match="none follows, and its tensors need gradients"):
        call_op(needing, text)
    tensors, text = arguments(rnnc.cells.lstm, 2, "one way")
    tensors = [tensor.detach() for tensor in tensors]
    x, h, _, W, *_ = tensors
    for place, bad in (
        (0, x[..., :4]),
        (0, x.float()),
        (0, x[0]),
        (1, h[:1]),
        (3, W[:, :1]),
        (3, W[:-1]),
        (3, W.unflatten(0, (2, -1))),
        (4, tensors[4].float()),
    ):
        with pytest.raises(rnnc.TensorError, match="write:"):
            call_op([*tensors[:place], bad, *tensors[place + 1 :]], text)
    for wrong in (tensors[1:], [*tensors, torch.ones(1, 4, 3, 6, dtype=torch.bool)]):
        with pytest.raises(rnnc.TensorError, match="write:"):
            call_op(wrong, text)
    out = call_op(tensors, text)
    results, needs = [out[0], *out[3:]], [True] * len(tensors)
    good = [[out[0], None, None], tensors, results, needs, text]
    for place, bad in (
        (0, [out[0][:1], None, None]),
        (0, [out[0], out[1].float(), None]),
        (0, [out[0]]),
        (1, tensors[1:]),
        (2, [*results[:-1], results[-1][:1]]),
        (2, results[:-3]),
        (2, []),
    ):
        with pytest.raises((rnnc.TensorError, IndexError), match=r"write:|range"):
            call_backward_op(*good[:place], bad, *good[place + 1 :])


def results(run, module, x):
    """The output, the last states and every gradient, by name."""
    x = x.detach().requires_grad_()
    torch.manual_seed(3)
    y, last = run(x)
    loss = sum((t * t.cos()).sum() for t in (y, *last))
    named = {"x": x, **dict(module.named_parameters())}
    module.zero_grad()
    loss.backward()
    found = {f"d {name}": tensor.grad for name, tensor in named.items()}
    return found | {"y": y.detach()} | {f"last {i}": s.detach() for i, s in enumerate(last)}


@pytest.mark.parametrize(
    "options", [{}, {"dropout": 0.5}, {"bidirectional": True, "batch_first": True}], ids=str
)
@pytest.mark.parametrize("name", ["lstm", "fastgrnn"])
def test_a_compiled_module_equals_an_eager_one(name, options):
    torch._dynamo.reset()
    cell = rnnc.cells.get(name)
    rnn = rnnc.RNN(cell, 5, 6, heads=2, num_layers=3, dtype=torch.float64, **options)
    compiled = torch.compile(rnn, fullgraph=True, backend="aot_eager")
    x = torch.randn(4, 3, 5, dtype=torch.float64)
    wanted, found = results(rnn, rnn, x), results(compiled, rnn, x)
    assert set(found) == set(wanted)
    for key, right in wanted.items():
        torch.testing.assert_close(found[key], right, rtol=1e-12, atol=1e-12, msg=key)


def test_new_sizes_compile_once_more_and_then_never():
    torch._dynamo.reset()
    rnn = rnnc.RNN(rnnc.cells.gru, 5, 6, bidirectional=True)
    counter = CompileCounterWithBackend("aot_eager")

    def twice(x):
        return rnn(torch.cat((x, x), 1))  # of a batch that is known to be even

    compiled = torch.compile(twice, fullgraph=True, backend=counter)
    for steps, batch in ((4, 3), (7, 5), (9, 2), (3, 8), (6, 6)):
        x = torch.randn(steps, batch, 5)
        for key, right in results(twice, rnn, x).items():
            torch.testing.assert_close(results(compiled, rnn, x)[key], right, msg=key)
    assert counter.frame_count <= 2


@pytest.mark.parametrize("shape", [(4, 1, 3), (4, 3), (1, 2, 3)], ids=str)
@pytest.mark.parametrize("both", [False, True], ids=("forwards", "both ways"))
def test_sizes_that_a_dynamic_graph_knows(both, shape):
    """Torch takes 1 for a number, and numbers that a module has for symbols."""
    rnn, x = rnnc.RNN(rnnc.cells.gru, 3, 6, num_layers=2, bidirectional=both), torch.randn(shape)
    compiled = torch.compile(rnn, fullgraph=True, dynamic=True, backend="eager")
    torch.testing.assert_close(compiled(x)[0], rnn(x)[0])


def test_the_reference_breaks_a_graph_once_per_layer():
    """Torch cannot trace it, and warned of its caches."""
    torch._dynamo.reset()
    rnn = rnnc.RNN(rnnc.cells.lstm, 3, 4, num_layers=2, backend="reference")
    counter, x = CompileCounterWithBackend("eager"), torch.randn(5, 2, 3)
    torch.testing.assert_close(torch.compile(rnn, backend=counter)(x)[0], rnn(x)[0])
    # Before, between and after its layers; a call of a nested function may split the last.
    assert counter.frame_count <= 4
    with pytest.raises(torch._dynamo.exc.Unsupported, match="scan_reference"):
        torch.compile(rnn, backend="eager", fullgraph=True)(x)


def test_the_flag_of_precision_is_a_constant_of_the_graph(monkeypatch):
    """A graph for each value: that of the forward holds for its backward."""
    seen = []

    def rounds(self, dtype, precision):
        if precision is None:
            return bool(torch.backends.cudnn.rnn.fp32_precision == "tf32")
        return precision == "tf32"

    def backend(graph, example):
        calls = [node for node in graph.graph.nodes if node.target is call_op]
        seen.extend(read_call(node.args[1]).settings.choice.precision for node in calls)
        return graph.forward

    monkeypatch.setattr(rnnc.runtime.cpu.target.CpuTarget, "rounds", rounds)
    torch._dynamo.reset()
    rnn = rnnc.RNN(rnnc.cells.gru, 5, 6)
    compiled = torch.compile(rnn, fullgraph=True, backend=backend)
    for value in ("tf32", "ieee", "tf32", "ieee"):
        monkeypatch.setattr(torch.backends.cudnn.rnn, "fp32_precision", value)
        compiled(torch.randn(4, 3, 5))
    assert seen == ["tf32", "ieee"]
    torch._dynamo.reset()
    rnn.precision = "tf32"
    compiled(torch.randn(4, 3, 5))
    assert seen[2:] == ["tf32"]


@pytest.mark.parametrize("save", ["gates", "states"])
@pytest.mark.parametrize("reentrant", [False, True, "selective"])
def test_checkpoints(reentrant, save):
    rnn = rnnc.RNN(rnnc.cells.lstm, 4, 6, num_layers=2, save=save, dtype=torch.float64)
    x = torch.randn(5, 3, 4, dtype=torch.float64)
    calls = []

    def policy(context, op, *args, **kwargs):
        if op is call_op:
            calls.append(context.is_recompute)
        return torch.utils.checkpoint.CheckpointPolicy.MUST_SAVE

    def run(x):
        if reentrant == "selective":
            fn = lambda: create_selective_checkpoint_contexts(policy)  # noqa: E731
            y, *last = checkpoint(
                lambda x: (lambda y, last: (y, *last))(*rnn(x)),
                x,
                use_reentrant=False,
                context_fn=fn,
            )
        else:
            y, *last = checkpoint(
                lambda x: (lambda y, last: (y, *last))(*rnn(x)), x, use_reentrant=reentrant
            )
        return y, last

    wanted, found = results(rnn, rnn, x), results(run, rnn, x)
    for key, right in wanted.items():
        torch.testing.assert_close(found[key], right, msg=key)
    assert bool(calls) is (reentrant == "selective")


def test_the_flop_counter_counts_all_products():
    """T B (W and R), and twice that in the backward less the gradient of x."""
    rnn = rnnc.RNN(rnnc.cells.lstm, 4, 8, num_layers=2)
    x = torch.randn(5, 2, 4)
    with FlopCounterMode(display=False) as counter:
        y, _ = rnn(x)
    inputs = [2 * 5 * 2 * size * 8 * 4 for size in (4, 8)]
    recurrent = 2 * 5 * 2 * 8 * 8 * 4
    once = sum(inputs) + 2 * recurrent
    assert counter.get_total_flops() == once
    with counter:
        y.sum().backward()
    assert counter.get_total_flops() == 2 * once - inputs[0]


def test_export_and_its_file(tmp_path):
    rnn = rnnc.RNN(rnnc.cells.lstm, 4, 6, num_layers=2).eval()
    x = torch.randn(5, 3, 4)
    sizes = {0: torch.export.Dim("steps"), 1: torch.export.Dim("batch")}
    program = torch.export.export(rnn, (x,), dynamic_shapes=(sizes,))
    (node,) = [n for n in program.graph.nodes if n.target is call_op]
    # The flag of precision is read where the program runs.
    assert read_call(node.args[1]).settings.choice.precision is None
    torch.export.save(program, tmp_path / "rnn.pt2")
    loaded = torch.export.load(tmp_path / "rnn.pt2").module()
    for shape in ((5, 3, 4), (7, 2, 4)):
        x = torch.randn(shape)
        assert torch.equal(loaded(x)[0], rnn(x)[0])


@pytest.mark.parametrize("first", ["import rnnc, torch", "import torch, rnnc"])
def test_a_process_that_imports_rnnc_loads_an_export(first, tmp_path):
    rnn, x, path = rnnc.RNN(rnnc.cells.lstm, 4, 6), torch.ones(5, 3, 4), tmp_path / "rnn.pt2"
    torch.export.save(torch.export.export(rnn, (x,)), path)
    code = (
        f"{first}\nrun = torch.export.load({str(path)!r}).module()\n"
        "print(run(torch.ones(5, 3, 4))[0].tolist())"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert torch.equal(torch.tensor(ast.literal_eval(done.stdout)), rnn(x)[0])


@pytest.mark.slow
def test_an_ahead_of_time_library(tmp_path):
    rnn = rnnc.RNN(rnnc.cells.lstm, 4, 6, num_layers=2).eval()
    x = torch.randn(5, 3, 4)
    with torch.no_grad():
        program = torch.export.export(rnn, (x,))
        path = torch._inductor.aoti_compile_and_package(
            program, package_path=str(tmp_path / "m.pt2")
        )
        run = torch._inductor.aoti_load_package(path)
        torch.testing.assert_close(run(x)[0], rnn(x)[0])


@pytest.mark.parametrize("shape", [(0, 3), (4, 0)], ids=("no step", "no row"))
def test_a_compiled_module_of_no_step_or_row(shape):
    torch._dynamo.reset()
    rnn = rnnc.RNN(rnnc.cells.lstm, 5, 6, num_layers=2, bidirectional=True, dtype=torch.float64)
    compiled = torch.compile(rnn, fullgraph=True, backend="aot_eager")
    x = torch.randn(*shape, 5, dtype=torch.float64)
    for key, right in results(rnn, rnn, x).items():
        torch.testing.assert_close(results(compiled, rnn, x)[key], right, msg=key)


def test_stored_reset_values_get_no_gradient():
    torch._dynamo.reset()
    rnn, reset = rnnc.RNN(rnnc.cells.elman, 5, 6), torch.rand(4, 3) < 0.5
    x, values = torch.randn(4, 3, 5), [torch.randn(1, 4, 3, 6, requires_grad=True)]
    compiled = torch.compile(rnn, fullgraph=True, backend="aot_eager")
    compiled(x, reset=reset, reset_to=values)[0].sum().backward()
    assert values[0].grad is None


def test_both_directions_of_a_cell_with_an_input_compile():
    @rnnc.cell
    def gated(z: rnnc.Gate, n: rnnc.Gate, h: rnnc.State, *, keep: rnnc.Input):
        """Has an input that no weight multiplies."""
        return keep * rnnc.sigmoid(z) * h + rnnc.tanh(n)

    torch._dynamo.reset()
    rnn = rnnc.RNN(gated, 5, 6, bidirectional=True, dtype=torch.float64)
    compiled = torch.compile(rnn, fullgraph=True, backend="aot_eager")
    x, keep = torch.randn(4, 3, 5, dtype=torch.float64), torch.rand(4, 3, dtype=torch.float64)
    found, wanted = (run(x, inputs={"keep": keep})[0] for run in (compiled, rnn))
    torch.testing.assert_close(found, wanted)

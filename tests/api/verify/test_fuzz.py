"""The fuzzer: random cells against plain torch loops, its judge, its shrinking and its report."""

from __future__ import annotations

import time
from collections import Counter
from dataclasses import replace

import pytest
import torch
from rnnc.cellspec.functions import TABLE
from rnnc.verify.draw.case import Settings, draw_case
from rnnc.verify.draw.tree import Case, CellDraw, GateDraw, Node, ValueDraw
from rnnc.verify.draw.write_cell import cell_text
from rnnc.verify.fuzz import ours
from rnnc.verify.fuzz.draws import drawn_names
from rnnc.verify.fuzz.judge import judge, near_border
from rnnc.verify.fuzz.report import report
from rnnc.verify.fuzz.run import Outcome, run_case
from rnnc.verify.fuzz.shrink import shrink, smaller_cells
from rnnc.verify.fuzz.tensors import VIEWS, draw_values, lay
from rnnc.verify.fuzz.twin import loop_of, run_twin
from rnnc.verify.fuzz.worker import Worker

CELLS, PARTS, SEED = 150, 2, 20
RUN = 10  # of them in make test: some are compiled twice, for both directions of time or for masks


@pytest.mark.parametrize(
    ("first", "end"), [(0, RUN), pytest.param(RUN, CELLS, marks=pytest.mark.slow)]
)
@pytest.mark.parametrize("part", range(PARTS))
def test_random_cells_are_right(part, first, end):
    """A part each for two cores."""
    began, outcomes = time.monotonic(), []
    for number in range(first + part, end, PARTS):
        case = draw_case(SEED, number, Settings(compiled=0.0))
        outcomes.append(run_case(case))
        if outcomes[-1].verdict == "wrong":
            pytest.fail(report(case, (f"cell {number} of seed {SEED}", *outcomes[-1].reasons)))
    discarded = sum(o.verdict == "discarded" for o in outcomes)
    assert discarded <= 0.1 * len(outcomes)
    print(f"{len(outcomes)} cells, {discarded} discarded, {time.monotonic() - began:.0f} s")


def test_some_cells_have_the_flags_that_ship():
    cases = [draw_case(SEED, number, Settings()) for number in range(CELLS)]
    assert sum(case.flags == "shipped" for case in cases) >= 15


def test_a_case_depends_on_its_number_alone():
    assert draw_case(3, 5, Settings()) == draw_case(3, 5, Settings())
    assert draw_case(3, 5, Settings()) != draw_case(3, 6, Settings())


def test_draws_everything():
    cases = [draw_case(1, number, Settings(compiled=0.1)) for number in range(600)]
    operations = {n.op for c in cases for _, value in c.cell.body for n in value.walk()}
    functions = """sigmoid tanh relu leaky_relu elu gelu silu softplus logsigmoid exp log sqrt rsqrt
    abs sign square reciprocal sin cos erf maximum minimum clip where stop_gradient clip_gradient
    heaviside floor ceil trunc round atan asinh sinh cosh tan softsign hardsigmoid hardtanh
    hardswish mish relu6 log1p expm1 log2 exp2 pow remainder fmod atan2 lerp
    with_gradient""".split()
    assert {*functions} == {*TABLE}
    used = {*functions, "repeat", *"+ - * / % ** neg < <= > >= == != & | ~".split()}
    assert operations >= used
    keywords = {k for c in cases for _, v in c.cell.body for n in v.walk() for k in n.keywords}
    assert keywords == {*"x slope alpha a b low high condition bound value of".split()}
    assert {len(c.cell.states) for c in cases} == {1, 2, 3, 4, 5}
    assert {g.recurrent for c in cases for g in c.cell.gates} == {True, False, "diagonal"}
    assert {c.through for c in cases} == {"scan", "module", "step", "compiled", "inductor"}
    assert {c.dtype for c in cases} == {"float64", "float32", "bfloat16", "float16"}
    assert {v.partition(":")[0] for c in cases for _, v in c.views} == set(VIEWS)
    for size in ("batch", "steps"):
        assert {getattr(c, size) for c in cases} >= {0, 1, 7, 17}
    for option in ("bias", "states", "json", "batch_first", "reverse", "both"):
        assert {getattr(c, option) for c in cases} == {True, False}
    assert {c.reset_to for c in cases} == {"init", "shared", "rows", "stored"}
    for through in ("scan", "module"):
        kinds = {(bool(c.lengths), bool(c.resets)) for c in cases if c.through == through}
        assert len(kinds) == 4
    forms = {i.form for c in cases for i in c.cell.inputs}
    assert forms == {"full", "rows", "steps", "units"}
    assert not any(c.both for c in cases if c.through in ("scan", "step"))
    assert any(c.without for c in cases)
    assert any(c.silent for c in cases)


def kinds_of_recurrences(cases):
    """How many cells are of each kind, and how many parts; those of maxima and pairs by name."""
    found = Counter()
    for case in cases:
        recurrence = ours.cell_of(case).recurrence
        found[recurrence.kind] += 1
        for part in recurrence.parts:
            kind = "maximum" if part.maximum else part.kind
            found[f"{kind} of {len(part.states)}"] += 1
    return found


def test_a_hundred_cases_have_recurrences_of_all_kinds():
    found = kinds_of_recurrences(draw_case(1, number, Settings()) for number in range(100))
    assert min(found["affine"], found["diagonal"]) >= 10
    assert found["dense"] >= 40
    wanted = ("affine of 1", "affine of 2", "maximum of 1", "diagonal of 1", "output of 1")
    assert min(found[kind] for kind in wanted) >= 2


JUMPING = "floor ceil trunc round heaviside remainder fmod %".split()


def test_operands_in_short_dtypes_are_apart_from_jumps():
    """Few cases are discarded, though each has a function that jumps."""
    cases = (draw_case(7, number, Settings(compiled=0.0, shipped=0)) for number in range(4000))
    chosen = []
    for case in cases:
        operations = {n.op for _, value in case.cell.body for n in value.walk()}
        # The units of `largest` may be equal after rounding, whatever stands beside it.
        jumps = operations & {*JUMPING} and "largest" not in operations
        if case.dtype in ("bfloat16", "float16") and jumps and case.batch:
            chosen.append(case)
    discarded = 0
    for case in chosen[:60]:
        values, seeds = draw_values(case, case.seed)
        _, edges = run_twin(case, values, seeds, torch.float64)
        _, rough = run_twin(case, values, seeds, getattr(torch, case.dtype))
        discarded += near_border(case, edges, rough) is not None
    assert len(chosen) > 60
    assert discarded <= 3


def test_a_function_whose_name_an_argument_has_is_called_by_its_whole_name():
    found = Node("+", (Node("floor", (Node("name", name="floor"),)), Node("name", name="s")))
    body = Node("%", (found, Node("pow", (Node("number", value=2), Node("name", name="s")))))
    cell = CellDraw(
        *((), (ValueDraw("s"),), (ValueDraw("floor"),), (), ("s", "floor")),
        (("new_s", body),),
    )
    assert "new_s = ((rnnc.floor(floor) + s) % (2 ** s))" in cell_text(cell)
    assert run_case(Case(cell)).verdict == "right"


@pytest.mark.parametrize("view", [*VIEWS[:3], "expanded:1", "negative"])
def test_a_view_has_the_values(view):
    values = torch.randn(3, 1, 5).expand(3, 4, 5).clone()
    laid = lay(values, view)
    assert torch.equal(laid, values)
    assert laid.stride() != values.stride() or laid.storage_offset() or laid.is_neg()


def results(dtype="float64"):
    """A case, and what the loop gives for it."""
    case = next(
        c
        for c in (draw_case(2, n, Settings(compiled=0.0)) for n in range(200))
        if c.dtype == dtype and c.through == "scan" and c.batch and c.steps > 1 and not c.without
        if not c.silent and c.cell.pairs(True)
    )
    values, seeds = draw_values(case, case.seed)
    truth, _ = run_twin(case, values, seeds, torch.float64)
    return case, truth


def test_constants_of_a_loop_in_float32_are_float32():
    """As in kernels: a loop that knew their functions exactly would allow no rounding of them."""
    found = Node("+", (Node("name", name="s"), Node("tanh", (Node("name", name="c"),))))
    cell = CellDraw(
        (), (ValueDraw("s"),), (), (ValueDraw("c", 0.7),), ("s", "c"), (("new_s", found),)
    )
    wx = torch.zeros(1, 1, 1, 1, 0, dtype=torch.float64)
    zero = torch.zeros(1, 1, 1, dtype=torch.float64)
    for dtype in (torch.float64, torch.float32):
        loop, _ = loop_of(Case(cell), dtype)
        _, (last,) = loop(wx, None, None, None, {}, (zero,))
        assert last.item() == torch.tensor(0.7, dtype=dtype).tanh().item()


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_each_result_is_judged(dtype):
    case, truth = results(dtype)
    for name, exact in truth.items():
        for factor, wrong in ((1e-8, False), (1e-2, True)):
            share = factor * (1e-3 if dtype == "float64" else 1)
            found = {n: t.to(getattr(torch, dtype)) for n, t in truth.items()}
            off = exact.clone().flatten()
            # In the gate that has the largest value, since each is judged on its own scale.
            off[off.abs().argmax()] += share * exact.abs().max()
            found[name] = off.view(exact.shape).to(found[name].dtype)
            named = [w.name for w in judge(case, found, truth, truth)]
            expected = wrong and bool(exact.abs().max())
            assert bool(named) == expected, (name, factor, named)


def test_a_wrong_shape_dtype_or_number_is_judged():
    case, truth = results()
    name = next(iter(truth))
    for change in (lambda t: t[:, :1], lambda t: t.float(), lambda t: t * float("nan")):
        assert judge(case, truth | {name: change(truth[name])}, truth, truth)
    assert judge(case, {n: t for n, t in truth.items() if n != name}, truth, truth)


def test_shrinks_to_what_matters():
    """A case fails here where its cell has a silu: little else stays."""

    def fails(case: Case) -> bool:
        return any(n.op == "silu" for _, value in case.cell.body for n in value.walk())

    case = next(c for c in (draw_case(4, n, Settings()) for n in range(100)) if fails(c))
    smallest = shrink(case, fails, smaller_cells)
    assert fails(smallest)
    assert len(smallest.cell.states) == 1
    assert len(smallest.cell.gates) + len(smallest.cell.params) <= 1
    assert (smallest.batch, smallest.steps, smallest.heads, smallest.dim) == (1, 1, 1, 1)
    assert smallest.through == "scan"
    assert not smallest.views


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_a_loop_in_a_short_dtype_multiplies_a_choice_between_two_numbers(dtype):
    """It has the dtype of numbers, float32, and torch multiplies no matrices of two dtypes."""
    h = Node("name", name="h")
    zero, one, two = (Node("number", value=float(n)) for n in range(3))
    choice = Node("where", (Node(">", (h, zero)), one, two))
    gate = GateDraw("g", input=False)
    cell = CellDraw(
        (gate,),
        (ValueDraw("h"),),
        (),
        (),
        ("h", "g"),
        (("new_h", Node("gate", (choice,), name="g")),),
    )
    loop, _ = loop_of(Case(cell), dtype)
    like = {"dtype": dtype}
    wx, R = torch.zeros(1, 1, 1, 2, 0, **like), torch.ones(1, 1, 2, 2, **like)
    _, (last,) = loop(wx, R, None, None, {}, (torch.tensor([[[-1.0, 1.0]]], **like),))
    assert last.tolist() == [[[3, 3]]]


def test_smaller_cells_call_no_gate_without_a_product():
    cases = [c for c in (draw_case(33, n, Settings()) for n in range(40)) if c.cell.called]
    smaller = [less for case in cases for less in smaller_cells(case)]
    assert smaller
    for less in smaller:
        assert all(g.recurrent for g in less.cell.gates if g.name in less.cell.called)


def test_smaller_cells_call_no_gate_that_has_gone():
    def called(case: Case) -> set[str]:
        nodes = (node for _, value in case.cell.body for node in value.walk())
        return {node.name for node in nodes if node.op == "gate"}

    cases = [c for c in (draw_case(33, n, Settings()) for n in range(40)) if called(c)]
    smaller = [less for case in cases for less in smaller_cells(case)]
    assert smaller
    for less in smaller:
        assert called(less) <= {gate.name for gate in less.cell.gates}


@pytest.mark.parametrize(
    ("through", "option"),
    [
        ("scan", ""),
        ("scan", "reverse"),
        ("scan", "stored"),
        ("module", ""),
        ("module", "both"),
        ("module", "rows"),
        ("step", ""),
        ("scan", "inputs"),
        ("module", "inputs"),
        ("step", "inputs"),
    ],
)
def test_a_report_runs_and_can_fail(through, option):
    case = next(
        c
        for c in (draw_case(6, n, Settings(compiled=0.0)) for n in range(300))
        if c.through == through and c.dtype == "float64"
        if c.cell.inputs or option != "inputs"
        if option in ("inputs", c.reset_to if c.rows else "reverse" * c.reverse + "both" * c.both)
        if 0 < c.batch * c.steps * c.heads * c.dim < 200 and run_case(c) == Outcome("right")
    )
    text = report(replace(case, flags="shipped"), ("a reason",))
    scope: dict = {}
    exec(compile(text, "<report>", "exec"), scope)
    scope["test_drawn"]()
    broken = text.replace(
        "wanted = run(twin,", "wanted = run(lambda t: {n: 2 * v for n, v in twin(t).items()},"
    )
    exec(compile(broken, "<report>", "exec"), scope)
    with pytest.raises(AssertionError):
        scope["test_drawn"]()


def test_a_scan_draws_the_numbers_of_its_loop(monkeypatch):
    """And a call that draws others, as from another generator, is wrong."""
    drawing = [
        c
        for c in (draw_case(0, n, Settings(compiled=0.0, shipped=0)) for n in range(60))
        if drawn_names(c) and c.batch * c.steps
    ][:3]
    assert [run_case(case).verdict for case in drawing] == ["right"] * 3
    monkeypatch.setattr(ours, "generator_of", lambda case: torch.Generator().manual_seed(1))
    assert "wrong" in {run_case(case).verdict for case in drawing}


def test_an_idle_process_ends_by_itself_and_a_busy_one_is_killed():
    idle, busy = Worker(), Worker()
    busy.case = draw_case(SEED, 0, Settings(compiled=0.0))
    idle.stop()
    busy.stop()
    assert idle.process.exitcode == 0  # one that is killed leaves its semaphores to the system
    assert busy.process.exitcode < 0

"""What the page of `rnnc report` shows."""

from __future__ import annotations

import base64
import json
import math
import re
import xml.etree.ElementTree as ET

import pytest
import rnnc
from rnnc.cellspec.functions import TABLE
from rnnc.cli.app import app
from rnnc.cli.report import command_of
from rnnc.codegen.cuda.limits import limits_of
from rnnc.codegen.cuda.planner import plans_for
from rnnc.report.contents import Report
from rnnc.report.figures.accuracy import accuracy_of
from rnnc.report.figures.plot import Curve
from rnnc.report.figures.timeline import timeline_of
from rnnc.report.mathml import equations_of
from rnnc.report.measured import Measured
from rnnc.report.page import page_of
from rnnc.report.terms import Terms
from typer.testing import CliRunner

HOSTILE = "</script><script>alert(1)</script><img src=x onerror=alert(2)>\"'&"


def test_it_shows_the_equations_the_plan_and_what_binds(lstm, parsed):
    text = parsed(lstm).text
    assert "Long short-term memory (Hochreiter & Schmidhuber, 1997)" in text
    plan = rnnc.plan_for(rnnc.cells.lstm, rnnc.Shape(12, 64), limits_of("H200"))
    for kernel in (plan.forward, plan.backward):
        assert kernel.mapping in text
        assert kernel.binding in text
        assert f"about {kernel.nanoseconds} ns per step" in text
    assert "12 bytes per step and unit" in text  # four gates, two states, two bytes each
    assert rnnc.cells.lstm.fingerprint in text


def test_the_figures_can_be_saved(lstm):
    (found,) = json.loads(base64.b64decode(re.search(r"base64,([^\"]+)", lstm)[1]))
    assert rnnc.Cell.from_json(json.dumps(found["cell"])) == rnnc.cells.lstm
    assert [k["direction"] for k in found["kernels"]] == ["forward", "backward"]


def test_every_cell_of_the_library_has_equations_as_xml():
    for name in rnnc.cells.names():
        cell = rnnc.cells.get(name)
        terms = Terms.of(cell)
        equations = equations_of(cell, terms)
        assert {g.name for g in cell.gates} <= {e.name for e in equations}
        ids, marked = [], set()
        for equation in equations:
            root = ET.fromstring(equation.math)
            assert root.tag == "math"
            ids += [e.get("id") for e in root.iter() if e.get("id")]
            marked |= {e.get("data-t") for e in root.iter() if e.get("data-t")}
        assert len(ids) == len(set(ids))
        assert marked == set(terms.numbers.values()), name


def test_every_function_has_an_equation_and_a_power_is_raised():
    def equation(update):
        cell = rnnc.Cell(
            name="one",
            gates=(rnnc.Gate(name="g"),),
            states=(rnnc.State(name="h"),),
            updates=(f"{update} + g*h",),
        )
        return equations_of(cell, Terms.of(cell))[-1].math

    for name, row in TABLE.items():
        if not row.free_name or name == "pow":
            continue
        arguments = ("g", "h", "2")[: len(row.arguments)]
        word = {"asinh": "asinh", "atan": "arctan"}.get(name, name)
        assert f"<mi>{word}</mi>" in equation(f"{name}({', '.join(arguments)})"), name
    assert equation("pow(g, h)").count("msup") == 2
    assert "<mi>pow</mi>" not in equation("pow(g, 0.3)*g")


def test_an_equation_reads_as_its_author_wrote_it():
    @rnnc.cell
    def grouped(g: rnnc.Gate, h: rnnc.State, alpha: rnnc.Constant = rnnc.constant(0.1)):
        return (1 - alpha) * h - (g - h) / 2 + rnnc.tanh(g) ** 2

    math = equations_of(grouped, Terms.of(grouped))[-1].math
    text = "".join(ET.fromstring(math).itertext())
    assert "".join(text.split()) == "ht=(1−α)\u2062ht−1−gt−ht−12+tanh\u2061(gt)2"


def test_a_cell_without_a_plan_gets_a_page_with_the_reason(parsed, page):
    shown = page(rnnc.cells.lstm, shape=rnnc.Shape(1, 4096), variant="block")
    text = "".join(parsed(shown).texts)
    assert "No plan" in text
    assert "it wants a head dim of at most 128" in text
    assert "every unit has a warp" in text


def test_two_cells_stand_side_by_side_and_what_differs_is_marked(parsed, page):
    text = page(rnnc.cells.elman, rnnc.cells.irnn)
    shown = parsed(text)
    assert len(shown.ids) == len(set(shown.ids))
    assert [t for t, _ in shown.tags].count("h1") == 2
    rows = re.findall(r"<tr( class=\"differs\")?><th scope=\"row\">([^<]*)</th>", text)
    marked = {name: bool(mark) for mark, name in rows}
    assert marked["saved for the backward"] != marked["states"]
    assert not marked["states"]


def test_measured_times_and_errors_are_labelled(monkeypatch, parsed):
    cell, shape = rnnc.cells.elman, rnnc.Shape(12, 64)
    found = Measured((500.0, 800.0), "", (Curve("bfloat16, GPU", ((1, 1e-3), (9, 2e-3))),), "a GPU")
    report = Report.of(cell, shape, limits_of("H200"), measure=lambda *_: found)
    text = " ".join("".join(parsed(page_of([report], "rnnc report")).texts).split())
    estimate = report.choice.plan.forward.nanoseconds
    assert "Measured on a GPU: 500 ns per step" in text
    assert f"the model is off by {100 * (estimate / 500 - 1):+.0f} %" in text
    assert "bfloat16: measured on a GPU" in text
    assert "Measured: forward 500 ns, backward 800 ns per step." in text
    assert "This cell's dots were measured on a GPU." in text
    dots = report.rooflines.latency.dots
    assert [dot.y for dot in dots if not dot.other] == [0.5, 0.8]


def test_errors_are_of_the_cpus_kernels(lstm, parsed):
    curves = {c.name: c for c in accuracy_of(rnnc.cells.lstm, rnnc.Shape(12, 64)).plot.curves}
    assert 1e-8 < curves["float32, CPU"].points[-1][1] < 1e-5
    assert curves["float64, CPU"].points[-1][1] < 1e-14
    text = parsed(lstm).text
    assert "bfloat16 and float16: measured on one NVIDIA H200" in text


def test_the_errors_of_a_cell_that_grows_end_where_it_overflows():
    found = accuracy_of(rnnc.cells.indrnn, rnnc.Shape(1, 32))
    assert found.plot.curves
    for curve in found.plot.curves:
        assert all(math.isfinite(error) for _, error in curve.points)


def test_a_part_that_others_hide_is_drawn_over_them():
    cell, shape, limits = rnnc.cells.lstm, rnnc.Shape(1, 1024, 64), limits_of("H200")
    plans = [p for p in plans_for(cell, shape, limits) if p.forward.kind == "grid"]
    lines = [timeline_of(cell, shape, limits, p.forward) for p in plans]
    for line in lines:
        shown = sum(s.length - s.hidden for s in line.spans if s.name != "memory")
        assert shown == line.total
    assert any(s.hidden for line in lines for s in line.spans if s.name != "memory")


def test_a_notebook_shows_the_card_and_the_plan():
    shown = rnnc.cells.get("gru")._repr_html_()
    plan = rnnc.plan_for(rnnc.cells.gru, rnnc.Shape(1, 64), limits_of("H200"))
    assert shown.count("<math") == len(rnnc.cells.gru.gates) + 1
    assert plan.forward.kind in shown
    assert plan.forward.binding in shown
    hostile = rnnc.cells.gru.model_copy(update={"doc": HOSTILE})._repr_html_()
    assert "<script" not in hostile


def test_the_command_writes_the_page(tmp_path):
    file = tmp_path / "page.html"
    result = CliRunner().invoke(app, ["report", "elman", "--heads", "12", "-o", str(file)])
    assert result.exit_code == 0, result.output
    assert "<h1>elman</h1>" in file.read_text()
    assert str(file) in result.output


@pytest.mark.parametrize(
    ("name", "found"),
    [(".", "a folder"), ("", "a folder"), ("none/page.html", "no folder none")],
)
def test_a_file_that_cannot_be_written_is_refused_before_the_work(
    name, found, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(Report, "of", lambda *_: pytest.fail("the work has begun"))
    result = CliRunner().invoke(app, ["report", "elman", "-o", name])
    assert result.exit_code == 1
    assert isinstance(result.exception, SystemExit)
    assert f"\n  found:  {found}\n  wanted: a file that rnnc may write\n" in result.stderr


def test_the_answers_of_an_alternating_plan_say_that_it_is_of_both_directions():
    report = Report.of(rnnc.cells.lstm, rnnc.Shape(1, 4096), limits_of("A100"))
    assert report.choice.plan.variant == "alternating"
    found = {answer.question: answer.answer for answer in report.answers}
    assert "both directions: their sum counts" in found["Why this plan?"]
    assert found["What binds?"].startswith("Nothing binds this plan.")


def test_what_a_call_draws_is_kept_and_read_again():
    cell = rnnc.zoneout("lstm", {"h": 0.1, "c": 0.1})
    report = Report.of(cell, rnnc.Shape(12, 64), limits_of("H200"))
    kept = "sigmoid_i, sigmoid_f, tanh_z, sigmoid_o, zoneout_h, zoneout_c, and its states"
    assert report.answers[0].answer == f"{kept}: 16 bytes per step and unit."
    card, inputs = report.card, 2
    assert card.work[1].reads == 2 * (len(card.kept) + len(card.reads) + inputs + 1)
    moved = {move.what: move.size for move in report.kernels[1].chip.moves}
    assert moved["inputs of the cell"] == inputs * 16 * 12 * 64 * 2  # 16 rows, two bytes


def test_a_long_docstring_leaves_room_for_the_answers(page):
    doc = "The first.\n\nThe second\nparagraph.\n\nThe third."
    text = page(rnnc.cells.elman.model_copy(update={"doc": doc}))
    order = [text.index(words) for words in ("The first.", "What does it keep?", "The second p")]
    assert order == sorted(order)
    assert "The third." in text


def test_the_command_that_measures_names_no_gpu():
    words = command_of([rnnc.cells.elman], rnnc.Shape(2, 32), "NVIDIA H200", "auto", measure=True)
    assert words.endswith("--variant auto --measure")
    assert "NVIDIA" not in words
    words = command_of([rnnc.cells.elman], rnnc.Shape(2, 32), "H200", "auto")
    assert words.endswith("--variant auto --gpu H200")


def test_words_in_a_product_have_a_sign_between_them():
    @rnnc.cell
    def words(
        g: rnnc.Gate,
        memory: rnnc.State,
        h: rnnc.State,
        damp: rnnc.Constant = rnnc.constant(0.3),
        beta: rnnc.Constant = rnnc.constant(0.9),
    ):
        return damp * rnnc.maximum(g, 0) + g * memory, beta * g * damp * g + h * (damp * g) * beta

    shown, last = (
        "".join(ET.fromstring(e.math).itertext()) for e in equations_of(words, Terms.of(words))[-2:]
    )
    assert "".join(shown.split()) == "memoryt=damp·max\u2061(gt,0)+gt·memoryt−1"
    assert "".join(last.split()) == "ht=β\u2062gt·damp·gt+ht−1\u2062(damp·gt)\u2062β"
    assert words.latex().count(r"\cdot") == 5


def test_long_equations_scroll_and_lines_of_nested_terms_lie_apart(lstm):
    style = " ".join(re.search(r"<style>(.*?)</style>", lstm, re.DOTALL)[1].split())
    assert re.search(r"\.equation \{[^}]*overflow: auto hidden;", style)
    assert re.search(r"\.term\[class\*=\" c\"\] \{ padding-bottom: 3px; \}", style)
    assert "overflow: auto hidden" in rnnc.cells.gru._repr_html_()

"""The page of `rnnc report`: what it shows, what it discloses, and hostile input."""

from __future__ import annotations

import base64
import getpass
import hashlib
import html
import json
import math
import os
import re
import socket
import xml.etree.ElementTree as ET
from html.parser import HTMLParser
from pathlib import Path

import pytest
import rnnc
from rnnc.cli.app import app
from rnnc.codegen.cuda.limits import limits_of
from rnnc.codegen.cuda.planner import plans_for
from rnnc.report.contents import Report
from rnnc.report.figures.accuracy import accuracy_of
from rnnc.report.figures.plot import Curve
from rnnc.report.figures.timeline import timeline_of
from rnnc.report.mathml import equations_of
from rnnc.report.measured import Measured
from rnnc.report.page import page_of
from rnnc.report.ptx import ptx_lines
from rnnc.report.sass import sass_lines
from rnnc.report.terms import Terms
from rnnc.runtime.errors import NoCudaError
from typer.testing import CliRunner

HOSTILE = "</script><script>alert(1)</script><img src=x onerror=alert(2)>\"'&"


def page(*cells, shape=None, gpu="H200", variant="auto"):
    shape = shape or rnnc.Shape(heads=12, head_dim=64)
    reports = [
        Report.of(cell, shape, limits_of(gpu), variant, prefix)
        for cell, prefix in zip(cells, "ab", strict=False)
    ]
    return page_of(reports, "rnnc report")


@pytest.fixture(scope="module", autouse=True)
def _without_nvdisasm():
    """Pages are the same with and without nvdisasm, which takes another compilation of each."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("rnnc.report.code.nvdisasm", lambda: None)
        yield


@pytest.fixture(scope="module")
def lstm():
    return page(rnnc.cells.lstm)


class Page(HTMLParser):
    """The tags of a page, its ids, and the text of each element."""

    def __init__(self, text):
        super().__init__()
        self.tags, self.ids, self.texts = [], [], []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        self.ids += [value for name, value in attrs if name == "id"]

    def handle_data(self, data):
        self.texts.append(data)


def test_it_shows_the_equations_the_plan_and_what_binds(lstm):
    text = " ".join("".join(Page(lstm).texts).split())
    assert "Long short-term memory (Hochreiter & Schmidhuber, 1997)" in text
    plan = rnnc.plan_for(rnnc.cells.lstm, rnnc.Shape(12, 64), limits_of("H200"))
    for kernel in (plan.forward, plan.backward):
        assert kernel.mapping in text
        assert kernel.binding in text
        assert f"about {kernel.nanoseconds} ns per step" in text
    assert "12 bytes per step and unit" in text  # four gates, two states, two bytes each
    assert rnnc.cells.lstm.fingerprint in text


def lit(shown, term):
    """The lines of the page's texts that light up with a term, by the text's title."""
    found = {}
    for title, text in re.findall(
        r'<pre class="lines" [^>]*aria-label="([^"]*)">(.*?)</pre>', shown, re.S
    ):
        for marks, line in re.findall(
            r'<span class="l[^"]*"(?: data-t="([^"]*)")?>(.*?)\n</span>', text
        ):
            if term in marks.split():
                found.setdefault(title, []).append(html.unescape(re.sub("<.*?>", "", line)))
    return found


def test_pointing_at_a_function_lights_its_lines_in_every_text(lstm):
    cell = rnnc.cells.lstm
    tanh_c = cell.updates[0].args[1]
    assert str(tanh_c).startswith("tanh(")
    found = lit(lstm, Terms.of(cell, "a").numbers[tanh_c])
    assert len(found["Derived backward"]) == 3
    assert any("h_next = sigmoid_o*tanh(c_next);" in line for line in found["CUDA, forward"])
    assert any("d_c_next_sum = " in line for line in found["CUDA, backward"])
    assert len(found["C++, both directions"]) == 5
    for direction in ("forward", "backward"):
        assert any("tanh.approx" in line for line in found[f"PTX, {direction}"])
    assert not any("mma" in line for lines in found.values() for line in lines)


def test_the_ptx_says_nothing_of_files(lstm):
    texts = re.findall(r'aria-label="PTX[^>]*>(.*?)</pre>', lstm, re.DOTALL)
    assert len(texts) == 2
    for text in texts:
        assert not re.search(r"\.loc\b|\.file\b|\.section|\.debug", text)


def test_lines_come_through_the_chain_of_inlined_calls():
    text = """.visible .entry k(
.loc 1 7 3
mov.u32 %r1, 1;
.loc 2 30 5, function_name $L__a, inlined_at 1 7 3
ex2.approx.f32 %f1, %f2;
.loc 3 11 2, function_name $L__b, inlined_at 2 30 5
add.f32 %f3, %f1, %f2;
.loc 3 12 2
ret;
.file 1 "/home/me/cell.cu"
.file 2 "/home/me/lib/math.cuh"
.file 3 "/home/me/lib/deep.cuh"
.section .debug_str
{
.b8 1
}
"""
    assert list(ptx_lines(text, "cell.cu"))[1:] == [
        ("mov.u32 %r1, 1;", 7, "cell.cu"),
        ("ex2.approx.f32 %f1, %f2;", 7, "math.cuh"),
        ("add.f32 %f3, %f1, %f2;", 7, "deep.cuh"),
        ("ret;", 0, "deep.cuh"),
    ]


def test_machine_code_comes_through_the_chain_of_inlined_calls():
    text = """
	//## File "/home/me/lib/math.cuh", line 30 inlined at "/home/me/cell.cu", line 7
	//## File "/home/me/cell.cu", line 7 inlined at "/home/me/lib/step.cuh", line 4
	//## File "/home/me/cell.cu", line 90
        /*0010*/                   MUFU.TANH R1, R2 ;
        /*0020*/                   FMUL R1, R1, R2 ;
	//## File "/home/me/lib/step.cuh", line 4
        /*0030*/                   EXIT ;
"""
    assert list(sass_lines(text, "cell.cu")) == [
        ("MUFU.TANH R1, R2 ;", 7, "math.cuh"),
        ("FMUL R1, R1, R2 ;", 7, "math.cuh"),
        ("EXIT ;", 0, "step.cuh"),
    ]


def test_without_nvdisasm_the_page_says_what_adds_it(lstm):
    assert "pip install nvidia-cuda-nvdisasm" in lstm
    assert "PTX, forward" in lstm


def test_without_a_compiler_the_page_says_what_adds_it(monkeypatch):
    def none():
        raise NoCudaError("CUDA compiler", "no CuPy", "CuPy", 'pip install "rnnc[cuda13]"')

    monkeypatch.setattr("rnnc.runtime.cuda.nvrtc.cupy_nvrtc", none)
    monkeypatch.setattr("rnnc.runtime.cuda.nvrtc.nvrtc_version", none)
    text = "".join(Page(page(rnnc.cells.elman)).texts)
    assert 'pip install "rnnc[cuda13]"' in text
    assert "PTX, forward" not in text
    assert "h_next = tanh(g);" in text


def test_it_asks_no_server_and_allows_only_its_own_script_and_style(lstm):
    found = Page(lstm)
    for tag, attrs in found.tags:
        assert tag not in {"link", "img", "iframe", "object", "base", "form"}
        assert not any(name.startswith("on") or name == "style" for name in attrs)
        for name in ("src", "href"):
            assert attrs.get(name, "#").startswith(("#", "data:application/json;base64,"))
    policy = next(a["content"] for t, a in found.tags if t == "meta" and "http-equiv" in a)
    assert policy.startswith("default-src 'none';")
    for tag in ("style", "script"):
        texts = re.findall(rf"<{tag}>(.*?)</{tag}>", lstm, re.DOTALL)
        (text,) = texts
        digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
        assert f"{tag}-src 'sha256-{digest}'" in policy
    assert len(found.ids) == len(set(found.ids))
    assert len(lstm.encode()) < 1_500_000


def test_it_names_nothing_of_the_machine_that_wrote_it(lstm):
    names = {str(Path.home()), os.getcwd(), socket.gethostname(), getpass.getuser()}
    # Shorter names, such as a user's name "x", are in every text.
    secrets = [n for n in names if len(n) > 4 or ("/" in n and len(n) > 1)]
    data = base64.b64decode(re.search(r"base64,([^\"]+)", lstm)[1]).decode()
    assert secrets
    for secret in secrets:
        assert secret not in lstm
        assert secret not in data


def test_the_figures_can_be_saved(lstm):
    (found,) = json.loads(base64.b64decode(re.search(r"base64,([^\"]+)", lstm)[1]))
    assert rnnc.Cell.from_json(json.dumps(found["cell"])) == rnnc.cells.lstm
    assert [k["direction"] for k in found["kernels"]] == ["forward", "backward"]


def test_hostile_text_stays_text():
    cell = rnnc.cells.elman.model_copy(update={"doc": HOSTILE})
    shown = page(cell)
    parsed = Page(shown)
    assert HOSTILE in "".join(parsed.texts)
    assert [tag for tag, _ in parsed.tags].count("script") == 1
    assert "img" not in [tag for tag, _ in parsed.tags]


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


def test_an_equation_reads_as_its_author_wrote_it():
    @rnnc.cell
    def grouped(g: rnnc.Gate, h: rnnc.State, alpha: rnnc.Constant = rnnc.constant(0.1)):
        return (1 - alpha) * h - (g - h) / 2 + rnnc.tanh(g) ** 2

    math = equations_of(grouped, Terms.of(grouped))[-1].math
    text = "".join(ET.fromstring(math).itertext())
    assert "".join(text.split()) == "ht=(1−α)\u2062ht−1−gt−ht−12+tanh\u2061(gt)2"


def test_a_cell_without_a_plan_gets_a_page_with_the_reason():
    shown = page(rnnc.cells.lstm, shape=rnnc.Shape(1, 4096), variant="block")
    text = "".join(Page(shown).texts)
    assert "No plan" in text
    assert "it wants a head dim of at most 128" in text
    assert "every unit has a warp" in text


def test_two_cells_stand_side_by_side_and_what_differs_is_marked():
    text = page(rnnc.cells.elman, rnnc.cells.irnn)
    shown = Page(text)
    assert len(shown.ids) == len(set(shown.ids))
    assert [t for t, _ in shown.tags].count("h1") == 2
    rows = re.findall(r"<tr( class=\"differs\")?><th scope=\"row\">([^<]*)</th>", text)
    marked = {name: bool(mark) for mark, name in rows}
    assert marked["saved for the backward"] != marked["states"]
    assert not marked["states"]


def test_measured_times_and_errors_are_labelled(monkeypatch):
    cell, shape = rnnc.cells.elman, rnnc.Shape(12, 64)
    found = Measured((500.0, 800.0), "", (Curve("bfloat16, GPU", ((1, 1e-3), (9, 2e-3))),), "a GPU")
    report = Report.of(cell, shape, limits_of("H200"), measure=lambda *_: found)
    text = " ".join("".join(Page(page_of([report], "rnnc report")).texts).split())
    estimate = report.choice.plan.forward.nanoseconds
    assert "Measured on a GPU: 500 ns per step" in text
    assert f"the model is off by {100 * (estimate / 500 - 1):+.0f} %" in text
    assert "bfloat16: measured on a GPU" in text


def test_errors_are_of_the_cpus_kernels(lstm):
    curves = {c.name: c for c in accuracy_of(rnnc.cells.lstm, rnnc.Shape(12, 64)).plot.curves}
    assert 1e-8 < curves["float32, CPU"].points[-1][1] < 1e-5
    assert curves["float64, CPU"].points[-1][1] < 1e-14
    text = " ".join("".join(Page(lstm).texts).split())
    assert "bfloat16 and float16: measured on one NVIDIA H200" in text


def test_the_errors_of_a_cell_that_grows_end_where_it_overflows():
    found = accuracy_of(rnnc.cells.indrnn, rnnc.Shape(1, 32))
    assert found.plot.curves
    for curve in found.plot.curves:
        assert all(math.isfinite(error) for _, error in curve.points)


def test_other_packages_are_shown_only_for_the_same_cell_dtype_and_batch(lstm):
    assert "FlashRNN 1.0.5" in lstm
    assert "cuDNN" not in lstm.split('id="limits"')[1].split("</section>")[0]  # measured in float16
    report = Report.of(rnnc.cells.lstm, rnnc.Shape(12, 64, 15), limits_of("H200"))
    assert report.rooflines.peers == ()


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

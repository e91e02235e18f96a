"""The texts on the page of `rnnc report`: which lines belong to a term, and what the tools say."""

from __future__ import annotations

import html
import re
import struct

import rnnc
from rnnc.codegen.cuda.limits import limits_of
from rnnc.codegen.cuda.source import cuda_source
from rnnc.errors import NoCudaError
from rnnc.report.ptx import ptx_lines
from rnnc.report.sass import disassembled, nvdisasm, sass_lines, with_sizes
from rnnc.report.terms import Terms
from rnnc.runtime.cuda.nvrtc import cubin_with_lines


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


def test_without_a_compiler_the_page_says_what_adds_it(monkeypatch, parsed, page):
    def none():
        raise NoCudaError("CUDA compiler", "no CuPy", "CuPy", 'pip install "rnnc[cuda13]"')

    monkeypatch.setattr("rnnc.runtime.cuda.nvrtc.cupy_nvrtc", none)
    monkeypatch.setattr("rnnc.runtime.cuda.nvrtc.nvrtc_version", none)
    text = "".join(parsed(page(rnnc.cells.elman)).texts)
    assert 'pip install "rnnc[cuda13]"' in text
    assert "PTX, forward" not in text
    assert "h_next = tanh(g);" in text


def test_nvdisasm_reads_a_binary_in_which_a_function_has_a_negative_size():
    plan = rnnc.plan_for(rnnc.cells.lstm, rnnc.Shape(12, 64), limits_of("H200"))
    assert plan.backward.kind == "cluster"  # its watchdog is a function that is not inlined
    cubin = cubin_with_lines(cuda_source(rnnc.cells.lstm, plan).units[-1], plan.arch)
    mended = with_sizes(cubin)
    changed = [i for i, pair in enumerate(zip(cubin, mended, strict=True)) if pair[0] != pair[1]]
    place = changed[0] // 8 * 8  # of the size, of eight bytes
    assert changed[-1] < place + 8
    (before,), (after,) = (struct.unpack_from("<q", text, place) for text in (cubin, mended))
    assert before < 0 < after < len(cubin)
    if nvdisasm() is not None:  # of the extra `report`
        assert "MUFU" in disassembled(nvdisasm(), cubin)

"""The page of `rnnc report` as a person sees it."""

from __future__ import annotations

import itertools
import math
import re
from importlib import resources

import pytest
import rnnc
from axe_playwright_python.sync_playwright import Axe
from rnnc.codegen.cuda.limits import limits_of
from rnnc.report.contents import Report
from rnnc.report.page import page_of
from rnnc.report.terms import Terms

from ..one_stage import ONE_STAGE

H200 = limits_of("H200")


def write(path, *cells, shape=None):
    shape = shape or rnnc.Shape(12, 64)
    reports = [Report.of(c, shape, H200, "auto", p) for c, p in zip(cells, "ab", strict=False)]
    path.write_text(page_of(reports, "rnnc report"), encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def lstm(tmp_path_factory):
    return write(tmp_path_factory.mktemp("lstm") / "page.html", rnnc.cells.lstm)


@pytest.fixture(scope="module")
def two(tmp_path_factory):
    return write(tmp_path_factory.mktemp("two") / "page.html", rnnc.cells.slstm, rnnc.cells.gru)


def serious(page):
    found = Axe().run(page).response["violations"]
    return [
        f"{v['id']}: {v['nodes'][0]['html'][:120]}"
        for v in found
        if v["impact"] in ("serious", "critical")
    ]


@pytest.mark.parametrize("name", ONE_STAGE)
def test_the_page_of_every_cell_opens_without_an_error_or_a_request(name, opened, tmp_path):
    shape = rnnc.Shape(4, 32)
    path = write(tmp_path / "page.html", rnnc.cells.get(name), shape=shape)
    page = opened(path)
    assert page.said == []
    assert page.asked == [path.as_uri()]
    assert path.stat().st_size < 1_500_000
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    # Every function of the equations is lit somewhere in the CUDA.
    for colour in page.locator("#code .term[class*=' c']").all():
        colour.dispatch_event("pointerover")
        lit = page.locator("[aria-label^='CUDA'] .lit").count()
        assert lit > 0, colour.inner_text()


def test_pointing_at_a_term_lights_its_lines(lstm, opened):
    page = opened(lstm)
    tanh_c = rnnc.cells.lstm.updates[0].args[1]
    number = Terms.of(rnnc.cells.lstm, "a").numbers[tanh_c]
    term = page.locator(f"#code .term[data-t='{number}'] > mi").first
    term.hover()

    def lit(text):
        return page.locator(f"[aria-label='{text}'] .lit").all_inner_texts()

    assert any("h_next = sigmoid_o*tanh(c_next);" in line for line in lit("CUDA, forward"))
    assert not any("tanh_z" in line for line in lit("CUDA, forward"))
    assert sum("tanh_c_next" in line for line in lit("CUDA, backward")) == 3
    assert any("tanh.approx" in line for line in lit("PTX, forward"))
    page.mouse.move(5, 5)
    assert lit("CUDA, forward") == []
    term.click()
    page.mouse.move(5, 5)
    kept = page.locator("[aria-label='CUDA, forward'] .lit:not(.comment)")
    assert kept.count() == 1
    kept.scroll_into_view_if_needed()
    assert kept.is_visible()
    page.keyboard.press("Escape")
    assert lit("CUDA, forward") == []


def test_a_term_is_reached_by_the_keyboard(lstm, opened):
    page = opened(lstm)
    page.locator("#code .term").first.focus()
    page.keyboard.press("Enter")
    assert page.locator("#code .lit").count() > 1


def test_a_click_on_a_head_sorts_its_table(lstm, opened):
    page = opened(lstm)
    table = page.locator("#plan table.sortable").first
    button = table.locator("button", has_text="ns per step")

    def shown():
        """The figures of all kinds; one without a plan comes last."""
        texts = table.locator("tbody td:nth-child(2)").all_inner_texts()
        return [math.inf if t == "none" else int(t.replace(",", "")) for t in texts]

    button.click()
    found = shown()
    assert found == sorted(found)
    assert math.inf in found  # a walk
    button.click()
    assert shown() == found[::-1]


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1280, 390])
def test_axe_has_no_serious_findings(lstm, opened, scheme, width):
    page = opened(lstm, color_scheme=scheme, viewport={"width": width, "height": 800})
    assert serious(page) == []
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")


def test_two_cells_have_no_serious_findings(two, opened):
    page = opened(two)
    assert page.said == []
    assert serious(page) == []


def test_dark_mode_has_another_background(lstm, opened):
    colours = set()
    for scheme in ("light", "dark"):
        page = opened(lstm, color_scheme=scheme)
        colours.add(page.evaluate("getComputedStyle(document.body).backgroundColor"))
    assert len(colours) == 2


def test_without_javascript_all_of_it_is_readable(lstm, opened):
    page = opened(lstm, java_script_enabled=False)
    text = page.locator("main").inner_text()
    for words in ("h_next = sigmoid_o*tanh(c_next);", "Binds:", "exchange", "Save all figures"):
        assert words in text
    assert not page.locator(".js").first.is_visible()


def test_it_prints(lstm, opened, tmp_path):
    page = opened(lstm, color_scheme="dark")
    content = page.pdf(path=tmp_path / "page.pdf", format="A4")
    assert content.startswith(b"%PDF")
    pages = len(re.findall(rb"/Type\s*/Page\b", content))
    assert 3 <= pages <= 25
    page.emulate_media(media="print")
    assert not page.locator("nav").is_visible()
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"


def test_the_figures_are_saved_by_a_click(lstm, opened):
    page = opened(lstm)
    with page.expect_download() as download:
        page.get_by_text("Save all figures").click()
    assert download.value.suggested_filename == "rnnc-report.json"


# Machado, Oliveira, Fernandes (2009), table 1, severity 1.0; over linear RGB.
DEFICIENCIES = {
    "normal": ((1, 0, 0), (0, 1, 0), (0, 0, 1)),
    "protanopia": (
        (0.152286, 1.052583, -0.204868),
        (0.114503, 0.786281, 0.099216),
        (-0.003882, -0.048116, 1.051998),
    ),
    "deuteranopia": (
        (0.367322, 0.860646, -0.227968),
        (0.280085, 0.672501, 0.047413),
        (-0.011820, 0.042940, 0.968881),
    ),
    "tritanopia": (
        (1.255528, -0.076749, -0.178779),
        (-0.078411, 0.930809, 0.147602),
        (0.004733, 0.691367, 0.303900),
    ),
}


def lab(colour, seen):
    """CIELAB of a colour such as #0072b2, as someone with a deficiency sees it."""
    channels = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]
    r, g, b = (
        min(max(sum(w * c for w, c in zip(row, linear, strict=True)), 0), 1)
        for row in DEFICIENCIES[seen]
    )
    xyz = (
        (0.4124 * r + 0.3576 * g + 0.1805 * b) / 0.9505,
        0.2126 * r + 0.7152 * g + 0.0722 * b,
        (0.0193 * r + 0.1192 * g + 0.9505 * b) / 1.089,
    )
    x, y, z = (v ** (1 / 3) if v > 0.008856 else 7.787 * v + 16 / 116 for v in xyz)
    return 116 * y - 16, 500 * (x - y), 200 * (y - z)


@pytest.mark.parametrize("seen", DEFICIENCIES)
@pytest.mark.parametrize("scheme", [0, 1])
def test_the_parts_of_a_step_differ_in_colour_for_everyone(scheme, seen):
    style = resources.files("rnnc.report").joinpath("templates/page.css").read_text()
    names = ("exchange", "product", "pointwise", "memory")
    colours = [re.findall(rf"--{name}: (#\w+);", style)[scheme] for name in names]
    for one, other in itertools.combinations(colours, 2):
        distance = sum((a - b) ** 2 for a, b in zip(lab(one, seen), lab(other, seen), strict=True))
        assert distance**0.5 > 15, (one, other)


def test_a_long_docstring_is_folded_on_a_screen_and_whole_in_print(opened, tmp_path):
    doc = "The first paragraph.\n\nThe second paragraph."
    cell = rnnc.cells.elman.model_copy(update={"doc": doc})
    page = opened(write(tmp_path / "page.html", cell))
    second = page.get_by_text("The second paragraph.")
    assert not second.is_visible()
    page.locator("details.more summary").click()
    assert second.is_visible()
    page.locator("details.more summary").click()
    page.emulate_media(media="print")
    assert second.is_visible()

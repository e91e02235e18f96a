"""The page of `rnnc explore` as a person sees it."""

from __future__ import annotations

import re
import time
from urllib.parse import urlsplit

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import expect
from rnnc import cells

LEAKY = """import rnnc
from rnnc import Gate, State, tanh


@rnnc.cell
def leaky(g: Gate, h: State):
    return 0.9 * h + 0.1 * tanh(g)
"""


def write(page, text):
    page.locator(".cm-content").click()
    page.keyboard.press("Control+a")
    page.keyboard.insert_text(text)


def tab(page, name):
    page.get_by_role("tab", name=name, exact=True).click()


def messages(page):
    return page.get_by_role("region", name="Messages")


def serious(page):
    return [
        f"{v['id']}: {[n['html'][:120] for n in v['nodes'][:3]]}"
        for v in Axe().run(page).response["violations"]
        if v["impact"] in ("serious", "critical")
    ]


def test_every_tab_has_its_text_without_an_error_or_another_host(explorer):
    page = explorer.open()
    words = {
        "Equations": "Kept for the backward",
        "Backward": "d_c_next_sum",
        "C++": "pointwise_backward",
        "CUDA": "CUDA, backward",
        "Plan": "Kinds of plans",
    }
    for name, word in words.items():
        tab(page, name)
        page.locator(".answer", has_text=word).wait_for()
    assert page.said == []
    assert {urlsplit(url).netloc for url in page.asked} == {explorer.host}
    assert "no sandbox" in page.locator(".warning").inner_text()
    policy = explorer.first_answer.headers["content-security-policy"]
    assert "'unsafe-inline'" not in re.search("script-src ([^;]*)", policy)[1]


def test_it_follows_an_edit_and_names_the_seconds(explorer):
    page = explorer.open()
    page.get_by_text("Ready").wait_for()
    began = time.monotonic()
    write(page, LEAKY)
    page.get_by_role("heading", name="leaky").wait_for()
    equations = time.monotonic() - began
    page.get_by_text(re.compile(r"Ready: \d")).wait_for()
    shown = time.monotonic() - began
    print(f"equations after {equations:.2f} s, all tabs after {shown:.2f} s")
    expect(page.locator(".answer .equations")).to_contain_text("0.9")
    assert shown < 10
    tab(page, "C++")
    page.locator(".answer", has_text="real(0.1)").wait_for()


def test_quick_typing_loses_no_key(explorer):
    page = explorer.open()
    write(page, "")
    page.keyboard.type("# abcdefghijklmnopqrstuvwxyz 0123456789\n" * 3, delay=8)
    page.wait_for_timeout(1500)
    lines = page.locator(".cm-line").all_inner_texts()
    assert lines[:3] == ["# abcdefghijklmnopqrstuvwxyz 0123456789"] * 3


def test_an_error_is_shown_at_its_line_and_goes(explorer):
    page = explorer.open()
    write(page, LEAKY.replace("    return", "    if g > 0:\n        h = g\n    return"))
    messages(page).get_by_text("where(condition, a, b)").wait_for()
    expect(messages(page).get_by_role("button")).to_have_text("Line 7")
    expect(page.locator(".wrong-line")).to_have_text("if g > 0:")
    expect(page.get_by_text("This text has no cell")).to_be_visible()
    assert serious(page) == []
    write(page, LEAKY)
    page.get_by_role("heading", name="leaky").wait_for()
    page.get_by_text("No messages.").wait_for()
    expect(page.locator(".wrong-line")).to_have_count(0)


def test_messages_of_the_last_text_go_when_the_next_runs(explorer):
    page = explorer.open()
    wrong = LEAKY.replace("    return", "    if g > 0:\n        h = g\n    return")
    write(page, f"{wrong}\nprint('printed before')\n")
    page.locator(".printed", has_text="printed before").wait_for()
    write(page, f"import time\ntime.sleep(0.8)\n{LEAKY}")
    messages(page).get_by_text("The text runs.").wait_for()
    expect(messages(page).get_by_role("button")).to_have_count(0)
    expect(page.locator(".wrong-line, .printed")).to_have_count(0)
    page.get_by_text("No messages.").wait_for()


@pytest.mark.parametrize("line", ["while True: pass", "x = 9**9**9"])
def test_a_text_without_an_end_gets_a_message_and_the_page_lives_on(explorer, line):
    page = explorer.open()
    write(page, f"{LEAKY}\n{line}\n")
    messages(page).get_by_text("it did not end in time").wait_for()
    expect(messages(page).get_by_role("button")).to_have_text("Line 9")
    write(page, LEAKY.replace("0.9", "0.8"))
    page.get_by_text("No messages.").wait_for()
    expect(page.locator(".answer .equations")).to_contain_text("0.8")


def test_what_it_prints_is_text(explorer):
    page = explorer.open()
    write(page, f"{LEAKY}\nprint('<img src=x onerror=alert(1)>')\n")
    page.locator(".printed", has_text="<img src=x").wait_for()
    assert page.locator(".printed img").count() == 0


def test_html_that_the_text_forges_is_no_script(explorer):
    page = explorer.open()
    forged = "<h2>forged</h2><img src=x onerror='document.title=1'>"
    text = f"""import json, os
line = json.dumps({{"texts": {{"equations": {forged!r}}}}}) + chr(10)
for fd in range(3, 60):
    try: os.write(fd, line.encode())
    except OSError: pass
"""
    write(page, text)
    page.get_by_role("heading", name="forged").wait_for()
    page.wait_for_timeout(300)
    assert page.title() == "rnnc explore"
    assert page.locator(".answer [onerror]").count() == 0
    for wrong in ("<script>alert(1)</script>", 7, None):
        write(page, text.replace(repr(forged), repr(wrong)))
        messages(page).get_by_text("an answer that cannot be shown").wait_for()
        write(page, LEAKY)
        page.get_by_text("No messages.").wait_for()


def test_sliders_fields_and_gpu_change_the_plan(explorer):
    page = explorer.open()
    tab(page, "Plan")
    page.locator(".answer", has_text="on H200").first.wait_for()
    slider = page.get_by_role("slider", name="Units per head")
    slider.locator("[tabindex='0']").focus()
    page.keyboard.press("ArrowRight")
    expect(page.get_by_label("Units per head", exact=True)).to_have_value("96")
    field = page.get_by_label("Heads", exact=True)
    field.fill("7")
    tab(page, "CUDA")
    page.get_by_text("7 x 96, batch 16").wait_for()
    page.get_by_role("combobox", name="GPU").click()
    page.get_by_role("option", name="A100").first.click()
    page.get_by_text(re.compile("7 x 96, batch 16.* on A100")).wait_for()
    assert page.said == []


def test_pointing_at_a_term_lights_its_lines(explorer):
    page = explorer.open()
    tab(page, "CUDA")
    page.locator("[aria-label='CUDA, forward']").wait_for()
    page.locator(".answer .term[class*=' c']").first.hover()
    page.locator("[aria-label='CUDA, forward'] .lit").first.wait_for()


def test_a_cell_of_the_library_replaces_the_text(explorer):
    page = explorer.open()
    page.get_by_label("Start from a cell of the library").click()
    page.keyboard.press("Control+a")
    page.keyboard.type("gru")
    # A click before the list has become shorter may meet another cell.
    expect(page.get_by_role("option")).to_have_count(sum("gru" in n for n in cells.names()))
    page.get_by_role("option", name="gru", exact=True).click()
    page.get_by_role("heading", name="gru", exact=True).wait_for()
    expect(page.locator(".cm-content")).to_contain_text("def gru(")


def test_of_several_cells_one_is_chosen(explorer):
    page = explorer.open()
    write(page, LEAKY + LEAKY.replace("leaky", "second"))
    page.get_by_role("heading", name="second").wait_for()
    page.get_by_label("Cell of the text").click()
    page.get_by_role("option", name="leaky").click()
    page.get_by_role("heading", name="leaky").wait_for()


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1280, 390])
def test_axe_has_no_serious_findings(explorer, scheme, width):
    page = explorer.open(color_scheme=scheme, viewport={"width": width, "height": 800})
    page.wait_for_timeout(500)  # the editor's colours follow
    for name in ("Equations", "Backward", "C++", "CUDA", "Plan"):
        tab(page, name)
        page.wait_for_timeout(400)
        assert serious(page) == [], name
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), name


def test_dark_mode_reaches_the_editor(explorer):
    grounds = set()
    for scheme in ("light", "dark"):
        page = explorer.open(color_scheme=scheme)
        page.wait_for_timeout(500)
        grounds.add(
            page.evaluate(
                "['.cm-editor', 'body'].map((s) =>"
                " getComputedStyle(document.querySelector(s)).backgroundColor).join()"
            )
        )
    assert len(grounds) == 2


def test_a_file_runs_after_a_click(browser, explorers, tmp_path):
    mark = tmp_path / "ran"
    file = tmp_path / "mine.py"
    file.write_text(f"{LEAKY}\nopen({str(mark)!r}, 'w')\nimport beside\n")
    (tmp_path / "beside.py").write_text("")
    with explorers.server(str(file), "--no-open") as link:
        context = browser.new_context()
        page = context.new_page()
        page.set_default_timeout(explorers.PATIENCE)
        page.goto(link)
        page.locator(".cm-content").click()
        page.keyboard.press("Control+End")
        page.keyboard.type("# more")
        page.wait_for_timeout(1500)
        assert not mark.exists()
        page.get_by_role("button", name="Run mine.py").click()
        page.get_by_role("heading", name="leaky").wait_for()
        page.get_by_text("No messages.").wait_for()
        assert mark.exists()
        context.close()

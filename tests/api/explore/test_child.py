"""Typed texts in the warm process: answers, messages at their line, and how each is ended."""

from __future__ import annotations

import asyncio
import os
import re
import threading
import time
from pathlib import Path

import pytest
import rnnc
from rnnc.explore.evaluator import Evaluator
from rnnc.explore.question import Question
from rnnc.explore.remarks import remark_of
from rnnc.explore.starts import start_of

SECONDS = 1.0
LEAKY = """import rnnc
from rnnc import Gate, State, tanh


@rnnc.cell
def leaky(g: Gate, h: State):
    return 0.9 * h + 0.1 * tanh(g)
"""


class Asker:
    """Asks an evaluator from a test, whose process stays warm for all tests of the file."""

    def __init__(self):
        self.loop = asyncio.new_event_loop()
        self.thread = threading.Thread(target=self.loop.run_forever, daemon=True)
        self.thread.start()
        self.evaluator = self.run(self._start())

    async def _start(self):
        evaluator = Evaluator(SECONDS)
        await evaluator.start()
        await asyncio.wait_for(evaluator.ready.wait(), 120)
        return evaluator

    def run(self, coroutine):
        return asyncio.run_coroutine_threadsafe(coroutine, self.loop).result(150)

    def stop(self):
        self.run(self.evaluator.stop())
        self.loop.call_soon_threadsafe(self.loop.stop)
        self.thread.join()

    def ask(self, code, **sizes):
        return self.run(self.answer("test", Question(code, **sizes)))

    async def answer(self, owner, question):
        done = asyncio.get_running_loop().create_future()
        answer = {"texts": {}, "remarks": [], "order": []}

        def listen(found):
            if "end" in found:
                remark = remark_of(found)
                if remark:
                    answer["remarks"].append(vars(remark))
                done.set_result({**answer, **found})
                return
            part = found["part"]
            answer["order"] += [key for key in part if key != "texts"] + list(part.get("texts", ()))
            answer["texts"].update(part.get("texts", {}))
            answer["remarks"] += part.get("remarks", [])
            answer.update({k: v for k, v in part.items() if k in ("cells", "cell")})

        self.evaluator.ask(owner, question, listen)
        return await done


@pytest.fixture(scope="module")
def asker():
    found = Asker()
    yield found
    found.stop()


def only(answer):
    (remark,) = answer["remarks"]
    return remark


def alive(mark):
    """The processes of a name, but for those that only wait for their parent."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            if mark in (folder / "comm").read_text() and "Z" not in state(folder):
                found.append(int(folder.name))
        except OSError:
            continue
    return found


def state(folder):
    return (folder / "stat").read_text().rpartition(")")[2].split()[0]


def test_a_cell_comes_with_all_texts_and_the_plan_last(asker):
    answer = asker.ask(LEAKY, heads=12)
    assert answer["end"] == "done"
    assert (answer["cells"], answer["cell"], answer["remarks"]) == (["leaky"], "leaky", [])
    assert set(answer["texts"]) == {"equations", "backward", "cpp", "cuda", "plan"}
    assert answer["order"].index("cpp") < answer["order"].index("plan")
    assert "<math" in answer["texts"]["equations"]
    assert "d_g" in answer["texts"]["backward"]
    assert "pointwise_forward" in answer["texts"]["cpp"]
    assert "12 x 64" in answer["texts"]["cuda"]
    plan = rnnc.plan_for(rnnc.cells.elman, rnnc.Shape(12, 64), gpu())
    assert f"Forward: {plan.forward.kind}" in answer["texts"]["plan"]


def gpu():
    from rnnc.codegen.cuda.limits import limits_of

    return limits_of("H200")


def test_sizes_without_a_plan_say_why(asker):
    answer = asker.ask(LEAKY, head_dim=4096, variant="block")
    assert "No plan" in answer["texts"]["plan"]
    assert "no kernels" in answer["texts"]["cuda"]
    assert "pointwise_forward" in answer["texts"]["cpp"]


def test_a_cell_with_stages_has_all_texts(asker):
    code = LEAKY.replace("tanh(g)", "tanh(g(rnnc.softmax(h) * h))")
    answer = asker.ask(code)
    assert answer["remarks"] == []
    assert "softmax" in answer["texts"]["equations"]
    assert "RNNC_STAGES" in answer["texts"]["cpp"]
    assert "RNNC_STAGES" in answer["texts"]["cuda"]
    assert "R in registers" in answer["texts"]["plan"]


def test_every_cell_of_the_library_starts_as_a_user_writes_it():
    for name in rnnc.cells.names():
        text = start_of(name)
        assert not re.search(r"from \.", text)
        scope = {}
        with pytest.MonkeyPatch.context() as patch:
            lines = text.splitlines(keepends=True)
            patch.setitem(__import__("linecache").cache, "cell.py", (1, None, lines, "cell.py"))
            exec(compile(text, "cell.py", "exec"), scope)
        assert scope[name] == rnnc.cells.get(name)


def test_a_syntax_error_has_its_line(asker):
    remark = only(asker.ask(LEAKY + "\ndef f(:\n"))
    assert remark["line"] == 9
    assert remark["found"].startswith("SyntaxError")


def test_an_error_of_the_language_has_its_line_and_what_to_write(asker):
    answer = asker.ask(LEAKY.replace("    return", "    if g > 0:\n        h = g\n    return"))
    remark = only(answer)
    assert remark["line"] == 7
    assert "where(condition, a, b)" in remark["write"]
    assert answer["cells"] == []


def test_an_error_below_a_cell_has_its_line_and_the_cell_is_shown(asker):
    answer = asker.ask(LEAKY + "\nunknown\n")
    assert only(answer)["line"] == 9
    assert answer["cell"] == "leaky"
    assert "<math" in answer["texts"]["equations"]


def test_of_several_cells_the_chosen_one_is_shown_and_a_broken_one_has_a_message(asker):
    text = LEAKY + LEAKY.replace("leaky", "second") + LEAKY.replace("leaky", "third")
    broken = text + LEAKY.replace("leaky", "fourth").replace("tanh(g)", "tanh(q)")
    answer = asker.ask(broken, cell="second")
    assert (answer["cells"], answer["cell"]) == (["leaky", "second", "third"], "second")
    assert only(answer)["line"] == 7 * 4
    assert "second" in answer["texts"]["equations"]


def test_a_text_without_a_cell_says_what_to_write(asker):
    assert "@rnnc.cell" in only(asker.ask("x = 1\n"))["wanted"]


def test_what_it_prints_comes_back(asker):
    answer = asker.ask("print('hello')\nimport sys\nprint('error', file=sys.stderr)\n" + LEAKY)
    assert answer["printed"] == "hello\nerror\n"


@pytest.mark.parametrize(
    ("line", "text"),
    [
        (2, "\nwhile True: pass\n"),
        (3, "while True:\n  try:\n    while True: pass\n  except BaseException: pass\n"),
        (3, "\n\nx = 9**9**9\n"),
        (2, "import time\ntime.sleep(9)\n"),
    ],
    ids=["loop", "stubborn", "power", "sleep"],
)
def test_a_text_without_an_end_is_ended_with_its_line(asker, line, text):
    began = time.monotonic()
    remark = only(asker.ask(text))
    assert 0.8 * SECONDS <= time.monotonic() - began < SECONDS + 2
    assert remark["line"] == line
    assert "in time" in remark["found"]


def test_the_cells_above_a_line_without_an_end_are_shown(asker):
    answer = asker.ask(LEAKY + "while True: pass\n")
    assert only(answer)["line"] == 8
    assert answer["cell"] == "leaky"
    assert "<math" in answer["texts"]["equations"]


def test_two_megabytes_of_output_are_ended(asker):
    answer = asker.ask("while True: print('a' * 2_000_000)\n")
    assert answer["end"] == "printed"
    assert len(answer["printed"]) == 1_000_000
    assert "1 MB" in only(answer)["found"]


def test_memory_above_a_gibibyte_is_refused_at_its_line(asker):
    for text in ("x = bytearray(1 << 30)\n", "import mmap\nx = mmap.mmap(-1, 5 << 29)\n"):
        remark = only(asker.ask(text))
        assert remark["line"] == text.count("\n")
        assert "emory" in remark["found"]


def test_processes_end_with_the_text_even_those_that_left_the_group(asker):
    name = f"rx{os.getpid()}"[:15]
    forks = f"""
import os, ctypes
ctypes.CDLL(None).prctl(15, b"{name}", 0, 0, 0)
for level in range(3):
    if os.fork() == 0:
        if level % 2:
            os.setsid()
os.write(2, b"here ")
while True: pass
"""
    answer = asker.ask(forks)
    remark = only(answer)
    assert alive(name) == []
    if os.geteuid() == 0:
        assert answer["printed"].count("here") > 1
        assert "stopped" in remark["found"]
    else:  # the kernel holds others than the superuser to the limit
        assert "BlockingIOError" in remark["found"]


@pytest.mark.parametrize(
    "text", ["import os\nos._exit(3)\n", "import ctypes\nctypes.string_at(0)\n"]
)
def test_a_text_that_ends_its_process_gets_a_message_and_the_next_one_an_answer(asker, text):
    answer = asker.ask(text)
    assert answer["end"] == "ended"
    assert re.search("exit code 3|signal 11", only(answer)["found"])
    assert asker.ask("raise KeyboardInterrupt\n")["end"] == "done"


def test_noise_in_the_answer_is_no_answer(asker):
    noise = "import os\nfor fd in range(3, 64):\n    try: os.write(fd, b'{]\\n[1]\\n')\n"
    answer = asker.ask(noise + "    except OSError: pass\n" + LEAKY)
    assert answer["cell"] == "leaky"


def test_the_latest_edit_wins(asker):
    async def edits():
        heard = []
        for number in range(5):
            asker.evaluator.ask("page", Question("while True: pass\n"), heard.append)
            await asyncio.sleep(0.01 * number)
        answer = await asker.answer("page", Question(LEAKY))
        return heard, answer

    began = time.monotonic()
    heard, answer = asker.run(edits())
    assert heard == []
    assert answer["cell"] == "leaky"
    assert time.monotonic() - began < SECONDS + 4


def test_another_page_waits_its_turn_and_a_closed_one_is_forgotten(asker):
    async def pages():
        heard = []
        asker.evaluator.ask("closed", Question("while True: pass\n"), heard.append)
        first = asyncio.create_task(asker.answer("one", Question("x = 1\n")))
        second = asyncio.create_task(asker.answer("two", Question(LEAKY)))
        await asyncio.sleep(0.05)
        asker.evaluator.forget("closed")
        return heard, await first, await second

    heard, first, second = asker.run(pages())
    assert heard == []
    assert first["cells"] == []
    assert second["cell"] == "leaky"


def test_it_has_no_word_of_the_token(asker):
    text = "import os\nprint(os.getppid())\nprint(open(f'/proc/{os.getppid()}/cmdline').read())\n"
    answer = asker.ask(text)
    assert "rnnc.explore.warm" in answer["printed"]
    assert "token" not in answer["printed"]


@pytest.mark.slow
def test_a_text_that_ends_the_warm_process_gets_a_message_and_another_one_starts():
    asker = Asker()
    answer = asker.ask("import os\nos.kill(os.getppid(), 9)\n")
    assert answer["end"] == "died"
    try:
        assert asker.ask(LEAKY)["cell"] == "leaky"
    finally:
        asker.stop()

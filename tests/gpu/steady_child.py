"""Runs cases of wavefronts, walks, scans, cells with stages and steps, each in a fresh process.

It is forked before CUDA starts, so imports are paid once. Reads a case per line, in JSON, and
writes what became of it.
"""

from __future__ import annotations

import faulthandler
import json
import os
import signal
import sys
import threading
import time
import traceback

# All that a first call imports: beside busy threads an import takes a minute.
import rnnc
import sympy  # noqa: F401
import torch
from rnnc.codegen import adjoint, derive, render  # noqa: F401
from rnnc.codegen.cuda import planner, source  # noqa: F401
from rnnc.runtime.cuda import nvrtc, target  # noqa: F401
from steady_faults import BLOCKS, PAUSE, Fault

STEPS, LIMIT = 1024, 90.0  # seconds, beside busy threads most of all
# Calls: first, known, recorded and replayed, whose results stay; then calls whose results go, so
# that their memory comes again, and what is issued becomes graphs.
KEPT, DROPPED = 5, 5
LOOP, EACH = 40, 10  # steps of a loop, and steps from one fault to the next


@rnnc.cell
def gated_input(z: rnnc.Gate, n: rnnc.Gate, h: rnnc.State, *, keep: rnnc.Input):
    """A gated unit whose input scales its memory."""
    return keep * rnnc.sigmoid(z) * h + (1 - rnnc.sigmoid(z)) * rnnc.tanh(n)


def module(case, order, variant="auto"):
    torch.manual_seed(1)
    heads, dim = map(int, case["heads"].split("x"))
    kind = case.get("kind")
    cells = {"gru": rnnc.cells.gru, "input": gated_input}
    # Blocks of a scan wait for each other.
    cells |= {"walk": rnnc.cells.mingru, "scan": rnnc.cells.mingru}
    cell = cells.get(kind, rnnc.cells.lstm)
    return rnnc.RNN(
        *(case.get("cell", cell), heads * dim, heads * dim),
        heads=heads,
        num_layers=case["layers"],
        dropout=0.3 if kind == "dropout" else 0.0,
        layers=order,
        variant=kind if kind in ("walk", "scan") else variant,
        device="cuda",
        dtype=torch.bfloat16,
    )


def results(rnn, case, x, seed):
    """The output and, if wanted, the gradients."""
    torch.manual_seed(2)  # of dropout
    more = rows(x) if case.get("rows") == "lengths and resets" else {}
    if case.get("kind") == "input":
        more["inputs"] = {"keep": torch.full(x.shape[:2], 0.9, device="cuda").bfloat16()}
    if not case["backward"]:
        with torch.no_grad():
            return {"y": rnn(x, **more)[0]}
    x = x.detach().requires_grad_()
    y, _ = rnn(x, **more)
    wanted = {"x": x, **dict(rnn.named_parameters())}
    found = torch.autograd.grad(y, list(wanted.values()), seed)
    return {"y": y.detach()} | {f"d {n}": g for n, g in zip(wanted, found, strict=True)}


def rows(x):
    """Lengths and resets of rows."""
    steps, batch = x.shape[:2]
    lengths = torch.linspace(steps, steps // 3, batch, device="cuda").long()
    return {"lengths": lengths, "reset": torch.rand(steps, batch, device="cuda") < 0.01}


def on_cpu(tensors):
    return {name: tensor.cpu() for name, tensor in tensors.items()}


def same(found, wanted, exactly):
    """Nothing, or the name of what differs."""
    for name, tensor in wanted.items():
        other = found[name]
        if exactly and not torch.equal(other, tensor):
            return f"{name} has other bits"
        error = (other.float() - tensor.float()).norm() / tensor.float().norm().clamp_min(1e-6)
        if not error < 0.05:
            return f"{name} is off by {float(error):.3g}"
    return ""


def stepped(rnn, way, xs, before=lambda number: None):
    """Outputs of a loop of steps, and the states behind it; `before` runs ahead of each step."""
    states, outputs = None, []
    stepper = rnn.stepper(xs.shape[1]) if way == "stepper" else None
    with torch.no_grad():
        for number, x in enumerate(xs):
            before(number)
            if stepper is not None:
                y, states = stepper(x).clone(), stepper.states
            else:
                y, states = rnn.step(x, None if way == "first steps" else states)
            outputs.append(y)
    return on_cpu({"y": torch.stack(outputs), **{f"last {i}": s for i, s in enumerate(states)}})


def outcome_of_steps(case):
    """A loop of steps beside a fault has the bits of a calm one, near those of a sequence."""
    fault, rnn, ended = Fault(case["fault"]), module(case, "sequential"), threading.Event()
    torch.manual_seed(3)
    xs = torch.randn(LOOP, case["batch"], rnn.hidden_size, device="cuda", dtype=torch.bfloat16)
    begin_to_count(case, ended)

    def before(number):
        if number % EACH:
            return
        if case["fault"] == "pauses":
            fault.pause = {fault.issued + number // EACH}
            time.sleep(PAUSE)
        elif case["fault"] in BLOCKS:
            fault.hold(BLOCKS[case["fault"]])

    found = [stepped(rnn, case["way"], xs, before) for _ in range(2)]
    ended.set()
    graphs, fault.pause = fault.graphs, set()
    calm = stepped(rnn, case["way"], xs)
    if case["way"] != "first steps":
        with torch.no_grad():
            y, last = rnn(xs)
        sequence = {"y": y, **{f"last {i}": s for i, s in enumerate(last)}}
        wrong = same(calm, on_cpu(sequence), exactly=False)
        if wrong:
            return f"wrong: {wrong} without a fault"
    for number, each in enumerate(found):
        wrong = same(each, calm, exactly=True)
        if wrong:
            return f"wrong: {wrong} in loop {number}"
    return f"right, {graphs} graphs"


def begin_to_count(case, ended):
    """Start threads that compute until an event, if that is the fault of a case."""
    if case["fault"] == "busy threads":
        for _ in range(2):
            threading.Thread(target=count_until, args=(ended,), daemon=True).start()


def outcome(case):
    if "way" in case:
        return outcome_of_steps(case)
    order, variant = case.get("order", "sequential"), case.get("variant", "auto")
    layered = "order" in case
    fault, rnn = Fault(case["fault"]), module(case, order, variant)
    torch.manual_seed(3)
    x = torch.randn(STEPS, case["batch"], rnn.hidden_size, device="cuda", dtype=torch.bfloat16)
    seed = torch.randn_like(x) / 8
    ended = threading.Event()
    begin_to_count(case, ended)
    try:
        if case["call"] != "first":
            half = STEPS // 2
            results(rnn, case, x[:half], seed[:half])
            fault.wavefronts = 0
        calls = []
        if case["fault"] == "pauses":
            fault.pause = set(range(0, 10_000, 3))
        for number in range(KEPT + DROPPED):
            if case["fault"] in BLOCKS and not (layered and case["fault"] == "32 blocks"):
                fault.hold(BLOCKS[case["fault"]])
            fault.issued = 0
            found = results(rnn, case, x, seed)
            calls.append(found if number < KEPT else on_cpu(found))
            if case["fault"] == "pauses":  # in one place, another one in each call
                fault.pause = {fault.issued * (number % KEPT + 1) // (KEPT + 1)}
        torch.cuda.synchronize()
        ended.set()  # a comparison of gigabytes is not what is tested
    except rnnc.PlanError as error:
        if order == "wavefront" or variant != "auto":
            return f"refused: {error.found}"
        raise
    wavefronts, graphs = fault.wavefronts, fault.graphs
    if not layered:  # the bits of a calm call, near those of a plan whose blocks do not wait
        calm = on_cpu(results(rnn, case, x, seed))
        others = on_cpu(results(module(case, order, "alternating"), case, x, seed))
        wrong = same(calm, others, exactly=False)
        if wrong:
            return f"wrong: {wrong} without a fault"
    else:
        calm = on_cpu(results(module(case, "sequential"), case, x, seed))
    for found in calls:
        wrong = same(on_cpu(found), calm, exactly=not layered or order == "wavefront")
        if wrong:
            return f"wrong: {wrong}"
    return f"right, {wavefronts} wavefronts, {graphs} graphs"


def count_until(ended):
    """Compute in Python."""
    number = 0
    while not ended.is_set():
        for _ in range(10_000):
            number += 1


def child(case):
    """Run a case and write what became of it; never returns."""
    begin = time.monotonic()
    faulthandler.dump_traceback_later(LIMIT - 5)  # of a case that hangs
    try:
        found = outcome(case)
    except BaseException:
        found = "error: " + traceback.format_exc()
    found += f", {time.monotonic() - begin:.1f} s"
    os.write(1, (json.dumps(found) + "\n").encode())
    os._exit(0)


def main():
    for line in sys.stdin:
        process = os.fork()
        if not process:
            child(json.loads(line))
        end = time.monotonic() + LIMIT
        while not os.waitpid(process, os.WNOHANG)[0]:
            if time.monotonic() > end:
                os.kill(process, signal.SIGKILL)
                os.waitpid(process, 0)
                os.write(1, (json.dumps(f"hangs: no end within {LIMIT} s") + "\n").encode())
                break
            time.sleep(0.01)
        os.write(1, b'"ended"\n')


if __name__ == "__main__":
    main()

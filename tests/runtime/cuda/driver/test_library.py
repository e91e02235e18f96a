"""Which functions of libraries keep the interpreter's lock."""

from __future__ import annotations

import ctypes
import sys
import threading
from types import SimpleNamespace

import pytest
import rnnc
import torch
from rnnc.runtime.cuda.driver import driver, matmul, room
from rnnc.runtime.cuda.driver.algorithms import Proposal

SECONDS = 0.2


@pytest.fixture
def functions(new_functions):
    """The functions of the driver, none of which is known yet or later."""
    return driver


@pytest.mark.skipif(sys.platform == "win32", reason="there is no usleep")
def test_who_keeps_the_lock_stops_other_threads(functions, monkeypatch):
    monkeypatch.setattr(functions, "driver_path", lambda: None)  # the C library of the process
    monkeypatch.setitem(functions._TYPES, "usleep", (ctypes.c_uint,))
    counted, over = [0], threading.Event()

    def count():
        while not over.is_set():
            counted[0] += 1

    thread = threading.Thread(target=count)
    thread.start()
    found = {}
    try:
        for function in (functions.letting_go, functions.keeping):
            sleep = function.usleep
            before = counted[0]
            sleep(int(SECONDS * 1e6))
            found[function] = counted[0] - before
    finally:
        over.set()
        thread.join()
    assert found[functions.letting_go] > 2 * found[functions.keeping]


@pytest.mark.parametrize(
    ("layers", "options"), [(1, {}), (4, {"layers": "sequential"}), (2, {"bidirectional": True})]
)
def test_functions_of_the_driver_that_a_replayed_call_enters(
    layers, options, simulated_gpu, functions, monkeypatch
):
    """None of them lets go: what may wait is done before, by `make_room`."""
    monkeypatch.setattr(room, "is_here", lambda _: True)
    function, entered = functions._function, []

    def noted(kind, name):
        run = function(kind, name)
        return lambda *given: (entered.append((name, kind is ctypes.CDLL)), run(*given))[1]

    monkeypatch.setattr(functions, "_function", noted)
    rnn = rnnc.RNN(rnnc.cells.lstm, 8, 32, num_layers=layers, backend="simulated", **options)
    x = torch.randn(16, 3, 8)
    for _ in range(4):
        simulated_gpu.clear()
        entered.clear()
        rnn(x)[0].sum().backward()
    assert len(simulated_gpu) >= 2 * layers
    assert entered == [("cuLaunchKernelEx", False)] * len(simulated_gpu)


def test_the_first_launch_of_a_kernel_lets_go(simulated_gpu, functions, monkeypatch):
    from rnnc.runtime.cuda import launch

    monkeypatch.setattr(launch, "_LOADED", set())
    function, kinds = functions._function, []

    def noted(kind, name):
        run = function(kind, name)
        return lambda *given: (kinds.append(kind), run(*given))[1]

    monkeypatch.setattr(functions, "_function", noted)
    rnn = rnnc.RNN(rnnc.cells.lstm, 8, 32, backend="simulated")
    for _ in range(3):
        with torch.no_grad():
            rnn(torch.randn(16, 3, 8))
    assert kinds == [ctypes.CDLL, ctypes.PyDLL, ctypes.PyDLL]


def test_the_first_product_of_a_kind_lets_go(monkeypatch):
    entered = []

    def function(kind):
        def multiply(*_):
            entered.append(kind)
            return 0

        return multiply

    lt = SimpleNamespace(keeping=function(ctypes.PyDLL))
    lt.library = SimpleNamespace(cublasLtMatmul=function(ctypes.CDLL))
    monkeypatch.setattr(matmul, "cluster_of", lambda *_: 1)
    product = matmul._ByLt(lt, Proposal(), [], (1, 2), (3, 4, 5, 6, 7))
    for _ in range(3):
        product(1, 2, 3, 0, 0, 0)
    assert entered == [ctypes.CDLL, ctypes.PyDLL, ctypes.PyDLL]

"""A cell is a value: frozen, hashable, the same text and digest everywhere."""

from __future__ import annotations

import copy
import os
import pickle
import subprocess
import sys

import pytest
import rnnc
from pydantic import ValidationError
from rnnc import Constant, Gate, Param, State, constant, gate, param, state, tanh


def test_frozen_hashable_equal():
    lstm = rnnc.cells.lstm
    with pytest.raises(ValidationError):
        lstm.name = "other"
    again = rnnc.Cell.from_json(lstm.to_json())
    assert again == lstm
    assert hash(again) == hash(lstm)
    assert lstm != rnnc.cells.gru


def test_copies_and_pickles_are_the_cell():
    for name in rnnc.cells.names():
        cell = rnnc.cells.get(name)
        assert copy.deepcopy(cell) is cell
        assert pickle.loads(pickle.dumps(cell)) == cell


def test_fingerprint_depends_on_equations_and_constants_and_not_on_prose_or_process():
    leaky = rnnc.cells.leaky_rate
    assert leaky.model_copy(update={"doc": "other"}).fingerprint == leaky.fingerprint
    assert leaky.with_constants(alpha=0.25).fingerprint != leaky.fingerprint
    program = "import rnnc; print(rnnc.cells.slstm.fingerprint, rnnc.cells.slstm.cpp().digest)"
    # This process has another hash seed, a random one.
    environment = {**os.environ, "PYTHONHASHSEED": "1"}
    done = subprocess.run(
        [sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=True
    )
    slstm = rnnc.cells.slstm
    assert done.stdout == f"{slstm.fingerprint} {slstm.cpp().digest}\n"


def test_constants_are_overridden_and_everything_derived_from_them():
    cell = rnnc.cells.leaky_rate
    other = cell.with_constants(alpha=0.25)
    assert isinstance(other, rnnc.Cell)
    assert "real(0.25)" in other.cpp().code
    assert "real(0.25)" not in cell.cpp().code
    assert cell.with_constants() == cell


def test_orders_are_those_of_the_signature():
    @rnnc.cell
    def many(
        a: Gate,
        y: State,
        z: State,
        *,
        b: Gate = gate(recurrent="diagonal", source=("y", "z")),
        c: Gate = gate(input=False, source=("z", "y"), bias=False),
        d: Gate = gate(recurrent=False),
        w: Param = param(2.0),
        k: Constant = constant(3),
    ):
        """Many."""
        return tanh(a + b) * w, tanh(c + d) * k

    assert many.input_gates == ("a", "b", "d")
    assert many.bias_gates == ("a", "b", "d")
    assert [(p.gate, p.source) for p in many.dense_pairs] == [("a", "y"), ("c", "z"), ("c", "y")]
    assert [(p.gate, p.source) for p in many.diagonal_pairs] == [("b", "y"), ("b", "z")]
    assert many.equations() == (
        "a = x_a + R_a y + b_a",
        "b = x_b + u_b,y * y + u_b,z * z + b_b",
        "c = R_c,z z + R_c,y y",
        "d = x_d + b_d",
        "y' = tanh(a + b)*w",
        "z' = tanh(c + d)*k",
    )


def test_state_start_values():
    @rnnc.cell
    def counter(g: Gate, h: State = state(init=1.5)):
        """Counts."""
        return h + tanh(g)

    assert counter.states[0].init == 1.5


def test_powers_and_functions_in_latex():
    def powers(g: rnnc.Gate, h: rnnc.State):
        return (g + h) ** 0.3 * 2**h - (g**h) ** 3 + rnnc.asinh(g) + rnnc.atan2(g, h)

    assert rnnc.cell(powers).latex().splitlines()[-2] == (
        r"h_t &= \left(g_t + h_{t-1}\right)^{0.3} \cdot 2^{h_{t-1}}"
        r" - \left(g_t^{h_{t-1}}\right)^{3} + \operatorname{arsinh}\left(g_t\right)"
        r" + \operatorname{atan2}\left(g_t, h_{t-1}\right)"
    )


def test_the_repr_names_what_a_cell_declares():
    def decaying(g: rnnc.Gate, dt: rnnc.Input, h: rnnc.State, w: rnnc.Param):
        return w * rnnc.tanh(g) - dt * h

    shown = "<rnnc.Cell decaying: gates g; states h; inputs dt; params w>"
    assert repr(rnnc.cell(decaying)) == shown


def test_equations_and_latex():
    lstm = rnnc.cells.lstm
    assert lstm.equations()[-2:] == (
        "c' = sigmoid(f)*c + sigmoid(i)*tanh(z)",
        "h' = sigmoid(o)*tanh(c')",
    )
    assert lstm.latex().splitlines()[-2] == r"h_t &= \sigma\left(o_t\right) \tanh\left(c_t\right)"
    assert r"R_{i} h_{t-1}" in lstm.latex()
    assert lstm._repr_latex_() == f"$${lstm.latex()}$$"
    for name in rnnc.cells.names():
        cell = rnnc.cells.get(name)
        lines = cell.equations()
        loops = sum("repeat" in line for line in lines)  # LaTeX says what a loop starts from apart
        assert cell.latex().count(r"\\") == len(lines) - 1 + loops
        assert str(cell).startswith(name)


def test_backward_equations():
    lines = rnnc.cells.lstm.backward_equations()
    assert "d_c = d_c_next_sum*sigmoid_f" in lines
    assert [x.split(" = ")[0] for x in lines if x.split(" = ")[0] in ("d_i", "d_f", "d_h")]


def test_third_party_cells_join_by_entry_point(tmp_path):
    package = tmp_path / "their_cells.py"
    package.write_text(
        "import rnnc\nfrom rnnc import Gate, State, sin\n"
        "@rnnc.cell\ndef theirs(g: Gate, h: State):\n    '''Theirs.'''\n    return sin(g)\n"
        "not_a_cell = 3\n"
    )
    info = tmp_path / "their_cells-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: their-cells\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(
        "[rnnc.cells]\ntheirs = their_cells:theirs\nbroken = their_cells:not_a_cell\n"
    )
    program = (
        "import rnnc\n"
        "assert 'theirs' in rnnc.cells.names()\n"
        "print(rnnc.cells.theirs.equations()[-1])\n"
        "try: rnnc.cells.get('broken')\n"
        "except rnnc.CellError as e: print(e)\n"
    )
    out = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    assert out.startswith("h' = sin(g)")
    assert "the entry point 'their_cells:not_a_cell', an int" in out


@pytest.mark.parametrize(
    ("name", "wanted"),
    [
        ("α", "alpha"),
        ("Δt", "Deltat"),
        ("ά", "alpha"),
        ("µ", "mu"),
        ("größe", "groesse"),
        ("élan", "elan"),
        ("x_ω", "x_omega"),
        ("λ", "lambda_gate"),  # `lambda` is Python's
        ("好", "my_gate"),
    ],
)
def test_a_name_of_other_letters_is_answered_with_one_that_works(name, wanted):
    with pytest.raises(rnnc.CellError) as refused:
        define(name)
    assert refused.value.write == f"another name, for example `{wanted}`"
    define(wanted)


def define(name):
    scope = {"Gate": rnnc.Gate, "State": rnnc.State, "tanh": rnnc.tanh}
    exec(f"def f({name}: Gate, h: State):\n    return tanh({name})", scope)
    return rnnc.cell(scope["f"])

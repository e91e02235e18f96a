"""Every cell of the library against a second implementation of its paper, in numpy or torch.

Here are steps of one unit. Cells whose units meet within a step are compared in
`tests/runtime/test_library_stages.py`.
"""

import re
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from rnnc.cellspec import library
from rnnc.cellspec.cell import CellSpec
from rnnc.cellspec.library import NAMES, load

from ..one_stage import ONE_STAGE

FOLDER = Path(library.__file__).parent
UNITS = 64


def sigmoid(x):
    return 0.5 * (1 + np.tanh(x / 2))


def relu(x):
    return np.where(x > 0, x, 0)


def softplus(x):
    return np.logaddexp(x, 0)


tanh, exp = np.tanh, np.exp

# What a cell's equations may call.
FUNCTIONS = {
    "sigmoid": sigmoid,
    "tanh": tanh,
    "relu": relu,
    "silu": lambda x: x * sigmoid(x),
    "softplus": softplus,
    "logsigmoid": lambda x: -softplus(-x),
    "exp": exp,
    "maximum": np.maximum,
    "minimum": np.minimum,
    "where": np.where,
    "stop_gradient": lambda x: x,
    "with_gradient": lambda value, of: value,
    "heaviside": lambda x: np.where(x > 0, 1, 0),
    "clip": np.clip,
    "expm1": np.expm1,
    "atan": np.arctan,
    "cos": np.cos,
    "sin": np.sin,
    "sqrt": np.sqrt,
    "softsign": lambda x: x / (1 + abs(x)),
}

# One step of each cell, from its paper: gates g, states s, params p, constants k -> new states.
STEPS = {}


def step(function):
    STEPS[function.__name__] = function
    return function


@step
def antisymmetric_rnn(g, s, p, k):
    return s.h + k.epsilon * tanh(g.g - k.gamma * s.h)


@step
def atr(g, s, p, k):
    i, f = sigmoid(g.p + g.q), sigmoid(g.p - g.q)
    return i * g.p + f * s.h


@step
def brc(g, s, p, k):
    a, c = 1 + tanh(g.a), sigmoid(g.c)
    return c * s.h + (1 - c) * tanh(g.u + a * s.h)


@step
def cfn(g, s, p, k):
    return sigmoid(g.theta) * tanh(s.h) + sigmoid(g.eta) * tanh(g.w)


@step
def cifg_lstm(g, s, p, k):
    i = sigmoid(g.i)
    f = 1 - i
    c = i * tanh(g.z) + f * s.c
    return sigmoid(g.o) * tanh(c), c


@step
def cornn(g, s, p, k):
    z = s.z + k.dt * (tanh(g.g) - k.gamma * s.y - k.epsilon * s.z)
    y = s.y + k.dt * z
    return y, z


@step
def elman(g, s, p, k):
    return tanh(g.g)


@step
def fastgrnn(g, s, p, k):
    z, candidate = sigmoid(g.g + p.b_z), tanh(g.g + p.b_h)
    return (sigmoid(p.zeta) * (1 - z) + sigmoid(p.nu)) * candidate + z * s.h


@step
def fastrnn(g, s, p, k):
    return sigmoid(p.alpha) * tanh(g.g) + sigmoid(p.beta) * s.h


@step
def gated_antisymmetric_rnn(g, s, p, k):
    z = sigmoid(g.a - k.gamma * s.h + g.z)
    return s.h + k.epsilon * z * tanh(g.a - k.gamma * s.h + g.n)


@step
def gru(g, s, p, k):
    r, z = sigmoid(g.r), sigmoid(g.z)
    candidate = tanh(g.n + r * g.m)
    return z * s.h + (1 - z) * candidate


@step
def hgrn(g, s, p, k):
    forget = k.gamma + (1 - k.gamma) * sigmoid(g.f)
    return forget * s.h + (1 - forget) * g.c * sigmoid(g.c)


@step
def indrnn(g, s, p, k):
    return relu(g.g)


@step
def intersection_rnn(g, s, p, k):
    gy, gh = sigmoid(g.g_y), sigmoid(g.g_h)
    y = gy * g.x + (1 - gy) * relu(g.y_in)
    h = gh * s.h + (1 - gh) * tanh(g.h_in)
    return y, h


@step
def irnn(g, s, p, k):
    return relu(g.g)


@step
def janet(g, s, p, k):
    return sigmoid(g.s) * s.h + (1 - sigmoid(g.s - k.beta)) * tanh(g.c)


@step
def leaky_rate(g, s, p, k):
    return (1 - k.alpha) * s.h + k.alpha * np.log(1 + exp(g.g))


@step
def light_ru(g, s, p, k):
    f = sigmoid(g.f)
    return (1 - f) * s.h + f * tanh(g.n)


@step
def ligru(g, s, p, k):
    z = sigmoid(g.z)
    return z * s.h + (1 - z) * relu(g.n)


@step
def lstm(g, s, p, k):
    c = sigmoid(g.f) * s.c + sigmoid(g.i) * tanh(g.z)
    return sigmoid(g.o) * tanh(c), c


@step
def lstm_1997(g, s, p, k):
    c = s.c + 1 / (1 + exp(-g.i)) * (4 / (1 + exp(-g.z)) - 2)
    return 1 / (1 + exp(-g.o)) * (2 / (1 + exp(-c)) - 1), c


@step
def mc_lstm(g, s, p, k):
    c = sigmoid(g.f) * s.c + sigmoid(g.i) * tanh(g.n)
    return sigmoid(g.o) * tanh(c), sigmoid(g.m) * tanh(c), c


@step
def mingru(g, s, p, k):
    z = sigmoid(g.z)
    return (1 - z) * s.h + z * g.n


@step
def minimal_rnn(g, s, p, k):
    u, z = sigmoid(g.u), tanh(g.z)
    return u * s.h + (1 - u) * z


@step
def minlstm(g, s, p, k):
    f, i = sigmoid(g.f), sigmoid(g.i)
    return f / (f + i) * s.h + i / (f + i) * g.n


@step
def nas_cell(g, s, p, k):
    leaf0, leaf1 = sigmoid(g.g0), relu(g.g1)
    leaf2, leaf3 = sigmoid(g.g2), relu(g.x3 * g.r3)
    leaf4, leaf5 = tanh(g.g4), sigmoid(g.g5)
    leaf6, leaf7 = tanh(g.g6), sigmoid(g.g7)
    branch0, branch1 = tanh(leaf0 * leaf1), tanh(leaf2 + leaf3)
    branch2, branch3 = tanh(leaf4 * leaf5), sigmoid(leaf6 + leaf7)
    c = tanh(branch0 + s.c) * branch1
    return tanh(c * tanh(branch2 + branch3)), c


@step
def nbrc(g, s, p, k):
    return brc(g, s, p, k)


@step
def peephole_lstm(g, s, p, k):
    i, f = sigmoid(g.i + p.p_i * s.c), sigmoid(g.f + p.p_f * s.c)
    c = f * s.c + i * tanh(g.z)
    o = sigmoid(g.o + p.p_o * c)
    return o * tanh(c), c


@step
def qrnn(g, s, p, k):
    z, f, o = tanh(g.z), sigmoid(g.f), sigmoid(g.o)
    c = f * s.c + (1 - f) * z
    return o * c, c


@step
def ran(g, s, p, k):
    c = sigmoid(g.i) * g.content + sigmoid(g.f) * s.c
    return tanh(c), c


@step
def scrn(g, s, p, k):
    context = (1 - k.alpha) * g.b + k.alpha * s.s
    return sigmoid(g.g), context


@step
def slstm(g, s, p, k):
    # The paper starts from m = -inf and n = 0.
    before = np.where(s.n == 0, -np.inf, s.m)
    forget = np.log(sigmoid(g.f)) + before
    m = np.maximum(forget, g.i)
    c = exp(forget - m) * s.c + exp(g.i - m) * tanh(g.z)
    n = exp(forget - m) * s.n + exp(g.i - m)
    return sigmoid(g.o) * c / n, c, n, m


@step
def sru(g, s, p, k):
    f, r = sigmoid(g.f), sigmoid(g.r)
    c = f * s.c + (1 - f) * g.u
    return r * c + (1 - r) * g.x * k.alpha, c


@step
def star(g, s, p, k):
    gain, z = sigmoid(g.k), tanh(g.z)
    return tanh((1 - gain) * s.h + gain * z)


@step
def ugrnn(g, s, p, k):
    gate = sigmoid(g.g)
    return gate * s.h + (1 - gate) * tanh(g.c)


@step
def unicornn(g, s, p, k):
    # The paper's own form of the squashed time step.
    dt = k.dt * (0.5 + 0.5 * tanh(p.c / 2))
    z = s.z - dt * (tanh(g.g) + k.alpha * s.y)
    y = s.y + dt * z
    return y, z


@step
def noisy_rate(g, s, p, k):
    # Euler's step of the paper's tau dr/dt = -r + f(...), with alpha = dt / tau.
    return s.h + k.alpha * (-s.h + softplus(g.g + g.xi))


@step
def zoneout_lstm(g, s, p, k):
    c = sigmoid(g.f) * s.c + sigmoid(g.i) * tanh(g.z)
    h = sigmoid(g.o) * tanh(c)
    return g.keep_h * s.h + (1 - g.keep_h) * h, g.keep_c * s.c + (1 - g.keep_c) * c


@step
def dropout_lstm(g, s, p, k):
    c = sigmoid(g.f) * s.c + sigmoid(g.i) * (tanh(g.z) * g.kept)
    return sigmoid(g.o) * tanh(c), c


# Params of norms.
BIASES, NORM_OF_C = "b_i b_f b_z b_o", "gain_c b_c"
GAINS_OF_LSTM = "gain_i_x gain_f_x gain_z_x gain_o_x gain_i_h gain_f_h gain_z_h gain_o_h"
GAINS_OF_GRU = "gain_z_x gain_r_x gain_n_x gain_z_h gain_r_h gain_n_h"
# gates with input, with bias; dense pairs, diagonal pairs; states; params; constants
STRUCTURE = {
    "antisymmetric_rnn": (1, 1, 1, 0, "h", "", "epsilon gamma"),
    "atr": (1, 1, 1, 0, "h", "", ""),
    "brc": (3, 2, 0, 2, "h", "", ""),
    "cfn": (3, 2, 2, 0, "h", "", ""),
    "cifg_lstm": (3, 3, 3, 0, "h c", "", ""),
    "cornn": (1, 1, 2, 0, "y z", "", "dt gamma epsilon"),
    "dropout_lstm": (4, 4, 4, 0, "h c", "", "share"),
    "elman": (1, 1, 1, 0, "h", "", ""),
    "fastgrnn": (1, 0, 1, 0, "h", "b_z b_h zeta nu", ""),
    "fastrnn": (1, 1, 1, 0, "h", "alpha beta", ""),
    "gated_antisymmetric_rnn": (2, 2, 1, 0, "h", "", "epsilon gamma"),
    "gru": (3, 4, 3, 0, "h", "", ""),
    "hgrn": (2, 0, 0, 0, "h", "", "gamma"),
    "indrnn": (1, 1, 0, 1, "h", "", ""),
    "intersection_rnn": (5, 4, 4, 0, "y h", "", ""),
    "irnn": (1, 1, 1, 0, "h", "", ""),
    "janet": (2, 2, 2, 0, "h", "", "beta"),
    "leaky_rate": (1, 1, 1, 0, "h", "", "alpha"),
    "light_ru": (2, 1, 1, 0, "h", "", ""),
    "ligru": (2, 2, 2, 0, "h", "", ""),
    "lstm": (4, 4, 4, 0, "h c", "", ""),
    "lstm_1997": (3, 3, 3, 0, "h c", "", ""),
    "mc_lstm": (5, 5, 5, 0, "h v c", "", ""),
    "mingru": (2, 2, 0, 0, "h", "", ""),
    "minimal_rnn": (2, 2, 1, 0, "h", "", ""),
    "minlstm": (3, 3, 0, 0, "h", "", ""),
    "nas_cell": (8, 8, 8, 0, "h c", "", ""),
    "nbrc": (3, 2, 2, 0, "h", "", ""),
    "noisy_rate": (1, 1, 1, 0, "h", "", "alpha sigma"),
    "peephole_lstm": (4, 4, 4, 0, "h c", "p_i p_f p_o", ""),
    "qrnn": (3, 3, 0, 0, "h c", "", ""),
    "ran": (3, 2, 2, 0, "h c", "", ""),
    "scrn": (2, 1, 2, 0, "h s", "", "alpha"),
    "slstm": (4, 4, 4, 0, "h c n m", "", ""),
    "sru": (4, 2, 0, 2, "h c", "", "alpha"),
    "star": (2, 2, 1, 0, "h", "", ""),
    "ugrnn": (2, 2, 2, 0, "h", "", ""),
    "unicornn": (1, 1, 0, 1, "y z", "c", "dt alpha"),
    "damped_ema": (1, 0, 0, 0, "h", "alpha delta", ""),
    "ema": (1, 0, 0, 0, "h", "alpha", ""),
    "gilr": (2, 2, 0, 0, "h", "", ""),
    "lru": (2, 0, 0, 0, "re im", "nu theta gamma", ""),
    "mingru_highway": (3, 3, 0, 0, "y h", "", ""),
    "rg_lru": (3, 2, 0, 0, "h", "decay", "c"),
    "s5": (2, 0, 0, 0, "re im", "alpha omega step", ""),
    "slstm_without_r": (4, 4, 0, 0, "h c n m", "", ""),
    "zoneout_lstm": (4, 4, 4, 0, "h c", "", "p_h p_c"),
    "adaptive_lif": (1, 1, 1, 0, "z v a", "", "alpha rho beta threshold gamma"),
    "cfc": (3, 3, 3, 0, "x", "", ""),
    "delayed_lif": (1, 1, 1, 0, "s v s1 s2 s3 a", "d1 d2 d3 d4", "beta threshold alpha"),
    "exponential_lif": (1, 1, 1, 0, "s v", "", "dt tau rest onset sharpness peak reset width"),
    "fitzhugh_nagumo": (1, 1, 1, 0, "x y", "", "a b c dt"),
    "hodgkin_huxley": (1, 1, 1, 0, "s v m h n", "", "dt width"),
    "izhikevich": (1, 1, 1, 0, "s v u", "", "a b c d width"),
    "lif": (1, 1, 0, 0, "s v", "", "beta threshold alpha"),
    "lif_to_zero": (1, 1, 0, 0, "s v", "", "alpha beta threshold"),
    "ltc": (1, 1, 1, 0, "x", "tau A", "dt"),
    "rlif_atan": (1, 1, 1, 0, "s v", "", "beta threshold alpha"),
    "rlif_fast_sigmoid": (1, 1, 1, 0, "s v", "", "beta threshold k"),
    "rlif_triangle": (1, 1, 1, 0, "s v", "", "beta threshold gamma"),
    "synaptic_lif": (1, 1, 1, 0, "s syn v", "", "alpha beta threshold slope"),
    "block_gru": (1, 4, 4, 0, "h", "gain", ""),
    "cfc_backbone": (1, 4, 4, 0, "x", "", ""),
    "deep_transition_rnn": (1, 2, 2, 0, "h", "", ""),
    "dreamer_gru": (3, 3, 3, 0, "h", "gain_r gain_n gain_u b_r b_n b_u", ""),
    "dsgu": (2, 2, 3, 0, "h", "", ""),
    "entity_network": (2, 1, 1, 0, "h", "w slope", ""),
    "gru_d": (4, 4, 3, 0, "h", "", ""),
    "gru_ode": (3, 3, 3, 0, "h", "", ""),
    "gru_reset_first": (3, 3, 3, 0, "h", "", ""),
    "joint_norm_lstm": (4, 0, 4, 0, "h c", f"{BIASES} gain_i gain_f gain_z gain_o {NORM_OF_C}", ""),
    "layer_norm_gru": (3, 0, 3, 0, "h", f"{GAINS_OF_GRU} b_z b_r b_n b_m", ""),
    "layer_norm_lstm": (4, 0, 4, 0, "h c", f"{GAINS_OF_LSTM} {BIASES} {NORM_OF_C}", ""),
    "layer_norm_rnn": (1, 0, 1, 0, "h", "gain shift", ""),
    "layer_norm_slstm": (4, 4, 4, 0, "y h c n m", "gain", ""),
    "lem": (4, 4, 4, 0, "y z", "", "dt"),
    "mgu": (2, 2, 2, 0, "h", "", ""),
    "mgu1": (1, 2, 2, 0, "h", "", ""),
    "mgu2": (1, 1, 2, 0, "h", "", ""),
    "mgu3": (1, 1, 1, 0, "h", "b_f", ""),
    "miru1": (2, 2, 2, 0, "h", "", "update"),
    "miru2": (1, 1, 1, 0, "h", "", "reset update"),
    "mogrifier_lstm": (1, 4, 13, 0, "h c", "", ""),
    "multiplicative_lstm": (5, 4, 5, 0, "h c", "", ""),
    "multiplicative_rnn": (2, 1, 2, 0, "h", "", ""),
    "mut1": (3, 3, 2, 0, "h", "", ""),
    "mut2": (3, 3, 3, 0, "h", "", ""),
    "mut3": (3, 3, 3, 0, "h", "", ""),
    "nested_lstm": (4, 8, 12, 0, "h c inner", "", ""),
    "residual_lstm": (5, 4, 5, 0, "h c", "p_i p_f p_o", ""),
    "rhn": (2, 6, 6, 0, "s", "", ""),
    "sgu": (2, 2, 2, 0, "h", "", ""),
    "sligru": (2, 2, 2, 0, "h", "", ""),
    "wmc_lstm": (4, 4, 7, 0, "h c", "", ""),
}
# What the recurrent matrices multiply, where it is not the first state alone: other states, and
# what a gate `n` is called with, `n()`.
SOURCES = {
    "cornn": {"y", "z"},
    "delayed_lif": {"a"},
    "intersection_rnn": {"h"},
    "mc_lstm": {"v"},
    "scrn": {"h", "s"},
    "sru": {"c"},
    "block_gru": {"c()", "h", "r()", "u()"},
    "cfc_backbone": {"f()", "g()", "h()", "x"},
    "deep_transition_rnn": {"h", "n()"},
    "dsgu": {"g()", "h", "o()"},
    "gru_d": {"n()", "r()", "z()"},
    "gru_ode": {"g()", "h"},
    "gru_reset_first": {"h", "n()"},
    "layer_norm_slstm": {"h"},
    "lem": {"n_y()", "y"},
    "mgu": {"h", "n()"},
    "mgu1": {"h", "n()"},
    "mgu2": {"h", "n()"},
    "mgu3": {"n()"},
    "miru1": {"h", "n()"},
    "miru2": {"n()"},
    "mogrifier_lstm": set("f() f_x() h i() i_x() o() o_x() q3() q5() r2() r4() z() z_x()".split()),
    "multiplicative_lstm": {"f()", "h", "i()", "o()", "z()"},
    "multiplicative_rnn": {"h", "n()"},
    "mut1": {"h", "n()"},
    "mut2": {"h", "n()"},
    "mut3": {"h", "n()", "z()"},
    "nested_lstm": set("f_h() f_x() h i_h() i_x() o_h() o_x() z_h() z_x()".split()),
    "residual_lstm": {"h", "m()"},
    "rhn": {"H2()", "H3()", "T2()", "T3()", "s"},
    "sgu": {"g()", "h"},
    "wmc_lstm": {"c", "h", "o_c()"},
}


def evaluate(cell: CellSpec, **values):
    """The cell's new states, by Python's own reading of its equations."""
    names = {**FUNCTIONS, **{c.name: c.value for c in cell.constants}, **values}
    first = len(cell.gates) + len(cell.drawn)
    text = "\n".join(cell.equations()[first:]).replace("'", "_next")
    parts = re.split(r"\n(?! )", text)  # a loop and its body are one part
    for _ in parts:  # one may read a new state that stands below it
        parts = [part for part in parts if not runs(part, names)]
    return [names[f"{state.name}_next"] for state in cell.states]


def runs(part, names):
    loop = re.match(r"repeat (\d+) times, from (.*):", part)
    if loop:
        starts = re.sub(r", (?=\w+ = )", "; ", loop[2])
        part = f"{starts}\nfor _ in range({loop[1]}):{part[loop.end() :]}"
    try:
        exec(part, names)
    except NameError:
        return False
    return True


def draw(cell: CellSpec, seed: int):
    """Random gates and inputs, states, params and constants."""
    random = np.random.default_rng(seed)
    gates = {g.name: 2 * random.normal(size=UNITS) for g in (*cell.gates, *cell.inputs)}
    states = {s.name: random.normal(size=UNITS) for s in cell.states}
    params = {p.name: random.normal(size=UNITS) for p in cell.params}
    constants = {c.name: random.uniform(0.1, 0.9) for c in cell.constants}
    if cell.name == "slstm_without_r":
        states["n"] = np.abs(states["n"])
    if cell.name == "slstm":  # n is positive after the first step, c and n are 0 before it
        states["n"] = np.abs(states["n"])
        states["n"][: UNITS // 4] = states["c"][: UNITS // 4] = 0
    if cell.name == "hodgkin_huxley":  # shares of open gates
        states |= {name: random.uniform(size=UNITS) for name in "mhn"}
        states["v"] = random.uniform(-90, 60, size=UNITS)
    if cell.name == "fitzhugh_nagumo":  # longer steps leave the range where Euler's method holds
        constants["dt"] /= 20
    return gates, states, params, constants


@pytest.fixture(scope="module")
def all_steps(neuron_steps, scan_steps):
    """Steps of numpy's arrays; some compute with torch."""

    def of_arrays(step):
        def run(*groups):
            tensors = (
                SimpleNamespace(**{n: torch.tensor(v, dtype=torch.float64) for n, v in g.items()})
                for g in map(vars, groups)
            )
            found = step(*tensors)
            return tuple(v.numpy() for v in (found if isinstance(found, tuple) else (found,)))

        return run

    by_torch = neuron_steps.STEPS | scan_steps.STEPS
    return STEPS | {name: of_arrays(step) for name, step in by_torch.items()}


@pytest.mark.parametrize("name", ONE_STAGE)
@pytest.mark.parametrize("seed", range(3))
def test_cell_computes_what_its_paper_says(name, seed, all_steps):
    cell = load(name)
    groups = draw(cell, seed)
    wanted = all_steps[name](*(SimpleNamespace(**group) for group in groups))
    got = evaluate(cell, **{k: v for group in groups for k, v in group.items()})
    wanted = wanted if isinstance(wanted, tuple) else (wanted,)
    rtol = 1e-9 if name == "hodgkin_huxley" else 1e-12  # its rates have a series near 0
    for state, a, b in zip(cell.states, got, wanted, strict=True):
        np.testing.assert_allclose(a, b, rtol=rtol, atol=1e-14, err_msg=f"{name}.{state.name}")


@pytest.mark.parametrize("name", NAMES)
def test_cell_has_the_weights_of_its_paper(name):
    cell = load(name)
    got = (
        len(cell.input_gates),
        len(cell.bias_gates),
        len(cell.dense_pairs),
        len(cell.diagonal_pairs),
        " ".join(s.name for s in cell.states),
        " ".join(p.name for p in cell.params),
        " ".join(c.name for c in cell.constants),
    )
    assert got == STRUCTURE[name]
    sources = {pair.source for pair in cell.dense_pairs + cell.diagonal_pairs}
    default = {cell.states[0].name} if sources else set()
    assert sources == SOURCES.get(name, default)


def test_without_samples_cells_are_those_of_the_papers_evaluation():
    """The mean of each state or candidate; Yang et al. add noise of mean 0."""
    noise, plain = load("noisy_rate"), load("leaky_rate")
    assert noise.mean().updates == plain.updates
    for name, kept in (("zoneout_lstm", 0.3), ("dropout_lstm", 0.6)):
        cell = load(name)
        mean = cell.with_constants(**{c.name: kept for c in cell.constants}).mean()
        gates, states, params, _ = draw(cell, 5)
        gates |= {i.name: np.full(UNITS, kept) for i in cell.inputs}
        groups = (gates, states, params, {})
        wanted = STEPS[name](*(SimpleNamespace(**group) for group in groups))
        values = {n: v for group in groups for n, v in group.items() if n not in cell.drawn}
        np.testing.assert_allclose(evaluate(mean, **values), wanted, rtol=1e-12)


def test_noise_of_rates_has_the_deviation_of_the_paper():
    constants = load("noisy_rate").constant_values
    assert constants["sigma"] == pytest.approx((2 / constants["alpha"]) ** 0.5 * 0.05)


def test_names_are_sorted_and_complete(all_steps, stage_steps):
    files = {path.stem for path in FOLDER.glob("*.py")} - {"__init__"}
    assert list(NAMES) == sorted(NAMES)
    assert set(NAMES) == files == {*all_steps, *stage_steps.STEPS} == set(STRUCTURE)
    assert len(NAMES) >= 90


# Where a cell moves a part of the paper's equations into its weights, the whole step is compared.


@pytest.fixture
def weights():
    random = np.random.default_rng(0)

    def make(*shape):
        return random.normal(size=shape or (5,)) / 2

    return make


def test_scrn_with_the_context_folded_into_the_weights(weights):
    a, b, p, r = (weights(5, 5) for _ in range(4))
    x, h, s, alpha = weights(), weights(), weights(), 0.95
    new_s = (1 - alpha) * b @ x + alpha * s
    new_h = sigmoid(p @ new_s + a @ x + r @ h)
    gate = (a + (1 - alpha) * p @ b) @ x + r @ h + alpha * p @ s
    got = evaluate(load("scrn"), h=h, s=s, g=gate, b=b @ x)
    np.testing.assert_allclose(got, [new_h, new_s], rtol=1e-12)


def test_antisymmetric_rnns_with_the_diffusion_outside_the_matrix(weights):
    w, v_h, v_z = weights(5, 5), weights(5, 5), weights(5, 5)
    x, h, b_h, b_z = weights(), weights(), weights(), weights()
    epsilon, gamma = 0.3, 0.2
    whole = w - w.T - gamma * np.eye(5)
    candidate = tanh(whole @ h + v_h @ x + b_h)
    z = sigmoid(whole @ h + v_z @ x + b_z)
    constants = {"epsilon": epsilon, "gamma": gamma}
    plain = evaluate(load("antisymmetric_rnn"), h=h, g=(w - w.T) @ h + v_h @ x + b_h, **constants)
    gated = evaluate(
        load("gated_antisymmetric_rnn"),
        h=h,
        a=(w - w.T) @ h,
        z=v_z @ x + b_z,
        n=v_h @ x + b_h,
        **constants,
    )
    np.testing.assert_allclose(plain, [h + epsilon * candidate], rtol=1e-12)
    np.testing.assert_allclose(gated, [h + epsilon * z * candidate], rtol=1e-12)


def test_minlstm_where_both_gates_underflow():
    (h,) = evaluate(load("minlstm"), f=np.float64(-2000), i=np.float64(-2000), n=1.0, h=3.0)
    assert h == 2

"""Mid-size problems: the solver gives the answers of OR-tools CP-SAT."""

import random

import problems
import pytest
from rnnc.constrint import Model, Unsatisfiable

pytest.importorskip("ortools", reason="OR-tools is not installed")
from cp_sat import CpSat


def everything(model, seconds=30.0):
    status, seen = CpSat(model).all_solutions(seconds)
    assert status in ("OPTIMAL", "INFEASIBLE"), "CP-SAT ran out of time: raise it, or ask for less"
    return seen


@pytest.mark.parametrize("shape", [(48, 16, 16, 4), (3, 384, 8, 3), (1, 2048, 16, 4)])
def test_all_solutions_of_a_tile_problem(shape):
    model = problems.tile_problem(*shape)
    assert (len(model.variables), len(model.constraints)) == (12, 15)
    # A corner of the problem, so that CP-SAT enumerates it in seconds.
    model.require(model["tile_batch"] == 8)
    model.require(model["warps_k"] >= 4)
    ours = [tuple(s.values()) for s in model.solutions()]
    assert ours == sorted(ours)
    assert set(ours) == everything(model)
    assert model.count() == len(ours)


def test_the_large_problem_and_one_that_cannot_fit():
    model = problems.two_direction_problem()
    solution = model.solve()
    assert CpSat(model).solve(60)[0] == "OPTIMAL"
    # CP-SAT takes our solution, every derived variable included.
    for name, value in solution.items():
        model.require(model[name] == value)
    assert everything(model) == {tuple(solution.values())}
    impossible = problems.two_direction_problem(dim=4096)
    with pytest.raises(Unsatisfiable) as caught:
        impossible.solve()
    assert CpSat(impossible).solve(60)[0] == "INFEASIBLE"
    core = Model.parse(
        "\n".join(
            [f"{v} in {v.domain}" for v in impossible.variables]
            + [str(impossible.constraints[name]) for name in caught.value.core]
        )
    )
    assert CpSat(core).solve(60)[0] == "INFEASIBLE"


@pytest.mark.parametrize("seed", range(12))
def test_random_mid_size_models(seed):
    draw = random.Random(seed)
    m = Model()
    names = [m.int(f"x{i}", 1, draw.choice([8, 30, 100])) for i in range(7)]
    for _ in range(6):
        a, b, c, d = draw.sample(names, 4)
        m.require(
            draw.choice(
                [
                    lambda a=a, b=b, c=c, d=d: a * b == c * d,
                    lambda a=a, b=b, c=c: (a + b) % c == 0,
                    lambda a=a, b=b, c=c, d=d: a * b + c <= 3 * d + 10,
                    lambda a=a, b=b: 720 % (a * b) == 0,
                    lambda a=a, b=b, c=c: (a > b) | (c % 4 == 0),
                    lambda a=a, b=b, c=c: (a // b).isin([1, 2]) & (c != a),
                ]
            )()
        )
    m.require(sum(names) <= 60)
    m.require(names[0] * names[1] >= 12)
    ours = {tuple(s.values()) for _, s in zip(range(300), m.solutions(), strict=False)}
    if len(ours) < 300:
        assert ours == everything(m)
    else:
        # Too many to list twice: CP-SAT agrees that each of a few is one.
        for values in sorted(ours)[::100]:
            fixed = Model.parse(str(m))
            for name, value in zip(names, values, strict=True):
                fixed.require(fixed[name.name] == value)
            assert everything(fixed) == {values}

"""Compares ConstrINT, python-constraint2 and CP-SAT on the same models, in one run.

    python benchmarks/constrint/compare_solvers.py --date 2026-11-20

Each problem is stated once over ConstrINT and translated for the other solvers:

(a) tile problems of a fused kernel with 12 variables and 15 constraints, over 20 shapes;
(b) a two-direction tiled kernel with about 70 variables and constraints: products of up to five
    variables equal to products, divisibility, sums of products under a bound; FlashRNN's own solver
    takes 6.6 to 15.3 s for its problem of that size on two cores;
(c) the same as (b) with a head dim that cannot fit, to be proved and explained.

Times are wall-clock medians over repeated runs and include building the solver's own model from
the stated one. For a solver that exceeds the limit, the table shows what it found by then.
"""

from __future__ import annotations

import math
import os
import shlex
import statistics
import sys
import time
from collections.abc import Callable
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Annotated, TypeVar

import typer
from rich.console import Console
from rnnc.bench.report import Record
from rnnc.bench.table import plain_table
from rnnc.constrint import Model, Unsatisfiable
from solver_peers import CpSat, python_constraint_in_child
from solver_problems import SHAPES, tile_problem, two_direction_problem

TOO_LARGE = 4096
RESULTS = Path(__file__).parents[1] / "results"
Row = dict[str, object]
Result = TypeVar("Result")


def main(
    date: Annotated[str, typer.Option(help="The date, for the name of the file.")],
    limit: Annotated[float, typer.Option(help="Seconds per problem and solver.")] = 5.0,
    repeat: Annotated[int, typer.Option(help="Runs of ConstrINT, for the median.")] = 7,
    output: Annotated[Path, typer.Option(help="Output folder.")] = RESULTS,
) -> None:
    """Run everything, print the table, write the JSON file."""
    command = f"python benchmarks/constrint/compare_solvers.py {shlex.join(sys.argv[1:])}"
    record = Record("cpu", command, cores=os.cpu_count(), load=os.getloadavg())
    on = record.machine
    record.head |= {"date": date, "cpu": on["device"], "python": on["python"]}
    record.head |= {name: version(name) for name in ("ortools", "python-constraint2")}
    record.into(output / f"constrint-{date}.json")
    rows = [*_tile_rows(limit, repeat), *_two_direction_rows(limit, repeat)]
    _print(rows)
    record.write(rows=rows)
    print(f"written to {record.paths[0].name}")


def _tile_rows(limit: float, repeat: int) -> list[Row]:
    first, every = "(a) first solution", "(a) all solutions"
    rows = []
    for shape in SHAPES:
        name = "{} x {}, batch {}, {} gates".format(*shape)
        model = tile_problem(*shape)
        size = {"problem": name, "variables": len(model.variables)}
        size["constraints"] = len(model.constraints)
        took, found = _ours(_first, model, repeat)
        rows.append(_row(first, "ConstrINT", size, took, found))
        took, found = _ours(lambda m: sum(1 for _ in m.solutions()), model, 3)
        rows.append(_row(every, "ConstrINT", size, took, found))
        total = found
        for question, all_of_them in ((first, False), (every, True)):
            took, (_, found) = _timed(partial(_cp_sat, model, limit, every=all_of_them))
            done = not all_of_them or found == total
            rows.append(_row(question, "CP-SAT", size, took if done else math.inf, found))
            took, found = python_constraint_in_child(model, limit, all_of_them)
            rows.append(_row(question, "python-constraint2", size, took, found))
    return rows


def _two_direction_rows(limit: float, repeat: int) -> list[Row]:
    rows = []
    model, impossible = two_direction_problem(), two_direction_problem(dim=TOO_LARGE)
    size = {"problem": "1 x 768, batch 16, 4 gates", "variables": len(model.variables)}
    size["constraints"] = len(model.constraints)
    first = "(b) first solution"
    rows.append(_row(first, "ConstrINT", size, *_ours(_first, model, repeat)))
    took, (status, found) = _timed(partial(_cp_sat, model, 6 * limit))
    rows.append(_row(first, "CP-SAT", size, took if found else math.inf, found, status))
    took, found = python_constraint_in_child(model, limit, False)
    note = "it would list domains of up to 2^32 values"
    rows.append(_row(first, "python-constraint2", size, took, found, note))
    size = {**size, "problem": f"1 x {TOO_LARGE}, batch 16, 4 gates"}
    proof = "(c) proof that nothing fits"
    rows.append(_row(proof, "ConstrINT", size, *_ours(_first, impossible, repeat)))
    took, (status, found) = _timed(partial(_cp_sat, impossible, 6 * limit))
    rows.append(
        _row(proof, "CP-SAT", size, took if status == "INFEASIBLE" else math.inf, 0, status)
    )
    took, core = _ours(lambda m: len(m.explain().core), impossible, repeat)
    note = f"{core} constraints clash, a smallest set"
    rows.append(_row("(c) explanation", "ConstrINT", size, took, 0, note))
    return rows


def _cp_sat(model: Model, limit: float, *, every: bool = False) -> tuple[str, int]:
    if not every:
        return CpSat(model).solve(limit)
    status, found = CpSat(model).all_solutions(limit)
    return status, len(found)


def _first(model: Model) -> int:
    try:
        model.solve()
    except Unsatisfiable:
        return 0
    return 1


def _ours(ask: Callable[[Model], int], model: Model, repeat: int) -> tuple[float, int]:
    # Read back from text, so that nothing is left over from the last run.
    text = str(model)
    runs = []
    for _ in range(repeat):
        fresh = Model.parse(text)
        runs.append(_timed(partial(ask, fresh)))
    return statistics.median(took for took, _ in runs), runs[0][1]


def _timed(ask: Callable[[], Result]) -> tuple[float, Result]:
    start = time.perf_counter()
    result = ask()
    return time.perf_counter() - start, result


def _row(question: str, solver: str, size: Row, seconds: float, found: int, note: str = "") -> Row:
    finished = math.isfinite(seconds)
    return {
        "question": question,
        **size,
        "solver": solver,
        "seconds": round(seconds, 6) if finished else None,
        "solutions": found if found >= 0 else None,
        "note": note or ("" if finished else "not done within the limit"),
    }


def _print(rows: list[Row]) -> None:
    table = plain_table(
        "ConstrINT, CP-SAT and python-constraint2; seconds",
        ("question", "solver"),
        ("problems", "done", "median", "worst", "solutions"),
    )
    groups = dict.fromkeys((str(row["question"]), str(row["solver"])) for row in rows)
    for question, solver in sorted(groups):
        group = [r for r in rows if r["question"] == question and r["solver"] == solver]
        times = [float(str(r["seconds"])) if r["seconds"] is not None else math.inf for r in group]
        done = [t for t in times if math.isfinite(t)]
        middle, worst = statistics.median(times), max(times)
        table.add_row(
            question,
            solver,
            str(len(group)),
            str(len(done)),
            f"{middle:.4f}" if math.isfinite(middle) else "-",
            f"{worst:.4f}" if math.isfinite(worst) else "over the limit",
            str(sum(int(str(r["solutions"] or 0)) for r in group)),
        )
    Console().print(table)


if __name__ == "__main__":
    typer.run(main)

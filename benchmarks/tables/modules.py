"""The tables of modules: users' cases, their plans, and rows of several lengths and with resets."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from figures import missing, newest, of_newest, source
from pydantic import TypeAdapter
from rnnc.bench.modules.plans import PlanResult
from rnnc.bench.modules.plans_table import plans_table, worst_first
from rnnc.bench.modules.results import ModuleResult
from rnnc.bench.modules.tables import ragged_table, summary, users_table
from rnnc.bench.table import markdown

_WORST_PLANS = 10  # of the choices of plans, that the page shows


def results_of(found: dict[str, Any]) -> list[ModuleResult]:
    """The results of a file, with what errors begin with."""
    results = [ModuleResult.of_record(case) for case in found["cases"]]
    for each in results:
        each.failures = {name: why[:60] for name, why in each.failures.items()}
    return results


@of_newest("users-cuda-*.json", "rnnc bench --users --ahead")
def users(found: dict[str, Any]) -> str:
    """The table of the users' cases on a GPU, the slowest against torch first."""
    results = results_of(found)
    said = "\n".join(f"- {line}" for line in summary(results))
    ran = markdown(users_table([result for result in results if result.times()]))
    return f"{said}\n\n{ran}\n\n{source(found)}"


@of_newest("plans-*.json", "rnnc bench --users --plans --json FILE")
def plans(found: dict[str, Any]) -> str:
    """What the choices of plans for the users' cases come to, and the worst of them."""
    told = found["summary"]
    mean, error = told["geometric mean of auto / best"], told["median error of the estimate"]
    note = (
        f"What `auto` chose takes {mean:.3f} times as long as the fastest tiling in the geometric"
        f" mean of {told['kernels']} kernels, and {told['worst']:.2f} times at worst"
        f" ({told['worst case']}); {told['above 1.1']} are more than 10 % slower than the fastest."
        f" The median error of the estimate is {100 * error:.0f} %."
    )
    kernels = TypeAdapter(list[PlanResult]).validate_python(found["kernels"])
    worst = worst_first([kernel for kernel in kernels if kernel.ratio])[:_WORST_PLANS]
    return f"{note}\n\n{markdown(plans_table(worst))}\n\n{source(found)}"


def ragged(results: Path) -> str:
    """What each contender of each case took, and how many times as fast rnnc is: GPU, then CPU."""
    files = [newest(results, f"ragged-{device}-*.json") for device in ("cuda", "cpu")]
    texts = [f"{markdown(ragged_table(results_of(f)))}\n\n{source(f)}" for f in files if f]
    return "\n\n".join(texts) or missing("rnnc bench --ragged")

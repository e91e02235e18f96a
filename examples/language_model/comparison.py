"""Several models under the same conditions: learning rates, equal tokens, equal wall-clock."""

import json
from dataclasses import dataclass, replace
from pathlib import Path
from time import monotonic
from typing import Any

import rich
import torch

from . import models
from .runs import Places, run, steps_within
from .tokens import Tokens
from .training import Settings

RATES = 1e-3, 2e-3, 4e-3  # that are tried first
MOST_RATES = 6  # of a model: where the best is the lowest or the highest one, more are tried
TUNED = "25m"  # the size at which they are tried
RATE = 2e-3  # if none was tried
SECONDS = {"tiny": 15.0, "25m": 90.0, "120m": 180.0}  # of a run
TOKENS = {"tiny": 300_000, "25m": 40_000_000, "120m": 25_000_000}
REST = 40.0  # seconds of a run besides training: compilation, validation


@dataclass(frozen=True)
class Conditions:
    """What the models of a comparison share."""

    size: str
    context: int
    batch: int
    device: str
    compiled: bool
    seed: int
    limit: float  # seconds of the command
    since: float  # when it began

    def settings(self, model: str, rate: float, steps: int = 1_000_000) -> Settings:
        """Of one model."""
        sizes = self.size, self.context, self.batch
        return Settings(model, *sizes, steps, rate, self.compiled, self.seed)

    def left(self) -> float:
        """Seconds."""
        return self.limit - (monotonic() - self.since)


def rates_file(places: Places) -> Path:
    return places.out / "rates.json"


def rate_of(model: str, size: str, places: Places) -> tuple[float, str]:
    """The learning rate of a model and where it is from.

    It is that of the smaller size, times the ratio of widths.
    """
    path = rates_file(places)
    found = json.loads(path.read_text("utf-8")) if path.exists() else {}
    for name in (model, model.removesuffix("-fp16"), f"{model}-fp16"):
        if tried := found.get(name):
            scale = min(1.0, models.SIZES[TUNED].width / models.SIZES[size].width)
            return float(best_rate(tried)) * scale, "tuned"
    return RATE * min(1.0, models.SIZES[TUNED].width / models.SIZES[size].width), "default"


def tune(
    names: list[str], conditions: Conditions, tokens: Tokens, places: Places, seconds: float
) -> bool:
    """Train each model for some seconds at each rate; keep the perplexities. Whether all ran."""
    path = rates_file(places)
    found: dict[str, dict[str, Any]] = json.loads(path.read_text("utf-8")) if path.exists() else {}
    scratch = replace(places, out=places.work / "tuning", tensorboard=False)
    for name in names:
        while rate := next_rate(found.get(name, {})):
            if not _fits(f"{name} at {rate:g}", seconds, conditions):
                return False
            settings = _timed(name, rate, conditions, tokens, seconds)
            run_name = f"{conditions.size}-{name}-{rate:g}"
            told = run(
                *(run_name, settings, tokens, conditions.device, scratch),
                resume=False,
                most_seconds=1.2 * seconds,
            )
            found.setdefault(name, {})[f"{rate:g}"] = told and told["perplexity"]
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(json.dumps(found, indent=1) + "\n", "utf-8")
            rich.print(f"{name} at {rate:g}: perplexity {told and told['perplexity']}")
    return True


def next_rate(tried: dict[str, float | None]) -> float | None:
    """The rate to try next, or None: first RATES, then half the lowest or twice the highest.

    Args:
        tried: the perplexity of each rate; None where a run ended without one.
    """
    for rate in RATES:
        if f"{rate:g}" not in tried:
            return rate
    if len(tried) >= MOST_RATES:
        return None
    beyond = {min(tried, key=float): 0.5, max(tried, key=float): 2.0}
    best = best_rate(tried)
    return float(best) * beyond[best] if best in beyond else None


def best_rate(tried: dict[str, float | None]) -> str:
    """The rate of the lowest perplexity."""
    return min(tried, key=lambda rate: tried[rate] or float("inf"))


def compare(
    names: list[str],
    by: str,
    conditions: Conditions,
    tokens: Tokens,
    places: Places,
    *,
    seconds: float,
    count: int,
) -> bool:
    """Train each model on as many tokens, or for as long.

    A run whose record is there is not repeated; one that was interrupted goes on.

    Args:
        names: of the models.
        by: "tokens" or "time".
        conditions: what they share.
        tokens: the text.
        places: the folders.
        seconds: of a run; by tokens, those after which a slow model ends where it is.
        count: tokens of a run, by tokens.

    Returns:
        Whether all of them are there.
    """
    for name in names:
        where = f"{conditions.context}x{conditions.batch}"
        run_name = f"{conditions.size}-{name}-{by}-{where}"
        if places.record(run_name).exists():
            rich.print(f"{run_name} is there; to repeat it, remove {places.record(run_name)}.")
            continue
        if not _fits(run_name, seconds, conditions):
            return False
        rate, source = rate_of(name, conditions.size, places)
        checkpoint = places.checkpoint(run_name)
        if checkpoint.exists():
            saved = torch.load(checkpoint, map_location="cpu", mmap=True)
            settings = Settings(**saved["settings"])
        elif by == "time":
            settings = _timed(name, rate, conditions, tokens, seconds)
        else:
            steps = max(1, count // (conditions.context * conditions.batch))
            settings = conditions.settings(name, rate, steps)
        run(
            *(run_name, settings, tokens, conditions.device, places),
            most_seconds=1.1 * seconds,
            facts={"by": by, "rate from": source},
        )
    return True


def _timed(
    name: str, rate: float, conditions: Conditions, tokens: Tokens, seconds: float
) -> Settings:
    settings = conditions.settings(name, rate)
    steps = steps_within(seconds, settings, tokens, conditions.device)
    return replace(settings, steps=steps)


def _fits(run_name: str, seconds: float, conditions: Conditions) -> bool:
    """Whether a run ends before the command's limit; says so if not."""
    rest = min(REST, seconds)
    if 1.2 * seconds + rest <= conditions.left():
        return True
    rich.print(f"The command's limit leaves no time for {run_name}: run the same command again.")
    return False

"""A run from its first step, or from its checkpoint, to its record."""

import json
import math
from dataclasses import asdict, dataclass
from datetime import date
from pathlib import Path
from typing import Any

import torch
from rnnc.bench.report import machine

from . import models
from .logs import Log
from .speed import WARM_UPS, memory, pace
from .tokens import Tokens
from .training import Settings, Training

POINTS = 50  # rows of a run's table
VALIDATIONS = 5  # before the last one, on a part of the text
PART = 8  # how much smaller that part is
SAVE_AFTER = 60.0  # seconds between checkpoints


@dataclass(frozen=True)
class Places:
    """Where runs read and write.

    `out` gets small files that are worth keeping, `work` tokens, checkpoints and events.
    """

    out: Path
    work: Path
    tensorboard: bool = False

    def checkpoint(self, name: str) -> Path:
        """Of a run."""
        return self.work / "checkpoints" / f"{name}.pt"

    def record(self, name: str) -> Path:
        """Of a run that is complete."""
        return self.out / "runs" / f"{name}.json"


def run(
    name: str,
    settings: Settings,
    tokens: Tokens,
    device: str,
    places: Places,
    *,
    resume: bool = True,
    keep: bool = False,
    most_seconds: float | None = None,
    until: int | None = None,
    facts: dict[str, Any] | None = None,
) -> dict[str, Any] | None:
    """Train, and write the record.

    Args:
        name: of the files.
        settings: what determines the run.
        tokens: the text.
        device: "cpu" or "cuda".
        places: the folders.
        resume: whether to go on where a checkpoint is, if there is one.
        keep: whether the last checkpoint stays, for its weights.
        most_seconds: of training, after which the run ends where it is.
        until: the step at which to stop with a checkpoint, before the end.
        facts: more for the record.

    Returns:
        The record, or None if the run stopped at `until`.
    """
    size = sized(settings, tokens)
    training = Training(settings, size, tokens, device)
    if settings.steps > training.most_steps():
        raise SystemExit(
            f"{settings.steps} steps read the text more than 4 times:"
            f" at most {training.most_steps()} of {settings.batch} x {settings.context} tokens"
        )
    checkpoint, record = places.checkpoint(name), places.record(name)
    for path in (checkpoint, record):
        path.parent.mkdir(parents=True, exist_ok=True)
    if resume and checkpoint.exists():
        training.load(checkpoint)
    events = places.work / "tensorboard" if places.tensorboard else None
    if device == "cuda":
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()
    with Log(name, settings.steps, record.with_suffix(".csv"), events) as log:
        ended = _train(training, log, checkpoint, size.validated // PART, most_seconds, until)
    training.save(checkpoint)
    if not ended:
        return None
    read = training.step * settings.batch * settings.context
    told = asdict(settings) | {
        "name": name,
        "label": models.CONTENDERS[settings.model].label,
        "parameters": models.count(training.model),
        "tokens": read,
        "passes": read / len(tokens.train),
        "seconds": training.seconds,
        "tokens_per_second": read / training.seconds,
        "perplexity": finite(training.perplexity(size.validated)),
        "memory": memory(device),
        "complete": training.step == settings.steps,
        "curve": [r for r in training.rows if r["perplexity"] is not None],
        "corpus": tokens.corpus["digest"],
        "machine": machine(device),
        "date": str(date.today()),
    }
    told |= facts or {}
    record.write_text(json.dumps(told, indent=1) + "\n", "utf-8")
    if not keep:
        checkpoint.unlink()
    return told


def _train(
    training: Training,
    log: Log,
    checkpoint: Path,
    part: int,
    most_seconds: float | None,
    until: int | None,
) -> bool:
    """Steps, rows, validations and checkpoints; whether the run is at its end."""
    settings = training.settings
    every, last = max(1, settings.steps // POINTS), min(until or settings.steps, settings.steps)
    validate = max(1, POINTS // VALIDATIONS) * every
    total, count, unsaved = torch.zeros((), device=training.device), 0, 0.0
    log.show(training.rows)
    begin = training.wait()
    while training.step < last:
        total, count = total + training.advance(), count + 1
        if training.step % every and training.step != last:
            continue
        took = training.wait() - begin
        training.seconds += took
        unsaved += took
        tokens = count * settings.batch * settings.context
        training.rows.append(
            {
                "step": training.step,
                "tokens": training.step * settings.batch * settings.context,
                "seconds": round(training.seconds, 3),
                "loss": total.item() / count,
                "rate": training.rate(),
                "tokens_per_second": round(tokens / took, 1),
                "perplexity": None,
            }
        )
        if training.step % validate == 0:
            training.rows[-1]["perplexity"] = finite(training.perplexity(part))
        log.show(training.rows)
        if unsaved > SAVE_AFTER:
            training.save(checkpoint)
            unsaved = 0.0
        if most_seconds and training.seconds > most_seconds:
            return True
        total, count = torch.zeros_like(total), 0
        begin = training.wait()
    return training.step >= settings.steps


def sized(settings: Settings, tokens: Tokens) -> models.Size:
    """The size of the model, with the vocabulary of the text."""
    size = asdict(models.SIZES[settings.size]) | {"vocabulary": tokens.vocabulary}
    return models.Size(**size)


def steps_within(seconds: float, settings: Settings, tokens: Tokens, device: str) -> int:
    """How many steps take so long, from a few; at most those that the text allows."""
    training = Training(settings, sized(settings, tokens), tokens, device)
    pace(training, WARM_UPS)
    per_step = pace(training, max(2, min(20, int(2 / pace(training, 1)))))
    return max(1, min(int(seconds / per_step), training.most_steps()))


def finite(value: float) -> float | None:
    """A number that JSON has, or None."""
    return value if math.isfinite(value) else None

"""Tokens per second of training on random tokens, and the time of recurrences by themselves."""

import statistics
from collections.abc import Callable
from time import perf_counter
from typing import Any

import rnnc
import torch
from rnnc import cells
from torch import nn

from . import models
from .models import CONTENDERS, HEAD, Size
from .tokens import Tokens
from .training import Settings, Training

WARM_UPS, REPEATS = 3, 10
ALONE = 16, 1024  # batch and steps of a recurrence by itself


def measure(
    name: str, size: str, context: int, batch: int, device: str, seconds: float, *, compiled: bool
) -> dict[str, Any]:
    """Train for some seconds.

    Args:
        name: of the contender.
        size: the name of the model's size.
        context: tokens of a sequence.
        batch: sequences of a step.
        device: "cpu" or "cuda".
        seconds: at least this long, after warm-up.
        compiled: whether torch.compile compiles each block.

    Returns:
        Tokens per second, milliseconds per step and bytes of memory; or the failure.
    """
    told = {"model": name, "size": size, "context": context, "batch": batch, "compiled": compiled}
    try:
        return told | _measured(told, models.SIZES[size], device, seconds)
    except (torch.OutOfMemoryError, rnnc.RnncError) as error:
        return told | {"failure": str(error).splitlines()[0]}


def _measured(told: dict[str, Any], size: Size, device: str, seconds: float) -> dict[str, Any]:
    settings = Settings(**told, steps=1_000_000, rate=1e-4)
    drawn = torch.randint(size.vocabulary, (2 * settings.batch * settings.context + 1,))
    tokens = drawn.to(torch.int16)
    training = Training(settings, size, Tokens(tokens, tokens, size.vocabulary, {}), device)
    if device == "cuda":
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()
    start = training.wait()
    for _ in range(WARM_UPS):
        training.advance()
    warm_up = training.wait() - start
    per_step = pace(training, max(2, int(seconds / pace(training, 2))))
    return {
        "parameters": models.count(training.model),
        "tokens_per_second": settings.batch * settings.context / per_step,
        "ms_per_step": 1e3 * per_step,
        "memory": memory(device),
        "warm_up": warm_up,
    }


def pace(training: Training, steps: int) -> float:
    """Seconds per step over some steps."""
    begin = training.wait()
    for _ in range(steps):
        training.advance()
    return (training.wait() - begin) / steps


def memory(device: str) -> int | None:
    """The most bytes that a GPU had allocated."""
    return torch.cuda.max_memory_allocated() if device == "cuda" else None


def recurrences(size: str, device: str, dtypes: list[torch.dtype]) -> list[dict[str, Any]]:
    """An LSTM layer by itself: milliseconds of forward and backward, rnnc's and torch's."""
    width, found = models.SIZES[size].width, []
    for dtype in dtypes:
        options: dict[str, Any] = {"batch_first": True, "device": device, "dtype": dtype}
        heads = width // HEAD
        layers = {
            "lstm": rnnc.RNN(cells.lstm, width, width, heads=heads, **options),
            "nn-lstm": nn.LSTM(width, width, **options),
        }
        for name, layer in layers.items():
            x = torch.randn(*ALONE, width, device=device, dtype=dtype, requires_grad=True)
            d_y = torch.randn_like(x)

            def run(layer: nn.Module = layer, x: torch.Tensor = x, d_y: torch.Tensor = d_y) -> None:
                layer(x)[0].backward(d_y)

            batch, steps = ALONE
            told = {"model": name, "width": width, "batch": batch, "steps": steps}
            found.append(told | {"dtype": str(dtype).split(".")[-1], "ms": median(run, device)})
    return found


def median(run: Callable[[], None], device: str) -> float:
    """Milliseconds of a call, the median of some after warm-up."""
    for _ in range(WARM_UPS):
        run()
    times = []
    for _ in range(REPEATS):
        begin = _now(device)
        run()
        times.append(_now(device) - begin)
    return 1e3 * statistics.median(times)


def _now(device: str) -> float:
    if device == "cuda":
        torch.cuda.synchronize()
    return perf_counter()


def defaults(size: str) -> list[tuple[int, int]]:
    """(context, batch): the usual one, long sequences, and few of them."""
    return (
        [(128, 16), (512, 4), (128, 2)] if size == "tiny" else [(1024, 64), (8192, 16), (1024, 2)]
    )


def contenders(device: str) -> list[str]:
    """All; a CPU trains in float32, where one of torch's LSTMs is enough."""
    return [n for n, c in CONTENDERS.items() if device == "cuda" or c.dtype != torch.float16]

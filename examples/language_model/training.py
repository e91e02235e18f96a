"""One run of training: batches, the optimizer, validation, and checkpoints."""

import math
import os
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from time import perf_counter
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from . import models
from .models import CONTENDERS, Size
from .tokens import Tokens

WARM_UP, LOWEST = 0.05, 0.1  # the share of steps that the rate rises; its last share of the highest
DECAY, BETAS, CLIP = 0.1, (0.9, 0.95), 1.0
PASSES = 4  # no run reads a token more often
CHUNK = 16_384  # tokens whose logits are in memory at the same time


@dataclass(frozen=True)
class Settings:
    """What determines a run, bit for bit on one machine."""

    model: str
    size: str
    context: int
    batch: int
    steps: int
    rate: float
    compiled: bool = False
    seed: int = 0

    def title(self) -> str:
        """As a text that tells runs apart."""
        return ", ".join(f"{name} {value}" for name, value in asdict(self).items())


class Windows:
    """Tokens cut into windows of `context` inputs; a new random order in each pass."""

    def __init__(self, tokens: Tensor, context: int, device: str, seed: int = 0) -> None:
        if len(tokens) <= context:
            raise SystemExit(f"the text has {len(tokens)} tokens: too few for context {context}")
        self.windows = tokens.to(device).unfold(0, context + 1, context)
        self.seed, self.passes = seed, dict[int, Tensor]()

    def __len__(self) -> int:
        return len(self.windows)

    def batch(self, step: int, size: int) -> Tensor:
        """The windows of a step, (B, context + 1)."""
        first = step * size
        places = [divmod(first + i, len(self)) for i in range(size)]
        chosen = torch.stack([self.order(number)[place] for number, place in places])
        return self.windows[chosen.to(self.windows.device)].long()

    def order(self, number: int) -> Tensor:
        """The order of windows in a pass."""
        if number not in self.passes:
            generator = torch.Generator().manual_seed(self.seed + number)
            self.passes = {number - 1: self.passes.get(number - 1, torch.empty(0))}
            self.passes[number] = torch.randperm(len(self), generator=generator)
        return self.passes[number]


class Training:
    """A model with its optimizer, at a step."""

    def __init__(self, settings: Settings, size: Size, tokens: Tokens, device: str) -> None:
        self.settings, self.device = settings, device
        self.title = f"{settings.title()}, text {tokens.corpus.get('digest', '')[:12]}"
        name, compiled = settings.model, settings.compiled
        self.model = models.build(name, size, device, seed=settings.seed, compiled=compiled)
        self.dtype = CONTENDERS[name].dtype
        weights = [p for p in self.model.parameters() if p.requires_grad]
        matrices, vectors = ([p for p in weights if (p.ndim > 1) == m] for m in (True, False))
        groups = [{"params": matrices, "weight_decay": DECAY}, {"params": vectors}]
        options: dict[str, Any] = {"fused": True} if device == "cuda" else {}
        self.optimizer = torch.optim.AdamW(
            groups, settings.rate, betas=BETAS, weight_decay=0.0, **options
        )
        # Gradients in float16 need a scale; in bfloat16 the scaler does nothing.
        half = device == "cuda" and self.dtype == torch.float16
        self.scaler = torch.amp.GradScaler(device, enabled=half)
        self.train = Windows(tokens.train, settings.context, device, settings.seed)
        self.held_out = Windows(tokens.validation, settings.context, device)
        self.step, self.seconds, self.rows = 0, 0.0, list[dict[str, Any]]()

    def most_steps(self) -> int:
        """Until each token was read `PASSES` times."""
        return PASSES * len(self.train) // self.settings.batch

    def rate(self) -> float:
        """The learning rate of this step: linear warm-up, then half a cosine."""
        steps, warm_up = self.settings.steps, max(1, int(WARM_UP * self.settings.steps))
        if self.step < warm_up:
            return self.settings.rate * (self.step + 1) / warm_up
        done = (self.step - warm_up) / max(1, steps - warm_up)
        cosine = (1 + math.cos(math.pi * min(1, done))) / 2
        return self.settings.rate * (LOWEST + (1 - LOWEST) * cosine)

    def autocast(self) -> torch.autocast:
        """The dtype of products on a GPU; a CPU trains in float32."""
        return torch.autocast(self.device, self.dtype, enabled=self.device == "cuda")

    def advance(self, batch: Tensor | None = None) -> Tensor:
        """Take one step, on a batch of the text or the given one; return its loss."""
        batch = self.train.batch(self.step, self.settings.batch) if batch is None else batch
        for group in self.optimizer.param_groups:
            group["lr"] = self.rate()
        self.optimizer.zero_grad()
        loss = self.backward(batch)
        self.scaler.unscale_(self.optimizer)
        nn.utils.clip_grad_norm_(self.model.parameters(), CLIP)
        self.scaler.step(self.optimizer)
        self.scaler.update()
        self.step += 1
        return loss

    def backward(self, batch: Tensor) -> Tensor:
        """The mean loss of a batch; its gradients are added to the weights'.

        The gradient of each chunk is taken before the next chunk.
        """
        with self.autocast():
            hidden = self.model(batch[:, :-1])
        leaf, targets = hidden.detach().requires_grad_(), batch[:, 1:]
        total = torch.zeros((), device=self.device)
        for part, wanted in self.chunks(leaf.flatten(0, 1), targets):
            with self.autocast():
                logits = self.model.logits(part)
                loss = functional.cross_entropy(logits, wanted, reduction="sum") / targets.numel()
            self.scaler.scale(loss).backward()
            total += loss.detach()
        hidden.backward(leaf.grad)
        return total

    def chunks(self, hidden: Tensor, targets: Tensor) -> Iterator[tuple[Tensor, Tensor]]:
        """Parts of a batch: the logits of all tokens would not fit into memory."""
        return zip(hidden.split(CHUNK), targets.flatten().split(CHUNK), strict=True)

    @torch.no_grad()
    def perplexity(self, most: int | None = None) -> float:
        """Of the validation text, or of windows at equal distances with about `most` tokens."""
        self.model.eval()
        total = torch.zeros((), dtype=torch.float64, device=self.device)
        windows = self.held_out.windows
        wanted = max(1, most // self.settings.context) if most else len(windows)
        windows = windows[:: max(1, len(windows) // wanted)][:wanted]
        for batch in windows.split(self.settings.batch):
            tokens = batch.long()
            with self.autocast():
                hidden = self.model(tokens[:, :-1]).flatten(0, 1)
                for part, wanted in self.chunks(hidden, tokens[:, 1:]):
                    total += functional.cross_entropy(
                        self.model.logits(part), wanted, reduction="sum"
                    )
        self.model.train()
        mean = float(total) / windows[:, 1:].numel()
        return math.exp(mean) if mean < 100 else math.inf

    def wait(self) -> float:
        """The time when the device has done what was asked of it."""
        if self.device == "cuda":
            torch.cuda.synchronize()
        return perf_counter()

    def save(self, path: Path) -> None:
        """Write all that a later process needs to go on; the file appears when it is complete."""
        place = {"step": self.step, "seconds": self.seconds, "rows": self.rows}
        parts = {n: getattr(self, n).state_dict() for n in ("model", "optimizer", "scaler")}
        new = path.with_name(f"{path.name}.{os.getpid()}")
        named = {"title": self.title, "settings": asdict(self.settings)}
        torch.save(named | place | parts, new)
        new.replace(path)

    def load(self, path: Path) -> None:
        """Go on where a file was saved."""
        saved = torch.load(path, map_location=self.device)
        if saved["title"] != self.title:
            raise SystemExit(f"{path} holds {saved['title']}; this run is {self.title}")
        for name in ("model", "optimizer", "scaler"):
            getattr(self, name).load_state_dict(saved[name])
        self.step, self.seconds, self.rows = saved["step"], saved["seconds"], saved["rows"]

"""Training on several GPUs, or processes: the same batches in the same order as on one."""

import os
from collections.abc import Callable
from dataclasses import replace
from itertools import product
from typing import Any

import rich
import torch
import torch.distributed as dist
from rnnc.distributed import HeadwiseParallel, SequenceParallel, reduce_gradients
from torch import Tensor, nn
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
from torch.distributed.tensor import DTensor
from torch.distributed.tensor.parallel import parallelize_module
from torch.nn import functional
from torch.nn.parallel import DistributedDataParallel
from torch.utils.checkpoint import checkpoint

from .models import LanguageModel, Recurrence, Size
from .tokens import Tokens
from .training import BETAS, CHUNK, CLIP, DECAY, Settings, Training

# What ranks share: rows of a batch, heads, or steps. With rows each rank has all weights, or parts
# of them, which are gathered for each use ("fsdp") or once for both directions ("fsdp-kept").
STYLES = "ddp", "fsdp", "fsdp-kept", "heads", "steps"


def train(
    style: str | None, settings: Settings, size: Size, read: Callable[[], Tokens], device: str
) -> list[float]:
    """Train in a process of torchrun, or in one process without a style, and show the losses.

    Args:
        style: one of `STYLES`.
        settings: of the run.
        size: of the model; its vocabulary becomes that of the text.
        read: gives the tokens.
        device: "cpu" or "cuda".

    Returns:
        The loss of each step.
    """
    mesh, first = None, True
    if style is not None:
        if device == "cuda":
            torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
        dist.init_process_group()
        mesh = dist.init_device_mesh(device, (dist.get_world_size(),))
        first = dist.get_rank() == 0
        if first:
            read()  # the others find what this one has prepared
        dist.barrier()
    tokens = read()
    size = replace(size, vocabulary=tokens.vocabulary)
    training, losses = RanksTraining(settings, size, tokens, device, style, mesh), []
    for step in range(settings.steps):
        losses.append(training.advance().item())
        if first and (step + 1) % max(1, settings.steps // 10) == 0:
            rich.print(f"step {step + 1}: loss {losses[-1]:.5f}")
    if style is not None:
        dist.barrier()
        dist.destroy_process_group()
    return losses


class Loss(nn.Module):
    """A language model whose forward gives the loss, so that each wrapper of torch sees all of it.

    Logits of all tokens would not fit into memory: the backward computes them again, by chunks.
    """

    def __init__(self, model: LanguageModel) -> None:
        super().__init__()
        self.model = model

    def forward(self, inputs: Tensor, targets: Tensor, count: int) -> Tensor:
        """The sum over (B, T) tokens, divided by `count`."""
        hidden = self.model(inputs).flatten(0, 1)
        total = torch.zeros((), device=hidden.device)
        for part, wanted in zip(hidden.split(CHUNK), targets.flatten().split(CHUNK), strict=True):
            total = total + checkpoint(self._of_chunk, part, wanted, use_reentrant=False)
        return total / count

    def _of_chunk(self, hidden: Tensor, targets: Tensor) -> Tensor:
        return functional.cross_entropy(self.model.logits(hidden), targets, reduction="sum")


class RanksTraining(Training):
    """One run of training, of which each rank of a mesh does its part."""

    def __init__(
        self,
        settings: Settings,
        size: Size,
        tokens: Tokens,
        device: str,
        style: str | None,
        mesh: DeviceMesh | None,
        *,
        single: bool = False,
    ) -> None:
        super().__init__(settings, size, tokens, device)
        self.style, self.mesh = style, mesh
        # Whether a GPU computes in float32 too, as a CPU does.
        self.single = single or device != "cuda"
        self.loss = self._spread(Loss(self.model))
        groups = [group for group in self._groups() if group["params"]]
        options: dict[str, Any] = {"fused": True} if device == "cuda" else {}
        rate = settings.rate
        self.optimizer = torch.optim.AdamW(groups, rate, betas=BETAS, weight_decay=0.0, **options)

    def autocast(self) -> torch.autocast:
        """The dtype of products."""
        return torch.autocast(self.device, self.dtype, enabled=not self.single)

    def _spread(self, loss: Loss) -> nn.Module:
        mesh = self.mesh
        if self.style == "ddp":
            return DistributedDataParallel(loss)
        if self.style in ("fsdp", "fsdp-kept"):
            half = None if self.single else self.dtype
            policy = MixedPrecisionPolicy(param_dtype=half, reduce_dtype=torch.float32)
            how: dict[str, Any] = {"mesh": mesh, "mp_policy": policy}
            how["reshard_after_forward"] = self.style == "fsdp"
            for block in self.model.blocks:
                fully_shard(block, **how)
            return fully_shard(loss, **how)
        if self.style in ("heads", "steps"):
            style = HeadwiseParallel if self.style == "heads" else SequenceParallel
            for block in self.model.blocks:
                assert isinstance(block.mixer, Recurrence)
                parallelize_module(block.mixer, mesh, {"rnn": style()})
        return loss

    def _groups(self) -> list[dict[str, Any]]:
        """Matrices and vectors, of each kind of tensor: fused steps take one kind at a time."""
        weights = list(self.model.parameters())
        return [
            {
                "params": [w for w in weights if isinstance(w, DTensor) == d and (w.ndim > 1) == m],
                "weight_decay": DECAY if m else 0.0,
            }
            for d, m in product((False, True), (True, False))
        ]

    def advance(self, batch: Tensor | None = None) -> Tensor:
        """Take one step, on the same batch on all ranks; return the loss of the whole batch."""
        batch = self.train.batch(self.step, self.settings.batch) if batch is None else batch
        for group in self.optimizer.param_groups:
            group["lr"] = self.rate()
        self.optimizer.zero_grad()
        inputs, targets, count = self._part(batch)
        with self.autocast():
            loss = self.loss(inputs, targets, count)
        loss.backward()
        loss = loss.detach()
        if self.mesh is not None and self.style == "steps":
            reduce_gradients(self.model, self.mesh)
        if self.mesh is not None and self.style != "heads":
            dist.all_reduce(loss, group=self.mesh.get_group())
            loss = loss if self.style == "steps" else loss / self.mesh.size()
        self._clip()
        self.optimizer.step()
        self.step += 1
        return loss

    def _part(self, batch: Tensor) -> tuple[Tensor, Tensor, int]:
        """This rank's inputs and targets, and by how many tokens the sum of losses is divided."""
        inputs, targets = batch[:, :-1], batch[:, 1:]
        if self.mesh is None or self.style == "heads":
            return inputs, targets, targets.numel()
        axis = 1 if self.style == "steps" else 0
        rank, ranks = self.mesh.get_local_rank(), self.mesh.size()
        inputs, targets = (each.chunk(ranks, axis)[rank] for each in (inputs, targets))
        # DDP and FSDP2 take the mean over ranks, the others the sum.
        return inputs, targets, targets.numel() * (ranks if axis else 1)

    def _clip(self) -> None:
        """Clip by the norm of all gradients; torch's own function takes one kind at a time."""
        weights = [w for w in self.model.parameters() if w.grad is not None]
        kinds = [[w for w in weights if isinstance(w, DTensor) == d] for d in (False, True)]
        norms = []
        for kind in kinds:
            norm = nn.utils.get_total_norm([w.grad for w in kind])
            norms.append(norm.full_tensor() if isinstance(norm, DTensor) else norm)
        total = torch.stack([norm.to(norms[0].device) for norm in norms if norm.numel()]).norm()
        for kind in kinds:
            nn.utils.clip_grads_with_norm_(kind, CLIP, total)

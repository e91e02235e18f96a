"""Checks of `rnnc.warmup` on several ranks."""

from __future__ import annotations

import os
import tempfile

import rnnc
import torch
import torch.distributed as dist
from compared import drawn, made, spread
from rnnc.codegen.cuda.limits import limits_of
from rnnc.codegen.shape import Shape
from rnnc.distributed import HeadwiseParallel, SequenceParallel
from rnnc.runtime.store.tuned import Asked, packed_plan, planned, recall, remember
from rnnc.runtime.warmup.warmup import take_over_plans
from torch import nn


class Tagger(nn.Module):
    def __init__(self, rnn):
        super().__init__()
        self.embedding, self.rnn, self.head = nn.Embedding(9, 5), rnn, nn.Linear(24, 3)

    def forward(self, tokens):
        return self.head(self.rnn(self.embedding(tokens))[0])


def check_ahead_of_a_model_with_spread_heads(mesh):
    """No rank enters a collective of the model, and each kernel is for the rank's heads."""
    tokens = torch.empty(6, 3, dtype=torch.long, device="meta")
    for style in (HeadwiseParallel(), SequenceParallel()):
        own = spread(made(mesh, rnnc.cells.lstm, torch.float32, num_layers=2), mesh, style)
        model = Tagger(own).to(mesh.device_type)
        (line,) = rnnc.warmup(model, tokens)
        assert line == f"lstm, 2 x 6, batch 3, float32 on {mesh.device_type}"
        own(drawn(mesh, 6, 3, 5, dtype=torch.float32))


def check_ahead_all_ranks_take_the_plans_of_rank_0(mesh):
    """Also where a trial found others, in a cache that only one rank has."""
    before = os.environ.get("RNNC_CACHE_DIR")
    os.environ["RNNC_CACHE_DIR"] = tempfile.mkdtemp()
    try:
        shape = Shape(2, 64, 16, dtype="bfloat16")
        asked = Asked(rnnc.cells.lstm, shape, limits_of("H200"), "gates", False)
        first = dist.get_rank() == 0
        remember(asked, planned(asked, "block" if first else "alternating"))
        wanted = packed_plan(planned(asked, "block"))
        assert (packed_plan(recall(asked)) == wanted) == first
        assert take_over_plans([asked]) == (0 if first else 1)
        assert packed_plan(recall(asked)) == wanted
        assert take_over_plans([asked]) == 0
    finally:
        if before is None:
            del os.environ["RNNC_CACHE_DIR"]
        else:
            os.environ["RNNC_CACHE_DIR"] = before

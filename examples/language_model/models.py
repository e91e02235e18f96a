"""The models: the same residual blocks around attention, a cell of rnnc, or torch's LSTM."""

import math
import warnings
from dataclasses import dataclass

import rnnc
import torch
from rnnc import Cell, cells
from torch import Tensor, nn
from torch.nn import functional

HEAD = 64  # features of a head: of attention, and of a recurrence
INIT = 0.02  # the standard deviation of matrices at the start
# The forget gates' biases: at the start units keep what they hold for about 4 to 150 steps.
FORGET = 1.0, 5.0


@dataclass(frozen=True)
class Size:
    """The width of the residual stream, the number of blocks, and what a model is trained on.

    `validated` is how many tokens it is validated on at the end, at most.
    """

    width: int
    layers: int
    vocabulary: int
    context: int
    batch: int
    validated: int = 4_000_000


SIZES = {
    "tiny": Size(128, 2, 256, 128, 16, 80_000),
    "25m": Size(512, 5, 16_384, 1024, 64),
    "120m": Size(1024, 8, 16_384, 1024, 64),
}


@dataclass(frozen=True)
class Contender:
    """What mixes the steps of a sequence, and in which dtype a GPU trains it."""

    label: str
    cell: Cell | None = None
    attention: bool = False
    dtype: torch.dtype = torch.bfloat16


CONTENDERS = {
    "lstm": Contender("rnnc LSTM", cells.lstm),
    "slstm": Contender("rnnc sLSTM", cells.slstm),
    "transformer": Contender("Transformer", attention=True),
    "nn-lstm": Contender("nn.LSTM, bfloat16"),
    "nn-lstm-fp16": Contender("nn.LSTM, float16", dtype=torch.float16),
}


class Attention(nn.Module):
    """Causal attention with rotary positions (Su et al., 2021), by torch's fused kernels."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.inputs = nn.Linear(width, 3 * width, bias=False)
        self.output = nn.Linear(width, width, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        """Run over (B, T, width)."""
        q, k, v = self.inputs(x).unflatten(-1, (3, -1, HEAD)).permute(2, 0, 3, 1, 4)
        angles = positions(x.shape[1], x.device)
        q, k = (rotate(each, angles.cos(), angles.sin()) for each in (q, k))
        y = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.output(y.transpose(1, 2).flatten(2))


def positions(steps: int, device: torch.device) -> Tensor:
    """The angle of each step and pair of features, (T, HEAD / 2)."""
    pairs = torch.arange(HEAD // 2, device=device)
    return torch.arange(steps, device=device)[:, None] * 1e4 ** (-2 * pairs / HEAD)


def rotate(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Turn each pair of features of (B, heads, T, HEAD) by its angle."""
    a, b = x.chunk(2, -1)
    cos, sin = cos.to(x.dtype), sin.to(x.dtype)
    return torch.cat([a * cos - b * sin, b * cos + a * sin], -1)


class Recurrence(nn.Module):
    """A cell of rnnc in heads of `HEAD` units."""

    def __init__(self, cell: Cell, width: int) -> None:
        super().__init__()
        heads = width // HEAD
        self.rnn = rnnc.RNN(cell, width, width, heads=heads, batch_first=True)
        gates = [gate.name for gate in cell.gates]
        with torch.no_grad():
            biases = self.rnn.bias_l0.view(heads, len(gates), HEAD)
            biases[:, gates.index("f")] = torch.linspace(*FORGET, HEAD)

    def forward(self, x: Tensor) -> Tensor:
        """Run over (B, T, width)."""
        return self.rnn(x)[0]


class TorchLSTM(nn.Module):
    """`nn.LSTM`: one head of all units. It starts as the recurrences of rnnc do."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.rnn = nn.LSTM(width, width, batch_first=True)
        # Weights that were converted are copied into one piece of memory, a small part of the time.
        warnings.filterwarnings("ignore", "RNN module weights are not part of single")
        with torch.no_grad():
            nn.init.uniform_(self.rnn.weight_ih_l0, -math.sqrt(3 / width), math.sqrt(3 / width))
            for matrix in self.rnn.weight_hh_l0.chunk(4):
                nn.init.orthogonal_(matrix)
            for bias in (self.rnn.bias_ih_l0, self.rnn.bias_hh_l0):
                bias.zero_()
            self.rnn.bias_ih_l0[width : 2 * width] = torch.linspace(*FORGET, width)

    def forward(self, x: Tensor) -> Tensor:
        """Run over (B, T, width)."""
        kind = x.device.type
        dtype = torch.get_autocast_dtype(kind) if torch.is_autocast_enabled(kind) else x.dtype
        # Under autocast cuDNN's LSTM takes float16 whatever dtype is named, so it is named here.
        with torch.autocast(kind, enabled=False):
            weights = [weight.to(dtype) for weight in self.rnn.parameters()]
            zero = x.new_zeros((1, len(x), x.shape[-1]), dtype=dtype)
            options = True, 1, 0.0, self.training, False, True
            return torch.lstm(x.to(dtype), (zero, zero), weights, *options)[0]


class Block(nn.Module):
    """A pre-norm residual block: the mixer of steps, then a feed-forward part."""

    def __init__(self, mixer: nn.Module, width: int) -> None:
        super().__init__()
        self.norm, self.mixer = nn.LayerNorm(width, bias=False), mixer
        self.forward_norm = nn.LayerNorm(width, bias=False)
        self.up = nn.Linear(width, 4 * width, bias=False)
        self.down = nn.Linear(4 * width, width, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        """Run over (B, T, width)."""
        x = x + self.mixer(self.norm(x))
        return x + self.down(functional.gelu(self.up(self.forward_norm(x))))


class LanguageModel(nn.Module):
    """An embedding, blocks, a norm; the logits are products with the embedding."""

    def __init__(self, contender: Contender, size: Size) -> None:
        super().__init__()
        self.embedding = nn.Embedding(size.vocabulary, size.width)
        self.blocks = nn.ModuleList(
            Block(mixer(contender, size.width), size.width) for _ in range(size.layers)
        )
        self.norm = nn.LayerNorm(size.width, bias=False)
        for name, module in self.named_modules():
            if isinstance(module, nn.Linear | nn.Embedding):
                # What adds to the residual stream starts smaller, the more blocks there are.
                last = name.endswith((".down", ".output"))
                scale = 1 / math.sqrt(2 * size.layers) if last else 1
                nn.init.normal_(module.weight, std=INIT * scale)

    def forward(self, tokens: Tensor) -> Tensor:
        """What the logits are made of, (B, T, width), after each of the tokens (B, T)."""
        x = self.embedding(tokens)
        for block in self.blocks:
            x = block(x)
        return self.norm(x)

    def logits(self, hidden: Tensor) -> Tensor:
        """Of the next token."""
        return functional.linear(hidden, self.embedding.weight)


def mixer(contender: Contender, width: int) -> nn.Module:
    if contender.attention:
        return Attention(width)
    return Recurrence(contender.cell, width) if contender.cell else TorchLSTM(width)


def build(name: str, size: Size, device: str, *, seed: int, compiled: bool) -> LanguageModel:
    """A model that starts from a seed.

    Args:
        name: of the contender.
        size: of the model.
        device: "cpu" or "cuda".
        seed: of the weights.
        compiled: whether torch.compile compiles each block.
    """
    torch.manual_seed(seed)
    model = LanguageModel(CONTENDERS[name], size).to(device)
    if compiled:
        for block in model.blocks:
            block.compile()
    return model


def count(model: nn.Module) -> int:
    """The number of parameters."""
    return sum(parameter.numel() for parameter in model.parameters())

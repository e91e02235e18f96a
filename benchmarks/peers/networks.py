"""Networks of packages that build on torch's recurrent modules, with random weights and inputs.

Each function of `NETWORKS` imports its package, which need not be installed, and returns a model
and a call of it. The call gives the outputs by name; every output that has a gradient goes into
the sum whose gradient is compared or timed.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence

Call = Callable[[nn.Module], dict[str, Tensor]]


def like(model: nn.Module, x: Tensor) -> Tensor:
    """An input on the model's device, and in its dtype if it holds no whole numbers."""
    weight = next(model.parameters())
    return x.to(weight) if x.is_floating_point() else x.to(weight.device)


def characters(hidden: int, batch: int, steps: int) -> tuple[nn.Module, Call]:
    """Stanza's words from characters: packed, both directions, learned initial states."""
    from stanza.models.common.char_model import CharacterModel

    sizes = {"char_emb_dim": hidden, "char_hidden_dim": hidden, "char_num_layers": 2}
    model = CharacterModel(
        sizes | {"char_rec_dropout": 0, "dropout": 0.0},
        {"char": range(100)},
        pad=True,
        bidirectional=True,
    )
    for name in ("char_attn.weight", "charlstm_h_init", "charlstm_c_init"):
        nn.init.normal_(model.get_parameter(name), std=0.3)
    words = torch.randint(1, steps + 1, (4 * batch,)).sort(descending=True).values.tolist()
    letters = torch.randint(1, 100, (len(words), words[0]))
    order, sentences = torch.randperm(len(words)).tolist(), [4] * batch

    def call(model: nn.Module) -> dict[str, Tensor]:
        return {"words": model(like(model, letters), None, order, sentences, words)}

    return model, call


def highway(hidden: int, batch: int, steps: int) -> tuple[nn.Module, Call]:
    """Stanza's layers of its taggers: packed in the caller's order, states in and out."""
    from stanza.models.common.hlstm import HighwayLSTM

    model = HighwayLSTM(hidden, hidden, 2, batch_first=True, bidirectional=True)
    lengths = torch.randint(1, steps + 1, (batch,))
    x, states = torch.randn(batch, steps, hidden), torch.randn(2, 4, batch, hidden)

    def call(model: nn.Module) -> dict[str, Tensor]:
        packed = pack_padded_sequence(like(model, x), lengths, True, enforce_sorted=False)
        y, (h, c) = model(packed, lengths, tuple(like(model, states)))
        return {"output": y.data, "h": h, "c": c}

    return model, call


def tokenizer(hidden: int, batch: int, steps: int) -> tuple[nn.Module, Call]:
    """Stanza's tokenizer: two modules, the second of which reads what the first one says."""
    from stanza.models.tokenization.model import Tokenizer

    options = {"feat_dim": 5, "rnn_layers": 1, "conv_res": None, "use_mwt": True, "tok_noise": 0.0}
    options |= {"hierarchical": True, "hier_invtemp": 0.5}
    model = Tokenizer(options, 100, hidden, hidden, 0.0, 0.0)
    lengths = torch.randint(1, steps + 1, (batch,)).sort(descending=True).values
    letters, features = torch.randint(1, 100, (batch, steps)), torch.randn(batch, steps, 5)

    def call(model: nn.Module) -> dict[str, Tensor]:
        longest = int(lengths[0])
        units, facts = like(model, letters), like(model, features)
        return {"classes": model(units[:, :longest], facts[:, :longest], lengths)}

    return model, call


def _deepar(hidden: int, batch: int, steps: int) -> tuple[nn.Module, dict[str, Tensor]]:
    from gluonts.torch.model.deepar.module import DeepARModel

    model = DeepARModel(
        "H", steps, 8, hidden_size=hidden, dropout_rate=0.0, lags_seq=[1, 2, 24], cardinality=[9]
    )
    past = steps + 24 - 1
    series = {
        "feat_static_cat": torch.randint(0, 9, (batch, 1)),
        "feat_static_real": torch.randn(batch, 1),
        "past_time_feat": torch.randn(batch, past, 1),
        "past_target": torch.rand(batch, past),
        "past_observed_values": (torch.rand(batch, past) > 0.1).float(),
        "future_time_feat": torch.randn(batch, 8, 1),
    }
    return model, series


def forecast(hidden: int, batch: int, steps: int) -> tuple[nn.Module, Call]:
    """The loss of gluonts' DeepAR: two layers, the batch first."""
    model, series = _deepar(hidden, batch, steps)
    future = {"future_target": torch.rand(batch, 8), "future_observed_values": torch.ones(batch, 8)}

    def call(model: nn.Module) -> dict[str, Tensor]:
        return {"loss": model.loss(**{k: like(model, v) for k, v in (series | future).items()})}

    return model, call


def sampled(hidden: int, batch: int, steps: int) -> tuple[nn.Module, Call]:
    """Forecasts of gluonts' DeepAR: steps one at a time, states passed on as a list."""
    model, series = _deepar(hidden, batch, steps)

    @torch.no_grad()
    def call(model: nn.Module) -> dict[str, Tensor]:
        torch.manual_seed(0)
        return {"samples": model(**{k: like(model, v) for k, v in series.items()})}

    return model.eval(), call


def policy(hidden: int, batch: int, steps: int) -> tuple[nn.Module, Call]:
    """sb3-contrib's recurrent policy: episodes that start within sequences, so step by step."""
    import gymnasium
    from sb3_contrib.common.recurrent.policies import RecurrentActorCriticPolicy
    from sb3_contrib.common.recurrent.type_aliases import RNNStates

    spaces = gymnasium.spaces.Box(-1, 1, (6,)), gymnasium.spaces.Box(-1, 1, (2,))
    model = RecurrentActorCriticPolicy(*spaces, lambda _: 1e-3, lstm_hidden_size=hidden)
    seen, done = torch.randn(batch * steps, 6), torch.randn(batch * steps, 2)
    starts, states = (torch.rand(batch * steps) < 0.1).float(), torch.randn(4, 1, batch, hidden)

    def call(model: nn.Module) -> dict[str, Tensor]:
        h, c, critics_h, critics_c = like(model, states)
        carried = RNNStates((h, c), (critics_h, critics_c))
        inputs = like(model, seen), like(model, done), carried, like(model, starts)
        results = model.evaluate_actions(*inputs)
        return dict(zip(("values", "log_prob", "entropy"), results, strict=True))

    return model, call


def codec(hidden: int, batch: int, steps: int) -> tuple[nn.Module, Call]:
    """The encoder of transformers' EnCodec: two layers over frames, added to their input."""
    from transformers import EncodecConfig, EncodecModel

    ratios = {"upsampling_ratios": [4, 2], "num_filters": 4, "sampling_rate": 800}
    config = EncodecConfig(hidden_size=hidden, codebook_dim=hidden, codebook_size=16, **ratios)
    model, x = EncodecModel(config).encoder, torch.randn(batch, 1, 8 * steps)

    def call(model: nn.Module) -> dict[str, Tensor]:
        return {"frames": model(like(model, x))}

    return model, call


class Graphs(nn.Module):
    """Layers of torch_geometric with recurrent modules: over nodes of a graph, and over rounds."""

    def __init__(self, hidden: int, rounds: int) -> None:
        from torch_geometric.nn import GatedGraphConv, LSTMAggregation, Set2Set

        super().__init__()
        self.messages = GatedGraphConv(hidden, rounds)
        self.nodes = LSTMAggregation(hidden, hidden)
        self.sets = Set2Set(hidden, rounds)

    def forward(self, x: Tensor, edges: Tensor, graph: Tensor) -> dict[str, Tensor]:
        """The nodes after all messages, and two summaries of each graph."""
        x = self.messages(x, edges)
        return {"x": x, "nodes": self.nodes(x, graph), "sets": self.sets(x, graph)}


def graphs(hidden: int, batch: int, steps: int) -> tuple[nn.Module, Call]:
    """Layers for graphs of different sizes: GRU cells, padded nodes, single steps of an LSTM."""
    model, sizes = Graphs(hidden, 3), torch.randint(1, steps + 1, (batch,))
    graph = torch.arange(batch).repeat_interleave(sizes)
    x, edges = torch.randn(len(graph), hidden), torch.randint(len(graph), (2, 4 * len(graph)))

    def call(model: nn.Module) -> dict[str, Tensor]:
        where = next(model.parameters()).device
        return model(like(model, x), edges.to(where), graph.to(where))

    return model, call


def replayed(hidden: int, batch: int, steps: int) -> tuple[nn.Module, Call]:
    """Torchrl's memory of a policy on sampled trajectories, with episodes that start in them."""
    from tensordict import TensorDict
    from torchrl.modules import LSTMModule, set_recurrent_mode

    model = LSTMModule(input_size=6, hidden_size=hidden, in_key="seen", out_key="features")
    zeros = torch.zeros(batch, steps, 1, hidden)
    states = {"recurrent_state_h": zeros, "recurrent_state_c": zeros}
    given = states | {"seen": torch.randn(batch, steps, 6)}
    begins = torch.rand(batch, steps, 1) < 0.1

    def call(model: nn.Module) -> dict[str, Tensor]:
        inputs = {name: like(model, tensor) for name, tensor in given.items()}
        inputs["is_init"] = begins.to(inputs["seen"].device)
        with set_recurrent_mode(True):
            found = model(TensorDict(inputs, [batch, steps], inputs["seen"].device))
        return {"features": found["features"], "h": found["next", "recurrent_state_h"]}

    return model, call


@dataclass(frozen=True)
class Network:
    """A network with the sizes that its users have.

    Attributes:
        package: the package that it is from, as it is imported.
        build: makes it and a call of it, for a hidden size, a batch and a number of steps.
        sizes: these three numbers, as times are measured with them.
    """

    package: str
    build: Callable[[int, int, int], tuple[nn.Module, Call]]
    sizes: tuple[int, int, int]


NETWORKS = {
    "stanza CharacterModel": Network("stanza", characters, (200, 32, 16)),
    "stanza HighwayLSTM": Network("stanza", highway, (200, 50, 60)),
    "stanza Tokenizer": Network("stanza", tokenizer, (64, 32, 300)),
    "gluonts DeepAR, loss": Network("gluonts", forecast, (40, 32, 72)),
    "gluonts DeepAR, samples": Network("gluonts", sampled, (40, 32, 72)),
    "sb3-contrib policy": Network("sb3_contrib", policy, (256, 8, 128)),
    "transformers EnCodec": Network("transformers", codec, (128, 8, 75)),
    "torch_geometric layers": Network("torch_geometric", graphs, (64, 64, 30)),
    "torchrl LSTMModule": Network("torchrl", replayed, (128, 16, 64)),
}

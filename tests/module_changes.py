"""What users do to a module between two calls, and what the second call must then give."""

from __future__ import annotations

import copy
import io
import threading
from collections.abc import Callable, Iterator

import rnnc
import torch
from torch import Tensor, nn

Change = Callable[[rnnc.RNN], rnnc.RNN | None]


def replaced(rnn: rnnc.RNN) -> None:
    rnn.weight_hh_l0 = nn.Parameter(torch.randn_like(rnn.weight_hh_l0) / 4)


def written_through_data(rnn: rnnc.RNN) -> None:
    rnn.weight_ih_l1.data.mul_(-0.5)


def data_replaced(rnn: rnnc.RNN) -> None:
    rnn.bias_l0.data = torch.randn_like(rnn.bias_l0)


def stepped_by_an_optimiser(rnn: rnnc.RNN) -> None:
    for parameter in rnn.parameters():
        parameter.grad = torch.randn_like(parameter)
    torch.optim.SGD(rnn.parameters(), 0.1).step()


def cast(rnn: rnnc.RNN) -> None:
    rnn.double()


def moved_and_back(rnn: rnnc.RNN) -> None:
    device = rnn.weight_hh_l0.device
    rnn.to("meta" if device.type == "cpu" else "cpu")
    if device.type == "cpu":
        rnn.to_empty(device=device)
        rnn.reset_parameters()
    rnn.to(device)


def frozen(rnn: rnnc.RNN) -> None:
    rnn.requires_grad_(False)
    rnn.weight_hh_l1.requires_grad_()


def unfrozen(rnn: rnnc.RNN) -> None:
    frozen(rnn)
    results(rnn, inputs(rnn))
    rnn.requires_grad_()


def tied(rnn: rnnc.RNN) -> None:
    rnn.weight_hh_l1 = rnn.weight_hh_l0


def deep_copied(rnn: rnnc.RNN) -> rnnc.RNN:
    return copy.deepcopy(rnn)


def pickled(rnn: rnnc.RNN) -> rnnc.RNN:
    file = io.BytesIO()
    torch.save(rnn, file)
    file.seek(0)
    found: rnnc.RNN = torch.load(file, weights_only=False)
    return found


def in_evaluation(rnn: rnnc.RNN) -> None:
    rnn.eval()


def parametrized(rnn: rnnc.RNN) -> None:
    nn.utils.parametrizations.weight_norm(rnn, "weight_hh_l0")


def sizes_alternate(rnn: rnnc.RNN) -> None:
    for steps, batch in ((3, 5), (9, 1), (1, 7)):
        results(rnn, inputs(rnn, steps, batch))


def called_from_another_thread(rnn: rnnc.RNN) -> None:
    thread = threading.Thread(target=results, args=(rnn, inputs(rnn)))
    thread.start()
    thread.join()


CHANGES: tuple[Change, ...] = (
    replaced,
    written_through_data,
    data_replaced,
    stepped_by_an_optimiser,
    cast,
    moved_and_back,
    frozen,
    unfrozen,
    tied,
    deep_copied,
    pickled,
    in_evaluation,
    parametrized,
    sizes_alternate,
    called_from_another_thread,
)


def inputs(rnn: rnnc.RNN, steps: int = 6, batch: int = 4) -> Tensor:
    """An input, the same at each call for the same sizes."""
    weight = rnn.weight_ih_l1
    draw = torch.Generator().manual_seed(steps * 100 + batch)
    x = torch.randn(steps, batch, rnn.input_size, generator=draw)
    return x.to(weight.device, weight.dtype).requires_grad_()


def results(rnn: rnnc.RNN, x: Tensor) -> dict[str, Tensor]:
    """Output, last states and all gradients by name."""
    y, last = rnn(x)
    found = {"y": y.detach()} | {f"last.{i}": s.detach() for i, s in enumerate(last)}
    named = {"x": x, **{n: p for n, p in rnn.named_parameters() if p.requires_grad}}
    loss = (y * y).sum() + sum((s.sin()).sum() for s in last)
    gradients = torch.autograd.grad(loss, list(named.values()))
    return found | {f"d {name}": g for name, g in zip(named, gradients, strict=True)}


def compared(change: Change, rnn: rnnc.RNN) -> Iterator[tuple[str, Tensor, Tensor]]:
    """After a call and a change, the results of the module, and of the reference with its weights.

    Args:
        change: what happens between the calls.
        rnn: a module of two layers.
    """
    for _ in range(3):  # from the third call on, a module knows that its tensors passed all checks
        results(rnn, inputs(rnn))
    rnn = change(rnn) or rnn
    for _ in range(3):
        found = results(rnn, inputs(rnn))
        yield from _beside_the_reference(rnn, found)


def _beside_the_reference(
    rnn: rnnc.RNN, found: dict[str, Tensor]
) -> Iterator[tuple[str, Tensor, Tensor]]:
    exact = copy.deepcopy(rnn)
    exact.backend = "reference"
    exact.double()
    wanted = results(exact, inputs(exact))
    assert set(found) == set(wanted)
    for name, right in wanted.items():
        yield name, found[name].double(), right

"""Unknown words for `variant` and `save` are refused in every way of calling."""

import pytest
import rnnc
import torch

CELL = rnnc.cells.elman
WX, R = torch.randn(2, 3, 1, 4, 1), torch.randn(1, 1, 4, 4)
X = torch.randn(3, 2, 4)


def scanned(**options):
    return rnnc.scan(CELL, WX, R, **options)


def packed(**options):
    cu_seqlens = torch.tensor([0, 2, 5])
    return rnnc.scan_packed(CELL, torch.randn(5, 1, 4, 1), R, cu_seqlens=cu_seqlens, **options)


def module(**options):
    return rnnc.RNN(CELL, 4, 4, **options)(X)


def words_set_later(backend, **words):
    rnn = rnnc.RNN(CELL, 4, 4, backend=backend)
    for name, word in words.items():
        setattr(rnn, name, word)
    return rnn


def module_set_later(**options):
    return words_set_later(**options)(X)


def step_set_later(**options):
    return words_set_later(**options).step(X[0])


def mapped(**options):
    return torch.func.vmap(lambda wx: rnnc.scan(CELL, wx, R, **options)[0][0])(WX[None])


def compiled(**options):
    """A graph breaks where the word is refused, and the code outside of it says why."""
    torch.compiler.reset()
    call = torch.compile(lambda wx: rnnc.scan(CELL, wx, R, **options)[0][0], backend="eager")
    return call(WX)


WAYS = [scanned, packed, module, module_set_later, step_set_later, mapped, compiled]


@pytest.mark.parametrize("backend", ["auto", "cpu", "reference"])
@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.__name__)
@pytest.mark.parametrize(("name", "known"), [("variant", "auto"), ("save", "gates")])
def test_an_unknown_word_is_refused(name, known, way, backend):
    with pytest.raises(rnnc.TensorError, match=f"^{name}\n  found:  'blok'\n(.*\n)*.*'{known}'"):
        way(backend=backend, **{name: "blok"})
    way(backend=backend, **{name: known})

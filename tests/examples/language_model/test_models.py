import pytest
import torch

NAMES = ["lstm", "slstm", "transformer", "nn-lstm"]


@pytest.fixture(scope="module")
def models(part):
    return part("language_model.models")


@pytest.mark.parametrize("name", NAMES)
def test_models_do_not_see_later_tokens(models, name):
    model = models.build(name, models.SIZES["tiny"], "cpu", seed=0, compiled=False)
    tokens = torch.randint(256, (2, 12))
    changed = tokens.clone()
    changed[:, 7:] = (changed[:, 7:] + 1) % 256
    before, after = (model.logits(model(each)) for each in (tokens, changed))
    assert before.shape == (2, 12, 256)
    torch.testing.assert_close(before[:, :7], after[:, :7])
    assert not torch.allclose(before[:, 7:], after[:, 7:])


def test_models_differ_in_what_mixes_steps_only(models):
    def rest(name):
        built = models.build(name, models.SIZES["tiny"], "cpu", seed=0, compiled=False)
        return {n: p.shape for n, p in built.named_parameters() if ".mixer." not in n}

    assert rest("lstm") == rest("slstm") == rest("transformer") == rest("nn-lstm")


@pytest.mark.parametrize(("size", "wanted"), [("25m", 25e6), ("120m", 120e6)])
def test_sizes_are_what_their_names_say(models, size, wanted):
    for name in ("lstm", "slstm", "transformer"):
        with torch.device("meta"):
            model = models.LanguageModel(models.CONTENDERS[name], models.SIZES[size])
        assert models.count(model) == pytest.approx(wanted, rel=0.04)


def test_two_ranks_can_share_the_heads_of_each_size(models):
    """As benchmarks/ranks.py has them do."""
    for size in models.SIZES.values():
        assert size.width % (2 * models.HEAD) == 0


def test_rotary_products_depend_on_the_distance_alone(models):
    angles = models.positions(10, torch.device("cpu"))
    q, k = torch.randn(2, 64)
    turned_q, turned_k = (
        models.rotate(x.expand(10, 64), angles.cos(), angles.sin()) for x in (q, k)
    )
    products = turned_q @ turned_k.T
    for distance in range(10):
        line = products.diagonal(-distance)
        torch.testing.assert_close(line, line[:1].expand(len(line)), rtol=1e-4, atol=1e-4)
    assert products[5, 5] != pytest.approx(products[5, 2].item(), rel=1e-2)


def test_torch_s_lstm_is_nn_lstm_and_forgets_slowly(models):
    mixer = models.TorchLSTM(64)
    x = torch.randn(2, 9, 64)
    torch.testing.assert_close(mixer(x), mixer.rnn(x)[0])
    biases = mixer.rnn.bias_ih_l0 + mixer.rnn.bias_hh_l0
    assert biases[64:128].tolist() == torch.linspace(1, 5, 64).tolist()
    assert not biases[:64].any()
    assert not biases[128:].any()


def test_forget_biases_of_a_cell_are_those_of_its_gate(models):
    mixer = models.Recurrence(models.cells.slstm, 128)
    gates = [gate.name for gate in models.cells.slstm.gates]
    biases = mixer.rnn.bias_l0.view(2, len(gates), 64)
    for i, gate in enumerate(gates):
        wanted = torch.linspace(1, 5, 64) if gate == "f" else torch.zeros(64)
        assert torch.equal(biases[:, i], wanted.expand(2, 64))

"""Sequences of different lengths in one batch: padding is seen by nobody, and changes nothing."""

import math

import pytest

torch = pytest.importorskip("torch")

from unmask import order, size  # noqa: E402
from unmask._check import InputError  # noqa: E402
from unmask.evaluate.likelihood import replay  # noqa: E402
from unmask.models import transformer as nn  # noqa: E402
from unmask.predict import Counted, Framed, Guided, Headed, Logits, Shifted, Suppressed, Tempered, Watched  # noqa: E402
from unmask.sample import Sampler  # noqa: E402
from unmask.schedule import Schedule  # noqa: E402
from unmask.sequences import Sequences  # noqa: E402

LENGTH = 24


def network(seed):
    """A random transformer of a random shape, and the generator it was drawn by."""
    source = torch.Generator().manual_seed(seed)

    def between(least, most):
        return int(torch.randint(least, most + 1, (), generator=source))

    heads = between(1, 4)
    shape = {"layers": between(1, 2), "readers": between(1, 2), "hidden": between(1, 60), "reader_hidden": 40}
    torch.manual_seed(seed)
    config = nn.Config(vocab=between(2, 40), length=LENGTH, width=2 * heads * between(1, 16), heads=heads, **shape)
    return nn.Transformer(config).eval(), source


def texts(model, lengths, source):
    """Token ids of these lengths, masks among them; the same filled up; the flat indices of what is no padding."""
    rows = [torch.randint(model.config.vocab + 1, (length,), generator=source) for length in lengths]
    table = torch.nn.utils.rnn.pad_sequence(rows, batch_first=True, padding_value=model.predictor().pad)
    return rows, table, torch.nonzero((table != model.predictor().pad).flatten())[:, 0]


def told(predictor, tokens, rows=None):
    """The hidden states that a prediction is made of: the same bits give the same prediction."""
    with torch.no_grad():
        return predictor(tokens, tokens == predictor.mask, rows).parts[0]


@pytest.mark.parametrize("seed", range(20))
def test_a_sequence_filled_up_has_the_bits_of_the_sequence_alone(seed):
    model, source = network(seed)
    lengths = torch.randperm(LENGTH, generator=source)[:5] + 1
    rows, table, present = texts(model, lengths.tolist(), source)
    predictor = model.predictor()
    alone = torch.cat([told(predictor, row[None]) for row in rows])
    assert torch.equal(told(predictor, table, present), alone)
    assert torch.equal(told(predictor, table)[present], alone)
    with torch.no_grad():
        prediction = predictor(table, table == predictor.mask, present)
        torch.testing.assert_close(prediction.logits(), model.head(alone))
        assert torch.isfinite(predictor(table, table == predictor.mask).logits()).all()


@pytest.mark.parametrize("seed", range(10))
def test_sequences_of_one_length_have_the_bits_of_their_own_batch_whoever_is_beside_them(seed):
    model, source = network(seed)
    lengths = [7, 3, 7, LENGTH, 3, 7, 1]
    rows, table, _ = texts(model, lengths, source)
    predictor, places = model.predictor(), torch.arange(table.numel()).view_as(table)
    for length in set(lengths):
        members = [number for number, each in enumerate(lengths) if each == length]
        own = torch.stack([rows[number] for number in members])
        wanted = places[members, :length].flatten()
        assert torch.equal(told(predictor, table, wanted), told(predictor, own))
        # Some of the rows, in any order and more than once.
        some = torch.randint(len(wanted), (4,), generator=source)
        assert torch.equal(told(predictor, table, wanted[some]), told(predictor, own, some))
    changed = table.clone()
    changed[3, 2:] = predictor.mask
    others = torch.cat([places[n, :each] for n, each in enumerate(lengths) if n != 3])
    assert torch.equal(told(predictor, changed, others), told(predictor, table, others))


@pytest.mark.parametrize("seed", range(10))
def test_masked_attention_is_what_a_gpu_runs(seed):
    """One batch with a mask gives what each sequence is told alone, up to rounding, and padding is not seen."""
    model, source = network(seed)
    rows, table, places = texts(model, [5, LENGTH, 1, 9, 5], source)
    present = table != model.predictor().pad
    with torch.no_grad():
        found = model.read(model.memory(table, present), nn.Rows.at_home(places, LENGTH), present)
        alone = torch.cat([told(model.predictor(), row[None]) for row in rows])
        torch.testing.assert_close(found, alone, rtol=1e-4, atol=1e-5)
        other = table.masked_fill(~present, 1)
        again = model.read(model.memory(other, present), nn.Rows.at_home(places, LENGTH), present)
        assert torch.equal(again, found)


@pytest.mark.parametrize("seed", range(5))
def test_without_padding_nothing_is_grouped_and_nothing_is_masked(seed, monkeypatch):
    model, source = network(seed)
    tokens = torch.randint(model.config.vocab + 1, (6, 9), generator=source)
    predictor = model.predictor()
    rows = torch.arange(tokens.numel())
    with torch.no_grad():
        expected = model.read(predictor._memory(tokens), nn.Rows.packed(rows, *tokens.shape))
    plain = torch.nn.functional.scaled_dot_product_attention

    def unmasked(query, key, value, attn_mask=None):
        assert attn_mask is None
        return plain(query, key, value)

    monkeypatch.setattr(torch.nn.functional, "scaled_dot_product_attention", unmasked)
    monkeypatch.setattr(nn.Reading, "_by_length", None)
    assert torch.equal(told(predictor, tokens), expected)
    assert told(predictor, tokens[:0]).shape == (0, model.config.width)


def test_nothing_asked_of_a_padded_batch_is_nothing():
    model, source = network(0)
    _, table, _ = texts(model, [3, 6], source)
    assert told(model.predictor(), table, torch.tensor([], dtype=torch.int64)).shape == (0, model.config.width)


def test_padding_in_the_middle_is_refused():
    model, source = network(0)
    _, table, _ = texts(model, [3, 6], source)
    table[1, 2] = model.predictor().pad
    with pytest.raises(InputError, match="'tokens' must have padding only after the end of a sequence"):
        told(model.predictor(), table)


def test_gradients_flow_through_padded_batches():
    model, source = network(1)
    rows, table, places = texts(model, [4, 9, 4], source)
    predictor = model.predictor()
    predictor(table, table == predictor.mask, places).logits().square().sum().backward()
    found = model.embed.weight.grad.clone()
    model.zero_grad()
    for row in rows:
        predictor(row[None], row[None] == predictor.mask).logits().square().sum().backward()
    torch.testing.assert_close(model.embed.weight.grad, found, rtol=1e-3, atol=1e-4)


def test_wrappers_pass_padding_on():
    model, source = network(2)
    rows, table, places = texts(model, [4, 9, 6], source)
    inner = model.predictor()
    prompt = torch.arange(9) < 7  # beyond the end of two of them
    for wrap in (
        lambda each, _: Suppressed(each, [0]),
        lambda each, _: Tempered(each, 2.0),
        lambda each, _: Shifted(each),
        lambda each, _: Counted(each),
        lambda each, _: Watched(each, print),
        lambda each, _: Framed(each, [1, 0], [1]),
        lambda each, length: Guided(each, prompt[:length], 1.5),
    ):
        predictor = wrap(inner, 9)
        assert predictor.pad == inner.pad
        with torch.no_grad():
            found = predictor(table, table == inner.mask, places).log_probabilities()
            alone = [wrap(inner, len(row))(row[None], row[None] == inner.mask).log_probabilities() for row in rows]
        torch.testing.assert_close(found, torch.cat(alone), rtol=1e-4, atol=1e-4)


def test_a_model_of_ones_own_says_what_its_padding_is():
    def hidden(tokens):
        present = (tokens != 9)[..., None]
        states = torch.nn.functional.one_hot(tokens, 10).float()[..., :8]
        return states + (states * present).sum(dim=1, keepdim=True)

    for predictor in (Logits(hidden, 8, 8, pad=9), Headed(hidden, lambda states: states, 8, 8, pad=9)):
        assert predictor.pad == 9
        assert Counted(predictor).pad == 9
        short, both = torch.tensor([[1, 8]]), torch.tensor([[1, 8, 9], [3, 8, 2]])
        alone = predictor(short, short == 8).logits()
        assert torch.equal(predictor(both, both == 8, torch.arange(2)).logits(), alone)
    assert Logits(hidden, 8, 8).pad is None
    assert Headed(hidden, hidden, 8, 8).pad is None
    for make in (lambda pad: Logits(hidden, 8, 8, pad=pad), lambda pad: Headed(hidden, hidden, 8, 8, pad=pad)):
        with pytest.raises(InputError, match="'pad' must be a different token from 'mask', not 8"):
            make(8)
        with pytest.raises(InputError, match="'pad' must be"):
            make(-1)


def test_a_masked_position_is_no_padding_whatever_token_stands_there():
    predictor = Logits(lambda tokens: torch.zeros(*tokens.shape, 5), 5, 4, pad=0)
    rows = Sequences.of([[1, 0, 0], [2, 0]], [[False, True, True], [False, True]])
    schedule = Schedule(size.Even(2), order.Random())
    trace = Sampler(predictor, schedule).fill(rows, rng=[0, 1])
    assert (trace.revealed >= 0).sum(dim=1).tolist() == [2, 1]
    scored = replay(predictor, schedule, rows, rng=0)
    assert scored.evaluations.tolist() == [2, 1]
    assert torch.allclose(scored.nll, math.log(4) * torch.tensor([2.0, 1.0], dtype=torch.float64))

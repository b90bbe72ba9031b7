"""The small transformer and its files."""

import json
import os
import re
from dataclasses import asdict, replace

import pytest

torch = pytest.importorskip("torch")

from unmask import models, order, size  # noqa: E402
from unmask._check import InputError  # noqa: E402
from unmask.calibration import measure  # noqa: E402
from unmask.models import base, weights  # noqa: E402
from unmask.models import transformer as nn  # noqa: E402
from unmask.sample import Sampler  # noqa: E402
from unmask.schedule import Schedule  # noqa: E402

CONFIG = nn.Config(vocab=5, length=10, width=16, layers=2, heads=2, hidden=24)


def model():
    torch.manual_seed(0)
    return nn.Transformer(CONFIG).eval()


def test_positions_are_alike_until_a_token_is_visible():
    """Rotary positions are relative: nothing says where a position is while all tokens are the same."""
    network = model()
    blank = torch.full((1, 10), CONFIG.vocab)
    logits = network(blank)
    assert torch.allclose(logits, logits[:, :1].expand_as(logits), atol=1e-6)
    blank[0, 3] = 1
    seen = network(blank)[0]
    apart = (seen[:, None] - seen[None]).abs().amax(-1)
    assert apart[~torch.eye(10, dtype=torch.bool)].min() > 1e-4


def test_a_saved_model_is_the_same_model(tmp_path):
    original = model()
    weights.save(original, tmp_path / "m.safetensors", about={"alphabet": "abcde"}, half=False)
    loaded, about = weights.load(tmp_path / "m.safetensors")
    tokens = torch.tensor([[0, 5, 2, 5, 4]])
    assert torch.equal(loaded(tokens), original(tokens))
    assert loaded.config == CONFIG
    assert about == {"alphabet": "abcde"}


@pytest.mark.parametrize(
    "config", [CONFIG, nn.Config(vocab=3, length=4, width=8, layers=3, readers=1, heads=2, hidden=5, reader_hidden=7)]
)
def test_a_shape_knows_how_many_parameters_it_has(config):
    assert config.parameters == sum(each.numel() for each in nn.Transformer(config).parameters())


def test_half_precision_halves_the_weights(tmp_path):
    weights.save(model(), tmp_path / "half.safetensors", about={})
    weights.save(model(), tmp_path / "full.safetensors", about={}, half=False)
    half, full = ((tmp_path / name).stat().st_size for name in ("half.safetensors", "full.safetensors"))
    numbers = sum(p.numel() for p in model().parameters())
    assert abs(full - half - 2 * numbers) < 64  # the headers differ by a few characters


@pytest.mark.parametrize(
    "rows", [[1, 3, 5, 8], [8, 0, 9, 3, 3], [7], list(range(10)), []], ids=["some", "any order", "one", "all", "none"]
)
def test_rows_asked_for_have_the_logits_of_the_whole(rows):
    """Also in any order, more than once, and with sequences of which nothing is asked."""
    whole, tokens = model(), torch.tensor([[0, 5, 2, 5, 4], [5, 5, 5, 5, 1]])
    index = torch.tensor(rows, dtype=torch.int64)
    with torch.no_grad():
        expected = whole(tokens).flatten(0, 1)[index]
        torch.testing.assert_close(whole.predictor()(tokens, tokens == 5, index).logits(), expected)
        unique = index.unique()
        torch.testing.assert_close(whole(tokens, unique), whole(tokens).flatten(0, 1)[unique])


@pytest.mark.parametrize("tokens_at_once", [1, 7, 10, 1000])
def test_a_batch_in_parts_is_the_batch(monkeypatch, tokens_at_once):
    monkeypatch.setattr(nn, "_TOKENS", tokens_at_once)
    whole, tokens = model(), torch.randint(6, (5, 7), generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        expected = whole(tokens).flatten(0, 1)
        torch.testing.assert_close(whole.predictor()(tokens, tokens == 5).logits(), expected)


def test_equal_texts_go_through_the_layers_once(monkeypatch):
    whole, seen = model(), []
    monkeypatch.setattr(
        whole, "memory", lambda tokens: seen.append(len(tokens)) or nn.Transformer.memory(whole, tokens)
    )
    tokens = torch.full((4, 6), 5)
    rows = torch.tensor([0, 7, 14, 15, 23])
    with torch.no_grad():
        logits = whole.predictor()(tokens, tokens == 5, rows).logits()
        torch.testing.assert_close(logits, nn.Transformer.forward(whole, tokens[:1]).flatten(0, 1)[rows % 6])
    assert seen[0] == 1


def test_readers_see_every_position_and_no_other_row():
    """A row's logits do not change with the rows asked for beside it, and do change with any token of its text."""
    whole, tokens = model(), torch.tensor([[0, 5, 2, 5, 4]])
    with torch.no_grad():
        alone = whole(tokens, torch.tensor([1]))
        torch.testing.assert_close(whole(tokens, torch.tensor([3, 1]))[1:], alone)
        for place in (0, 2, 4):
            changed = tokens.clone()
            changed[0, place] = 1
            assert not torch.allclose(whole(changed, torch.tensor([1])), alone)


def test_attention_looks_both_ways():
    whole = model()
    first, second = torch.tensor([[0, 5, 2]]), torch.tensor([[0, 5, 3]])
    assert not torch.allclose(whole(first)[0, 1], whole(second)[0, 1])
    third = torch.tensor([[1, 5, 2]])
    assert not torch.allclose(whole(first)[0, 1], whole(third)[0, 1])


def test_damaged_and_foreign_files_are_refused(tmp_path):
    from safetensors.torch import save_file

    weights.save(model(), tmp_path / "m.safetensors", about={})
    data = (tmp_path / "m.safetensors").read_bytes()
    (tmp_path / "cut.safetensors").write_bytes(data[: len(data) // 2])
    with pytest.raises(ValueError, match="must be an intact safetensors file"):
        weights.load(tmp_path / "cut.safetensors")
    save_file({"x": torch.zeros(2)}, tmp_path / "other.safetensors")
    with pytest.raises(ValueError, match="must be a model saved by unmask"):
        weights.load(tmp_path / "other.safetensors")
    assert sorted(p.name for p in tmp_path.iterdir()) == ["cut.safetensors", "m.safetensors", "other.safetensors"]


def changed(tmp_path, other=lambda name, value: value, **texts):
    """A model file with other texts, left out where they are None, or other weights."""
    from safetensors import safe_open
    from safetensors.torch import save_file

    weights.save(model(), tmp_path / "m.safetensors", about={"alphabet": "abcde"})
    with safe_open(tmp_path / "m.safetensors", framework="pt") as file:
        kept = {name: other(name, file.get_tensor(name)) for name in file.keys()}  # noqa: SIM118
        said = {name: text for name, text in (file.metadata() | texts).items() if text is not None}
    save_file({name: value for name, value in kept.items() if value is not None}, tmp_path / "x", metadata=said)
    return tmp_path / "x"


SHAPE = asdict(CONFIG)


@pytest.mark.parametrize(
    ("texts", "said"),
    [
        ({"about": "null"}, "its 'about' is missing or is not a JSON object"),
        ({"about": "[1]"}, "its 'about' is missing or is not a JSON object"),
        ({"about": None}, "its 'about' is missing or is not a JSON object"),
        ({"about": "[" * 100_000}, "its 'about' is missing or is not a JSON object"),
        ({"config": None}, "its 'config' is missing or is not a JSON object"),
        ({"config": "{"}, "its 'config' is missing or is not a JSON object"),
        ({"config": "[" * 100_000}, "its 'config' is missing or is not a JSON object"),
        ({"config": '{"vocab": 1' + "0" * 5000 + "}"}, "its 'config' is missing or is not a JSON object"),
        ({"config": "{}"}, "its 'config' does not have the expected fields"),
        ({"config": json.dumps(SHAPE | {"colour": 3})}, "its 'config' does not have the expected fields"),
        ({"config": json.dumps(SHAPE | {"vocab": 2.5})}, "its 'vocab' cannot be 2.5"),
        ({"config": json.dumps(SHAPE | {"width": -4})}, "its 'width' cannot be -4"),
        ({"config": json.dumps(SHAPE | {"layers": 10**14})}, "its 'layers' cannot be 100000000000000"),
        ({"config": json.dumps(SHAPE | {"layers": 4096})}, "its weights do not fit its shape"),
        ({"config": json.dumps(SHAPE | {"vocab": 10**300})}, "its weights do not fit its shape"),
        ({"format": None}, "be a model saved by unmask"),
    ],
)
def test_what_a_file_says_of_its_model_is_checked_before_it_is_believed(tmp_path, texts, said):
    with pytest.raises(InputError, match=re.escape(said)) as caught:
        weights.load(changed(tmp_path, **texts))
    assert caught.value.argument == "path"


def test_a_length_for_which_there_is_no_memory_is_refused(tmp_path):
    with pytest.raises(InputError, match="Argument 'path' must fit into memory, but it needs at least"):
        weights.load(changed(tmp_path, config=json.dumps(SHAPE | {"length": 10**15})))


def test_weights_of_another_kind_or_shape_are_refused(tmp_path):
    def whole(name, value):
        return value.long() if name == "head.weight" else value

    def turned(name, value):
        return value.T.contiguous() if name == "head.weight" else value

    def missing(name, value):
        return None if name == "head.weight" else value

    with pytest.raises(InputError, match="some of its weights are not floating-point numbers"):
        weights.load(changed(tmp_path, whole))
    for wrong in (turned, missing):
        with pytest.raises(InputError, match="its weights do not fit its shape"):
            weights.load(changed(tmp_path, wrong))


def test_what_is_no_file_is_refused_without_waiting_for_it(tmp_path):
    with pytest.raises(InputError, match=r"must be a file, not the folder '.*'"):
        weights.load(tmp_path)
    with pytest.raises(InputError, match="the name of an existing file"):
        weights.load(tmp_path / "none")
    if hasattr(os, "mkfifo"):
        os.mkfifo(tmp_path / "pipe")
        with pytest.raises(InputError, match="not a regular file"):
            weights.load(tmp_path / "pipe")


def test_weights_that_are_not_numbers_are_found_where_losses_are(tmp_path):
    """Loading does not look at every number; what is computed with them says so."""
    path = changed(tmp_path, lambda name, value: torch.full_like(value, torch.nan))
    loaded = models.load(path)
    texts = torch.zeros((4, CONFIG.length), dtype=torch.int64)
    with pytest.raises(InputError, match="The model gives losses that are not numbers"):
        measure(loaded.predictor, order.Random(), texts, rng=0)
    with pytest.raises(InputError, match="not numbers"):
        Sampler(loaded.predictor, Schedule(size.Even(2), order.Random())).run((1, 10), rng=[0])


@pytest.mark.parametrize(
    ("about", "said"),
    [
        ({}, "must be saved with its alphabet, but this one is not"),
        ({"alphabet": 3}, "must be saved with its alphabet, but this one is not"),
        (
            {"alphabet": "aab"},
            "usable alphabet: its alphabet must be a string of one or more different characters",
        ),
        ({"alphabet": ""}, "usable alphabet: its alphabet must be a string of one or more different characters"),
        ({"alphabet": "abc"}, "must have as many tokens as its alphabet, 3, not 5"),
        ({"alphabet": "", "tokenizer": "{}"}, "its alphabet must describe a tokenizer, but it does not: "),
    ],
)
def test_an_alphabet_that_does_not_fit_is_refused(tmp_path, about, said):
    with pytest.raises(InputError, match=f"Argument 'model' .*{said}"):
        models.load(changed(tmp_path, about=json.dumps(about)))


def test_loading_a_model_does_not_read_its_weights_for_a_name(tmp_path, monkeypatch):
    """Minutes for some billions of weights; the name is found once, and known to every cut of the model."""
    asked = []
    real = base.fingerprint
    monkeypatch.setattr(base, "fingerprint", lambda module: asked.append(module) or real(module))
    weights.save(model(), tmp_path / "m.safetensors", about={"alphabet": "abcde"})
    loaded = models.load(tmp_path / "m.safetensors")
    short = loaded.cut(4)
    assert not asked
    assert short.fingerprint == loaded.fingerprint == loaded.cut(7).fingerprint == real(loaded.module)
    assert len(asked) == 1
    other = replace(loaded, module=nn.Transformer(CONFIG))
    assert other.fingerprint != loaded.fingerprint


def test_bad_shapes_are_refused():
    with pytest.raises(ValueError, match="Argument 'width' must be a multiple of 6, twice the number of heads, not 16"):
        nn.Config(vocab=5, length=10, width=16, heads=3)
    with pytest.raises(ValueError, match="must have at most 10 positions, not 11"):
        model()(torch.zeros(1, 11, dtype=torch.int64))


def test_weights_that_half_precision_cannot_hold_are_refused(tmp_path):
    model = nn.Transformer(nn.Config(vocab=2, length=4, width=8, layers=1, readers=1, heads=2, hidden=8))
    with torch.no_grad():
        model.head.weight[0, 0] = 1e5
    with pytest.raises(ValueError, match=r"fit into torch\.float16"):
        weights.save(model, tmp_path / "model.safetensors", about={})
    assert not list(tmp_path.iterdir())


def test_loading_draws_nothing(tmp_path):
    model = nn.Transformer(nn.Config(vocab=2, length=4, width=8, layers=1, readers=1, heads=2, hidden=8))
    weights.save(model, tmp_path / "model.safetensors", about={})
    before = torch.get_rng_state()
    weights.load(tmp_path / "model.safetensors")
    assert torch.equal(torch.get_rng_state(), before)

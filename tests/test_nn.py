"""The small transformer and its files."""

import pytest

torch = pytest.importorskip("torch")

from unmask.models import transformer as nn  # noqa: E402

CONFIG = nn.Config(vocab=5, length=10, width=16, layers=2, heads=2, hidden=24)


def model():
    torch.manual_seed(0)
    return nn.Transformer(CONFIG).eval()


def test_a_saved_model_is_the_same_model(tmp_path):
    original = model()
    nn.save(original, tmp_path / "m.safetensors", about={"alphabet": "abcde"}, half=False)
    loaded, about = nn.load(tmp_path / "m.safetensors")
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
    nn.save(model(), tmp_path / "half.safetensors", about={})
    nn.save(model(), tmp_path / "full.safetensors", about={}, half=False)
    half, full = ((tmp_path / name).stat().st_size for name in ("half.safetensors", "full.safetensors"))
    weights = sum(p.numel() for p in model().parameters())
    assert abs(full - half - 2 * weights) < 64  # the headers differ by a few characters


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

    nn.save(model(), tmp_path / "m.safetensors", about={})
    data = (tmp_path / "m.safetensors").read_bytes()
    (tmp_path / "cut.safetensors").write_bytes(data[: len(data) // 2])
    with pytest.raises(ValueError, match="must name an intact safetensors file"):
        nn.load(tmp_path / "cut.safetensors")
    save_file({"x": torch.zeros(2)}, tmp_path / "other.safetensors")
    with pytest.raises(ValueError, match="must name a model saved by unmask"):
        nn.load(tmp_path / "other.safetensors")
    assert sorted(p.name for p in tmp_path.iterdir()) == ["cut.safetensors", "m.safetensors", "other.safetensors"]


def test_bad_shapes_are_refused():
    with pytest.raises(ValueError, match="Argument 'width' must be a multiple of 2 x 3 heads, not 16"):
        nn.Config(vocab=5, length=10, width=16, heads=3)
    with pytest.raises(ValueError, match="must have at most 10 positions, not 11"):
        model()(torch.zeros(1, 11, dtype=torch.int64))


def test_weights_that_half_precision_cannot_hold_are_refused(tmp_path):
    model = nn.Transformer(nn.Config(vocab=2, length=4, width=8, layers=1, readers=1, heads=2, hidden=8))
    with torch.no_grad():
        model.head.weight[0, 0] = 1e5
    with pytest.raises(ValueError, match=r"fit into torch\.float16"):
        nn.save(model, tmp_path / "model.safetensors", about={})
    assert not list(tmp_path.iterdir())


def test_loading_draws_nothing(tmp_path):
    model = nn.Transformer(nn.Config(vocab=2, length=4, width=8, layers=1, readers=1, heads=2, hidden=8))
    nn.save(model, tmp_path / "model.safetensors", about={})
    before = torch.get_rng_state()
    nn.load(tmp_path / "model.safetensors")
    assert torch.equal(torch.get_rng_state(), before)

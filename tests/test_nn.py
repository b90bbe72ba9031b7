"""The small transformer and its files."""

import pytest

torch = pytest.importorskip("torch")

from unmask import nn  # noqa: E402

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


def test_half_precision_halves_the_weights(tmp_path):
    nn.save(model(), tmp_path / "half.safetensors", about={})
    nn.save(model(), tmp_path / "full.safetensors", about={}, half=False)
    half, full = ((tmp_path / name).stat().st_size for name in ("half.safetensors", "full.safetensors"))
    weights = sum(p.numel() for p in model().parameters())
    assert abs(full - half - 2 * weights) < 64  # the headers differ by a few characters


def test_the_head_on_some_rows_gives_what_the_whole_model_gives():
    whole, tokens = model(), torch.tensor([[0, 5, 2, 5, 4], [5, 5, 5, 5, 1]])
    rows = torch.tensor([1, 3, 5, 8])
    predictor = whole.predictor()
    with torch.no_grad():
        expected = torch.log_softmax(whole(tokens).flatten(0, 1)[rows], dim=-1)
        torch.testing.assert_close(predictor(tokens, tokens == 5, rows).log_probabilities(), expected)


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

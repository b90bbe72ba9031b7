"""A small model for tests: logits that are a fixed random function of all the tokens of a sequence."""

import pytest

torch = pytest.importorskip("torch")


def table_model(vocab=6, length=5, seed=0, dtype=torch.float32, scale=1.0):
    """Maps token ids `(batch, length)` up to `vocab`, the mask, to logits `(batch, length, vocab)`."""
    source = torch.Generator().manual_seed(seed)
    embed = scale * torch.randn((vocab + 1, length, length, vocab), generator=source, dtype=torch.float64)

    def model(tokens):
        return embed[tokens, torch.arange(tokens.shape[1])].sum(dim=1).to(dtype)

    return model

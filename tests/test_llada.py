"""LLaDA's counts: the drop-in against a rewrite of the original, and inside a rewrite of its loop."""

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from toy import table_model  # noqa: E402
from unmask import gauge, order, size  # noqa: E402
from unmask.adapters.llada import compact, transfer_counts  # noqa: E402
from unmask.predict import Logits  # noqa: E402
from unmask.sample import Sampler  # noqa: E402
from unmask.sample.draw import Greedy  # noqa: E402
from unmask.schedule import Schedule  # noqa: E402

FAMILIES = [
    size.Even, size.Ceil, size.Cosine, size.LogLinear, size.ChenTC, size.ChenDTC, size.Offset, size.TC, size.DTC,
    lambda steps: size.Minimax(steps, gauge.tc), size.Universal, size.Logit,
]  # fmt: skip


def masks(counts, length=40):
    return torch.stack([torch.randperm(length, generator=torch.Generator().manual_seed(n)) < n for n in counts])


def original(mask_index, steps):
    """LLaDA's formula: the quotient for every step, one more in the first `remainder` steps."""
    masked = mask_index.sum(dim=1, keepdim=True)
    return masked // steps + (torch.arange(steps) < masked % steps)


@pytest.mark.parametrize("steps", [1, 3, 7, 16, 40, 64])
def test_even_counts_are_the_original_s_numbers(steps):
    mask_index = masks([0, 1, 5, 16, 33, 40])
    counts = transfer_counts(mask_index, steps, size.Even)
    assert counts.dtype == torch.int64
    assert torch.equal(counts, original(mask_index, steps))


@pytest.mark.parametrize("family", FAMILIES, ids=lambda family: getattr(family, "__name__", repr(family)))
def test_every_row_sums_to_its_masks_with_the_zeros_last(family):
    wanted = [0, 1, 2, 7, 20, 40]
    counts = transfer_counts(masks(wanted), 8, family, torch.Generator().manual_seed(0))
    assert counts.shape == (6, 8)
    assert counts.sum(dim=1).tolist() == wanted
    assert (counts[:, 1:] <= counts[:, :-1].clamp(max=1) * 40).all()  # nothing after a zero
    assert (
        transfer_counts(masks([40]), 8, family, [5]).tolist()
        == transfer_counts(masks([40, 40]), 8, family, [4, 5])[1:].tolist()
    )


def test_finished_sizes_serve_where_they_fit():
    assert transfer_counts(masks([10]), 4, size.Explicit([1, 2, 7])).tolist() == [[1, 2, 7, 0]]
    with pytest.raises(ValueError, match=r"Argument .size. must take at most 2 steps, not 3[.]"):
        transfer_counts(masks([10]), 2, size.Explicit([1, 2, 7]))


def test_steps_at_which_nothing_happens_can_be_left_out():
    counts = transfer_counts(masks([10, 3]), 64, size.LogLinear, [1, 2])
    short = compact(counts)
    assert short.shape[1] <= 10
    assert torch.equal(short.sum(dim=1), counts.sum(dim=1))
    assert (short > 0).any(dim=0).all()


def generate(model, tokens, counts, mask):
    """LLaDA's loop at temperature 0 with low-confidence remasking, rewritten from its formulas."""
    tokens = tokens.clone()
    for step in range(counts.shape[1]):
        chances = torch.softmax(model(tokens), dim=-1)
        confidence, best = chances.max(dim=-1)
        confidence = confidence.masked_fill(tokens != mask, -torch.inf)
        for row in range(len(tokens)):
            where = confidence[row].topk(int(counts[row, step])).indices
            tokens[row, where] = best[row, where]
    return tokens


@pytest.mark.parametrize("chosen", [size.Cosine(4), size.ChenTC(5), size.Explicit([1, 2, 3, 6])], ids=repr)
def test_the_engine_s_loop_with_these_counts_is_our_sampler(chosen):
    model, mask = table_model(6, 12, 3, torch.float64), 6
    tokens = torch.full((3, 12), mask)
    counts = transfer_counts(tokens == mask, chosen.steps, chosen)
    trace = Sampler(Logits(model, 6, mask), Schedule(chosen, order.Confidence()), Greedy()).run(tokens, rng=[1, 2, 3])
    assert torch.equal(generate(model, tokens, counts, mask), trace.tokens)
    assert np.array_equal(counts, trace.sizes)


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        (
            (torch.ones(3), 2, size.Even),
            ValueError,
            "Argument 'mask_index' must hold booleans of shape (batch, length)",
        ),
        ((masks([3]), 0, size.Even), ValueError, "Argument 'steps' must be at least 1, not 0."),
        ((masks([3]), 2, size.TC), ValueError, "Argument 'generator' must be a torch.Generator, not None: TC draws"),
        (
            (masks([3]), 2, size.Threshold),
            ValueError,
            "Argument 'size' must make sizes that do not look at predictions",
        ),
    ],
)
def test_mistakes_are_answered_in_one_sentence(arguments, error, message):
    with pytest.raises(error) as caught:
        transfer_counts(*arguments)
    assert str(caught.value).startswith(message)

"""LLaDA's counts: the drop-in against a rewrite of the original, and inside a rewrite of its loop."""

from functools import partial

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from standins import llada_generate  # noqa: E402
from toy import table_model  # noqa: E402
from unmask import gauge, order, size  # noqa: E402
from unmask.adapters.llada import steps_of, transfer_counts  # noqa: E402
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


def test_a_loop_of_one_s_own_may_stop_before_the_steps_at_which_nothing_happens():
    counts = transfer_counts(masks([10, 3]), 64, size.LogLinear, [1, 2])
    assert counts.shape[1] == 64  # what the engine's loop reads, whatever is in it
    used = steps_of(counts)
    assert used <= 10
    assert torch.equal(counts[:, :used].sum(dim=1), counts.sum(dim=1))
    assert (counts[:, :used] > 0).any(dim=0).all()
    assert steps_of(torch.zeros((2, 3), dtype=torch.int64)) == 0


@pytest.mark.parametrize("family", FAMILIES, ids=lambda family: getattr(family, "__name__", repr(family)))
@pytest.mark.parametrize("remasking", ["low_confidence", "random"])
def test_the_engine_s_loop_runs_to_its_end_with_every_family(family, remasking):
    """It reads as many columns as it was told steps, whether or not anything is left to reveal."""
    model, mask = table_model(6, 11, 3, torch.float64), 6
    counts = partial(transfer_counts, size=family, generator=torch.Generator().manual_seed(0))
    options = {"steps": 12, "gen_length": 8, "block_length": 4, "mask": mask, "remasking": remasking}
    prompt = torch.tensor([[1, 2, 3], [4, 5, 0]])
    tokens, spent = llada_generate(model, prompt, counts, **options, rng=torch.Generator().manual_seed(1))
    assert spent == 12
    assert torch.equal(tokens[:, :3], prompt)
    assert not (tokens == mask).any()


@pytest.mark.parametrize("chosen", [size.Cosine(4), size.ChenTC(5), size.Explicit([1, 2, 3, 6])], ids=repr)
def test_the_engine_s_loop_with_these_counts_is_our_sampler(chosen):
    model, mask = table_model(6, 12, 3, torch.float64), 6
    tokens = torch.full((3, 12), mask)
    trace = Sampler(Logits(model, 6, mask), Schedule(chosen, order.Confidence()), Greedy()).run(tokens, rng=[1, 2, 3])
    tables = []

    def counts(mask_index, steps):
        tables.append(transfer_counts(mask_index, steps, chosen))
        return tables[-1]

    options = {"steps": chosen.steps, "gen_length": 12, "block_length": 12, "mask": mask}
    assert torch.equal(llada_generate(model, tokens[:, :0], counts, **options)[0], trace.tokens)
    assert np.array_equal(tables[0], trace.sizes)


def test_blocks_of_the_engine_are_blocks_of_our_sampler():
    model, mask = table_model(6, 11, 4, torch.float64), 6
    prompt = torch.tensor([[1, 2, 3], [4, 5, 0]])
    tokens = torch.nn.functional.pad(prompt, (0, 8), value=mask)
    schedule = Schedule(size.Cosine(3), order.Blocks(order.Confidence(), 4))
    wanted = Sampler(Logits(model, 6, mask), schedule, Greedy()).run(tokens, rng=[1, 2]).tokens
    counts = partial(transfer_counts, size=size.Cosine)
    options = {"steps": 6, "gen_length": 8, "block_length": 4, "mask": mask}
    assert torch.equal(llada_generate(model, prompt, counts, **options)[0], wanted)


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        (
            (torch.ones(3), 2, size.Even),
            ValueError,
            "Argument 'mask_index' must hold booleans of shape (batch, length)",
        ),
        ((masks([3]), 0, size.Even), ValueError, "Argument 'steps' must be at least 1, not 0."),
        ((masks([3]), 2, size.TC), ValueError, "Argument 'generator' must be a torch.Generator, not None, because TC"),
        (
            (masks([3]), 2, size.Threshold),
            ValueError,
            "Argument 'size' must be a blind size, or a function that makes one from a number of steps, "
            "not the class Threshold. Choose one that is known before the model runs, such as even sizes.",
        ),
        (
            (masks([3]), 2, str),
            ValueError,
            "Argument 'size' must be a blind size, or a function that makes one from a number of steps, "
            "but this function made a str.",
        ),
    ],
)
def test_mistakes_are_answered_in_one_sentence(arguments, error, message):
    with pytest.raises(error) as caught:
        transfer_counts(*arguments)
    assert str(caught.value).startswith(message)

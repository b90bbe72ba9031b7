"""dllm's sampler, made on a stand-in written from its contract (see `standins`)."""

from itertools import pairwise
from types import SimpleNamespace

import pytest

torch = pytest.importorskip("torch")

from standins import adapter  # noqa: E402
from unmask import order, size  # noqa: E402
from unmask.schedule import Schedule  # noqa: E402

VOCAB, MASK, END = 9, 8, 7
SCHEDULES = [
    Schedule(size.Even(3), order.Comb()),
    Schedule(size.TC(3), order.Random()),
    Schedule(size.Threshold(0.3), order.Confidence()),
]


class Model:
    """Logits from all real tokens of a row; padding must not matter."""

    device, config = torch.device("cpu"), SimpleNamespace(vocab_size=VOCAB)

    def __init__(self):
        self.embed = torch.randn((VOCAB, 5), generator=torch.Generator().manual_seed(0), dtype=torch.float64)
        self.out = torch.randn((5, VOCAB), generator=torch.Generator().manual_seed(1), dtype=torch.float64)

    def __call__(self, tokens, attention_mask):
        hidden = self.embed[tokens] * attention_mask[..., None]
        mean = hidden.sum(dim=1, keepdim=True) / attention_mask.sum(dim=1)[:, None, None]
        place = torch.arange(tokens.shape[1], dtype=torch.float64)[:, None]
        return SimpleNamespace(logits=torch.sin(3 * mean + hidden + place) @ self.out)


@pytest.fixture
def module(monkeypatch):
    return adapter(monkeypatch, "dllm")


def made(module):
    return module.UnmaskSampler(Model(), SimpleNamespace(mask_token_id=MASK, eos_token_id=END))


@pytest.mark.parametrize("schedule", SCHEDULES, ids=repr)
@pytest.mark.parametrize("shift", [False, True])
def test_prompts_of_different_lengths_are_continued_whatever_their_neighbours(module, schedule, shift):
    """Neighbours matter only through the width of the batch, from which a sequence's randomness is drawn."""
    options = {"schedule": schedule, "max_new_tokens": 6, "right_shift_logits": shift}
    config = module.UnmaskSamplerConfig(rng=[3, 4])
    first, second = (
        made(module).sample([prompt, torch.tensor([5])], config, **options) for prompt in ([1, 2, 3, 4], [6, 6, 0, 1])
    )
    assert first.shape == (2, 10)
    sampler = made(module)
    sampler.sample([[1, 2, 3, 4], [5]], config, **options)
    answers = first[0, 4:].tolist(), first[1, 1:7].tolist()
    assert sampler.counts.valid_tokens == sum([*answer, END].index(END) for answer in answers)
    assert 1 <= sampler.counts.evaluations <= 12
    assert sampler.counts.seconds > 0
    assert first[1].tolist() == second[1].tolist()
    assert first[0, :4].tolist() == [1, 2, 3, 4]
    assert first[1, 0] == 5
    assert (first[1, 7:] == END).all()
    assert not (first == MASK).any()


@pytest.mark.parametrize("schedule", SCHEDULES, ids=repr)
def test_infilling_touches_the_masks_and_keeps_a_history(module, schedule):
    rows = [[1, MASK, MASK, 2, MASK, MASK, MASK], [MASK, 3, MASK]]
    output = made(module).infill(rows, schedule=schedule, rng=[1, 2], return_dict=True, temperature=0.0)
    for row, given in enumerate(rows):
        found = output.sequences[row, : len(given)].tolist()
        assert all(old in (MASK, new) for old, new in zip(given, found, strict=True))
        assert MASK not in found
    left = [(step == MASK).sum().item() for step in output.histories]
    assert left[0] == 7
    assert left[-1] == 0
    assert all(a > b for a, b in pairwise(left))
    assert torch.equal(output.histories[-1], output.sequences)


def test_suppressed_tokens_are_never_drawn(module):
    options = {"schedule": SCHEDULES[0], "max_new_tokens": 20, "suppress_tokens": [0, 1, 2, 3]}
    drawn = made(module).sample([[4]] * 20, rng=list(range(20)), **options)[:, 1:]
    assert drawn.min() >= 4


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"rng": [1]}, "Argument 'schedule' must be given in the configuration."),
        ({"schedule": SCHEDULES[0]}, "Argument 'rng' must be given in the configuration."),
        (
            {"max_new_token": 4},
            "Argument 'config' must be a known name, not 'max_new_token'. Did you mean 'max_new_tokens'?",
        ),
        ({"max_new_tokens": 0}, "Argument 'max_new_tokens' must be at least 1, not 0."),
    ],
)
def test_mistakes_are_answered_in_one_sentence(module, options, message):
    with pytest.raises(ValueError) as caught:  # noqa: PT011 - the whole text is compared
        made(module).sample([[1]], **options)
    assert str(caught.value) == message

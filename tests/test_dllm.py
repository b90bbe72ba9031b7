"""dllm's sampler, made on a stand-in written from its contract (see `standins`)."""

import dataclasses
import sys
from itertools import pairwise
from types import SimpleNamespace

import pytest

torch = pytest.importorskip("torch")

import standins  # noqa: E402
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


class Tokenizer:
    mask_token_id, eos_token_id = MASK, END

    def __init__(self, size=VOCAB):
        self.size = size

    def __len__(self):
        return self.size


@pytest.fixture
def module(monkeypatch):
    return adapter(monkeypatch, "dllm")


def made(module):
    return module.UnmaskSampler(Model(), Tokenizer())


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


def test_the_names_of_before_february_2026_serve_as_well(monkeypatch):
    parts = standins.CONTENTS["dllm.core.samplers.base"]
    old = {"BaseSampler": parts["BaseSampler"], **{name[4:]: parts[name] for name in parts if name != "BaseSampler"}}
    assert set(old) == {"BaseSampler", "SamplerConfig", "SamplerOutput"}
    new = made(adapter(monkeypatch, "dllm")).sample([[1]], schedule=SCHEDULES[0], rng=[5], max_new_tokens=6)
    monkeypatch.setitem(standins.CONTENTS, "dllm.core.samplers.base", old)
    for name in [name for name in sys.modules if name.split(".")[0] == "dllm"]:
        monkeypatch.delitem(sys.modules, name)
    output = made(adapter(monkeypatch, "dllm")).sample(
        [[1]], schedule=SCHEDULES[0], rng=[5], max_new_tokens=6, return_dict=True
    )
    assert type(output) is old["SamplerOutput"]
    assert torch.equal(output.sequences, new)


def test_a_schedule_can_be_words_a_file_or_its_json(module, tmp_path):
    """The engine's evaluation makes the configuration from strings."""
    wanted = made(module).sample([[1, 2]], schedule=SCHEDULES[0], rng=[5], max_new_tokens=6)
    SCHEDULES[0].save(tmp_path / "schedule.json")
    for given in ("comb/even:3", tmp_path / "schedule.json", str(tmp_path / "schedule.json"), SCHEDULES[0].to_json()):
        assert torch.equal(made(module).sample([[1, 2]], schedule=given, rng=[5], max_new_tokens=6), wanted)


def test_the_engine_s_evaluation_makes_sampler_and_configuration_from_a_class_and_strings(module):
    """As `BaseEvalHarness` does: keywords for the sampler, the fields of the configuration one by one, ids in lists."""
    words = {"schedule": "comb/even:3", "max_new_tokens": 6, "pretrained": "a/b", "suppress_tokens": []}
    default = module.UnmaskSamplerConfig(rng=5)
    names = [each.name for each in dataclasses.fields(default)]
    config = type(default)(**{name: words.get(name, getattr(default, name)) for name in names})
    sampler = module.UnmaskSampler(model=Model(), tokenizer=Tokenizer())
    found = sampler.sample(inputs=[torch.tensor([1, 2])], config=config, return_dict=False)
    rng = torch.Generator().manual_seed(5)
    assert torch.equal(found, sampler.sample([[1, 2]], schedule=SCHEDULES[0], rng=rng, max_new_tokens=6))


def test_outputs_that_are_no_token_of_the_tokenizer_are_never_drawn(module):
    """Last layers are filled up to a round number, whatever the configuration calls the vocabulary."""

    class Padded(Model):
        config = SimpleNamespace(vocab_size=5)  # wrong on purpose: what counts is what comes out

        def __call__(self, tokens, attention_mask):
            logits = super().__call__(tokens, attention_mask).logits
            return SimpleNamespace(logits=torch.nn.functional.pad(logits, (0, 7), value=9.0))

    options = {"schedule": SCHEDULES[0], "max_new_tokens": 20, "rng": [1, 2]}
    found = module.UnmaskSampler(Padded(), Tokenizer()).sample([[4], [3]], **options)
    assert torch.equal(found, made(module).sample([[4], [3]], **options))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"rng": [1], "schedule": "comb/even:9", "max_new_tokens": 4},
            "Argument 'schedule' must be valid, but 'comb/even:9' is not: its steps must be at most the length 4, "
            "not 9. Every step reveals at least one token.",
        ),
        (
            {"rng": [1], "schedule": "comb"},
            "Argument 'schedule' must be the name of a schedule, or a file, not 'comb'. Give a Schedule, a file that "
            "holds one, or words such as 'comb/even:16'.",
        ),
        ({"rng": [1]}, "Argument 'schedule' must be set in the configuration."),
        ({"schedule": SCHEDULES[0]}, "Argument 'rng' must be set in the configuration."),
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


@pytest.mark.parametrize("name", ["mask_token_id", "eos_token_id"])
@pytest.mark.parametrize("method", ["sample", "infill"])
def test_a_tokenizer_without_a_mask_or_an_end_is_refused_in_one_sentence(module, method, name):
    tokenizer = Tokenizer()
    setattr(tokenizer, name, None)
    with pytest.raises(ValueError, match=rf"^Argument 'tokenizer' must have a token id in its attribute '{name}'[.]$"):
        getattr(module.UnmaskSampler(Model(), tokenizer), method)([[1, MASK]], schedule=SCHEDULES[0], rng=[1])

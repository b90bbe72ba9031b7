"""`model.generate(custom_generate=…)`: what our sampler writes, in the shape that transformers' callers expect."""

import pytest

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers", reason="models of Hugging Face need transformers")

from transformers import GenerationMixin, PretrainedConfig, PreTrainedModel  # noqa: E402
from transformers.modeling_outputs import CausalLMOutput  # noqa: E402

from unmask import order, size  # noqa: E402
from unmask._check import InputError  # noqa: E402
from unmask.adapters.transformers import Generate  # noqa: E402
from unmask.predict import Logits, Shifted, Suppressed  # noqa: E402
from unmask.sample import Counts, Sampler  # noqa: E402
from unmask.sample.draw import Categorical, Greedy, TopK, TopP  # noqa: E402
from unmask.schedule import Schedule  # noqa: E402

VOCAB, WIDE, MASK, END, PAD = 12, 16, 11, 10, 9
SCHEDULES = [
    Schedule(size.Even(4), order.Comb()),
    Schedule(size.TC(4), order.Random()),
    Schedule(size.Threshold(0.3), order.Confidence()),
    Schedule(size.Even(2), order.Blocks(order.Confidence(), 4)),
]
LAW = {"do_sample": True, "top_k": 0}


class Config(PretrainedConfig):
    model_type = "masked-and-generating"

    def __init__(self, mask_token_id=MASK, **others):
        super().__init__(**others)
        self.mask_token_id, self.vocab_size = mask_token_id, WIDE
        self.num_hidden_layers = 1


class Masked(PreTrainedModel, GenerationMixin):
    """Every token is told from all visible ones and their positions; the last outputs are no tokens."""

    config_class = Config
    main_input_name = "input_ids"

    def __init__(self, config):
        super().__init__(config)
        torch.manual_seed(0)
        self.embed, self.place = torch.nn.Embedding(WIDE, 8), torch.nn.Embedding(64, 8)
        self.out = torch.nn.Linear(8, WIDE)
        self.calls = []
        self.post_init()
        torch.manual_seed(1)
        for weights in self.parameters():
            torch.nn.init.normal_(weights)

    def forward(self, input_ids=None, attention_mask=None, position_ids=None, **others):
        self.calls.append(input_ids.shape)
        seen = torch.ones_like(input_ids) if attention_mask is None else attention_mask
        where = torch.arange(input_ids.shape[1])[None] if position_ids is None else position_ids
        hidden = (self.embed(input_ids) + self.place(where)) * seen[..., None]
        mean = hidden.sum(dim=1, keepdim=True) / seen.sum(dim=1)[:, None, None]
        return CausalLMOutput(logits=self.out(torch.sin(3 * mean + hidden)))

    def prepare_inputs_for_generation(self, input_ids, **kwargs):
        return {"input_ids": input_ids}


@pytest.fixture(scope="module")
def model():
    return Masked(Config(eos_token_id=None, pad_token_id=PAD)).eval()


def ours(model, schedule, tokens, seeds, draw=None, *, shifted=False, never=range(VOCAB, WIDE)):
    predictor = Logits(lambda tokens: model(input_ids=tokens), WIDE, MASK)
    predictor = Shifted(predictor) if shifted else predictor
    sampler = Sampler(Suppressed(predictor, list(never)), schedule, draw or Categorical())
    return sampler.run(tokens, rng=seeds).tokens


def padded(prompts, new):
    return torch.nn.functional.pad(torch.tensor(prompts), (0, new), value=MASK)


@pytest.mark.parametrize("schedule", SCHEDULES, ids=repr)
@pytest.mark.parametrize("shifted", [False, True])
def test_it_writes_what_our_sampler_writes_after_the_prompts(model, schedule, shifted):
    prompts = [[1, 2, 3], [4, 5, 6]]
    generate = Generate(schedule, rng=[7, 8], vocab=VOCAB, shifted=shifted)
    found = model.generate(torch.tensor(prompts), max_new_tokens=12, custom_generate=generate, **LAW)
    assert torch.equal(found, ours(model, schedule, padded(prompts, 12), [7, 8], shifted=shifted))


@pytest.mark.parametrize(
    ("options", "draw"),
    [
        ({}, Greedy()),
        ({"do_sample": False}, Greedy()),
        ({"do_sample": True}, TopK(50, 1.0)),
        (LAW, Categorical()),
        ({**LAW, "temperature": 0.7}, Categorical(0.7)),
        ({**LAW, "top_p": 0.8}, TopP(0.8, 1.0)),
        ({"do_sample": True, "top_k": 3, "temperature": 2.0}, TopK(3, 2.0)),
    ],
)
def test_tokens_are_drawn_as_the_options_of_generation_say(model, options, draw):
    schedule = SCHEDULES[0]
    generate = Generate(schedule, rng=[7, 8], vocab=VOCAB)
    found = model.generate(torch.tensor([[1], [2]]), max_new_tokens=12, custom_generate=generate, **options)
    assert torch.equal(found, ours(model, schedule, padded([[1], [2]], 12), [7, 8], draw))


def test_prompts_of_different_lengths_are_padded_on_the_left_and_do_not_see_it(model):
    """Another padding token gives the same answer: nothing looks at it. Positions count from the first real token."""
    mask = torch.tensor([[0, 0, 1, 1], [1, 1, 1, 1]])
    generate = Generate(SCHEDULES[0], rng=[7, 8], vocab=VOCAB)
    options = {"attention_mask": mask, "max_new_tokens": 8, "custom_generate": generate, **LAW}
    found = [model.generate(torch.tensor([[pad, pad, 3, 4], [1, 2, 3, 4]]), **options) for pad in (PAD, 0)]
    assert torch.equal(found[0][:, 2:], found[1][:, 2:])
    assert found[1][0, :4].tolist() == [0, 0, 3, 4]
    alone = {**options, "attention_mask": None, "custom_generate": Generate(SCHEDULES[0], rng=[8], vocab=VOCAB)}
    assert torch.equal(found[0][1:], model.generate(torch.tensor([[1, 2, 3, 4]]), **alone))
    # Where nothing is drawn, the shorter prompt's answer is also the one that it has alone.
    sure = Generate(Schedule(size.Even(4), order.Confidence()), rng=0, vocab=VOCAB)
    greedy = {"max_new_tokens": 8, "custom_generate": sure}
    both = model.generate(torch.tensor([[PAD, PAD, 3, 4], [1, 2, 3, 4]]), attention_mask=mask, **greedy)
    assert torch.equal(both[0, 2:], model.generate(torch.tensor([[3, 4]]), **greedy)[0])


def test_after_the_end_of_an_answer_stands_padding(model):
    generate = Generate(SCHEDULES[0], rng=0, vocab=VOCAB)
    prompts = torch.tensor([[END, 1]] * 40)
    plain = model.generate(prompts, max_new_tokens=8, custom_generate=generate, **LAW)
    found = model.generate(prompts, max_new_tokens=8, custom_generate=generate, eos_token_id=[END, 0], **LAW)
    assert torch.equal(found[:, :2], prompts)  # an end in the prompt is none of the answer
    wanted = plain.clone()
    for row in wanted:
        ends = [i for i in range(2, 10) if row[i] in (END, 0)]
        if ends:
            row[ends[0] + 1 :] = PAD
    assert torch.equal(found, wanted)
    assert not torch.equal(found, plain)
    # Neither the ends nor what comes after them counts, and no evaluation for it.
    valid = sum(next((i - 2 for i in range(2, 10) if row[i] in (END, 0)), 8) for row in plain)
    assert generate.counts.valid_tokens == valid < 8 * 40
    assert generate.counts.evaluations <= 4 * 40


def test_several_answers_to_a_prompt_differ_and_dictionaries_hold_the_sequences(model):
    generate = Generate("comb/even:4", rng=0, vocab=VOCAB)
    options = {"max_new_tokens": 8, "custom_generate": generate, **LAW}
    found = model.generate(
        torch.tensor([[1, 2]]), num_return_sequences=3, return_dict_in_generate=True, **options
    ).sequences
    assert found.shape == (3, 10)
    assert len({tuple(row) for row in found.tolist()}) == 3
    assert torch.equal(found[:1], model.generate(torch.tensor([[1, 2]]), **options))


def test_a_number_starts_anew_and_a_generator_goes_on(model):
    prompt = torch.tensor([[1, 2]])
    for rng, same in ((5, True), (torch.Generator().manual_seed(5), False)):
        generate = Generate(SCHEDULES[1], rng=rng, vocab=VOCAB)
        first, second = (model.generate(prompt, max_new_tokens=16, custom_generate=generate, **LAW) for _ in range(2))
        assert torch.equal(first, second) == same


def test_masks_of_the_prompt_are_filled_and_suppressed_tokens_never_drawn(model):
    generate = Generate(SCHEDULES[0], rng=0, vocab=VOCAB)
    prompts = torch.tensor([[1, MASK, 3]] * 20)
    never = [0, 1, 2, 3, 4]
    found = model.generate(prompts, max_new_tokens=6, custom_generate=generate, suppress_tokens=never, **LAW)
    drawn = torch.cat([found[:, 1:2], found[:, 3:]], dim=1)
    assert drawn.min() >= 5
    assert drawn.max() < MASK  # neither the mask nor what is no token
    assert torch.equal(found[:, [0, 2]], prompts[:, [0, 2]])


def test_evaluations_are_those_of_the_schedule(model):
    model.calls.clear()
    model.generate(torch.tensor([[1, 2]]), max_new_tokens=8, custom_generate=Generate("comb/even:4", rng=0), **LAW)
    assert model.calls == [(1, 1), *[(1, 10)] * 4]  # one token tells how wide the output is


def test_what_was_counted_is_that_of_the_last_call(model):
    generate = Generate("comb/even:4", rng=0, vocab=VOCAB)
    assert generate.counts == Counts()
    for rows in (3, 1):
        model.generate(torch.tensor([[1, 2]] * rows), max_new_tokens=8, custom_generate=generate, **LAW)
        assert (generate.counts.valid_tokens, generate.counts.evaluations) == (8 * rows, 4 * rows)
        assert generate.counts.seconds > 0


@pytest.mark.parametrize(
    ("settings", "options", "message"),
    [
        (
            {},
            {"num_beams": 3},
            "Argument 'num_beams' must be 1, not 3. A schedule cannot be combined with beam search.",
        ),
        (
            {},
            {"repetition_penalty": 1.2},
            "Argument 'logits_processor' must contain only parts that a schedule supports, not a "
            "RepetitionPenaltyLogitsProcessor.",
        ),
        (
            {},
            {"max_time": 3.0},
            "Argument 'stopping_criteria' must contain only parts that a schedule supports, not a MaxTimeCriteria.",
        ),
        (
            {},
            {"do_sample": True, "top_p": 0.5},
            "Argument 'top_p' must not be used with 'top_k'. To turn off 'top_k', which is 50 by default in "
            "transformers, pass top_k=0.",
        ),
        (
            {},
            {"attention_mask": torch.tensor([[1, 1], [1, 0]])},
            "Argument 'attention_mask' must end with ones. Padding must be on the left.",
        ),
        (
            {"schedule": "comb/even:9"},
            {},
            "Argument 'schedule' must be valid, but 'comb/even:9' is not: its steps must be at most the length 6, "
            "not 9. Every step reveals at least one token.",
        ),
    ],
)
def test_what_cannot_be_followed_is_refused_in_one_sentence(model, settings, options, message):
    generate = Generate(**{"schedule": "comb/even:2", "rng": 0, **settings})
    with pytest.raises(InputError) as caught:
        model.generate(torch.tensor([[1, 2], [3, 4]]), **{"max_new_tokens": 6, "custom_generate": generate, **options})
    assert str(caught.value) == message


def test_mistakes_of_the_callable_itself_are_found_when_it_is_made(model):
    for settings, message in (
        ({"schedule": "comb"}, "Argument 'schedule' must be the name of a schedule, or a file, not 'comb'."),
        ({"schedule": None}, "Argument 'schedule' must be a schedule, not None."),
        (
            {"rng": None},
            "Argument 'rng' must be a seed, a torch generator, a numpy generator, or a list of these, not None.",
        ),
        (
            {"rng": "x"},
            "Argument 'rng' must be a seed, a torch generator, a numpy generator, or a list of these, not 'x'.",
        ),
        ({"rng": [1, "x"]}, "Argument 'rng' must be"),
        ({"rng": -1}, "Argument 'rng' must be"),
        ({"mask": -1}, "Argument 'mask' must be at least 0, not -1."),
        ({"vocab": 0}, "Argument 'vocab' must be at least 1, not 0."),
    ):
        with pytest.raises(InputError) as caught:
            Generate(**{"schedule": "comb/even:2", "rng": 0, **settings})
        assert str(caught.value).startswith(message)
    with pytest.raises(InputError, match=r"^Pass this object as custom_generate to model[.]generate, "):
        Generate("comb/even:2", rng=0)(model, torch.tensor([[1]]))
    unmasked = Masked(Config(mask_token_id=None))
    with pytest.raises(InputError, match=r"^Argument 'mask' must be given[.] The model's configuration has no"):
        unmasked.generate(torch.tensor([[1]]), max_new_tokens=2, custom_generate=Generate("comb/even:2", rng=0))
    given = Generate("comb/even:2", rng=0, mask=MASK)
    assert unmasked.generate(torch.tensor([[1]]), max_new_tokens=2, custom_generate=given).shape == (1, 3)

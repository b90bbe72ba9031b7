"""SGLang's algorithm, in the loops of a stand-in written from its contract (see `standins`).

`real_sglang` runs all of this once more in the engine's own classes.
"""

from types import SimpleNamespace

import pytest

torch = pytest.importorskip("torch")

import importlib  # noqa: E402
from importlib.metadata import entry_points  # noqa: E402

from standins import adapter  # noqa: E402
from toy import table_model  # noqa: E402
from unmask import order, size  # noqa: E402
from unmask.predict import Logits  # noqa: E402
from unmask.sample import Counts, Sampler, seeds_of  # noqa: E402
from unmask.sample.draw import Categorical, Greedy, TopK, TopP  # noqa: E402
from unmask.schedule import Schedule  # noqa: E402

VOCAB, MASK, BLOCK = 6, 6, 8
REMEDY = "Give a Schedule, a file that holds one, or words such as 'comb/even:16'."
SCHEDULES = [
    Schedule(size.Even(3), order.Comb()),
    Schedule(size.TC(4), order.Random()),
    Schedule(size.EntropyBound(1.5), order.Entropy()),
    Schedule(size.Even(BLOCK), order.LeftToRight()),
]


@pytest.fixture
def module(monkeypatch):
    return adapter(monkeypatch, "sglang")


def algorithm(module, settings, fdfo=False):
    module.register()
    made = importlib.import_module("sglang.srt.dllm.config").DllmConfig
    config = made("Unmask", settings, BLOCK, MASK, 4, first_done_first_out_mode=fdfo)
    return module.registry.get_algorithm(config)


def batch(tokens, info=None, prompt=None):
    """The engine's own object for a batch of blocks; what only its kernels need is empty."""
    made = importlib.import_module("sglang.srt.model_executor.forward_batch_info").ForwardBatch
    none = torch.empty(0, dtype=torch.int64)
    found = made(
        forward_mode=None, batch_size=len(tokens), input_ids=tokens.flatten().clone(), req_pool_indices=none,
        seq_lens=none, out_cache_loc=none, seq_lens_sum=0, sampling_info=info,
    )  # fmt: skip
    if prompt is not None:  # the engine has it since 0.5.23
        found.dllm_prompt_mask = prompt
    return found


class Runner:
    """A model as the engine runs it."""

    def __init__(self, model):
        self.model, self.calls = model, 0

    def forward(self, batch, pp_proxy_tensors=None):
        self.calls += 1
        logits = self.model(batch.input_ids.view(batch.batch_size, BLOCK)).flatten(0, 1)
        return SimpleNamespace(logits_output=SimpleNamespace(full_logits=logits), can_run_graph=False)


def model():
    return table_model(VOCAB, BLOCK, 2, torch.float64)


def start():
    tokens = torch.full((3, BLOCK), MASK)
    tokens[0, :2], tokens[1, :5] = torch.tensor([1, 2]), torch.tensor([0, 3, 4, 5, 1])
    return tokens


@pytest.mark.parametrize("schedule", SCHEDULES, ids=repr)
@pytest.mark.parametrize("temperature", [0, 1.0])
def test_blocks_of_a_batch_are_filled_as_by_our_sampler(module, schedule, temperature):
    mine = algorithm(module, {"schedule": schedule.to_json(), "temperature": temperature, "seed": 4})
    blocks = batch(start())
    same_tensor = blocks.input_ids
    _, answers, _, _, _ = mine.run(Runner(model()), blocks)
    seeds = seeds_of(torch.Generator().manual_seed(4), 3)
    draw = Categorical() if temperature else Greedy()
    wanted = Sampler(Logits(model(), VOCAB, MASK), schedule, draw).run(start(), rng=seeds)
    assert blocks.input_ids is same_tensor
    assert torch.equal(blocks.input_ids.view(3, BLOCK), wanted.tokens)
    assert [row.tolist() for row in answers] == [
        row[k:].tolist() for row, k in zip(wanted.tokens, (2, 5, 0), strict=True)
    ]


@pytest.mark.parametrize("schedule", SCHEDULES, ids=repr)
def test_blocks_handed_back_one_by_one_are_the_same_whatever_their_neighbours(module, schedule):
    """Each block is carried by its own state; the batch changes as blocks finish and is shuffled on the way."""
    mine = algorithm(module, {"schedule": schedule.to_json(), "seed": 4}, fdfo=True)
    result = one_by_one(mine, start())
    seeds = seeds_of(torch.Generator().manual_seed(4), 3)
    wanted = Sampler(Logits(model(), VOCAB, MASK), schedule).run(start(), rng=seeds).tokens
    assert torch.equal(result, wanted)


def one_by_one(mine, tokens, infos=None):
    """The loop of a server that hands back each block as soon as it is done; the order changes in every round."""
    states, rows, result = None, list(range(len(tokens))), {}
    while rows:
        blocks = batch(tokens, None if infos is None else asked(*[infos[row] for row in rows]))
        _, found, kept, states, _ = mine.run(Runner(model()), blocks, states)
        result.update({row: found[i] for i, row in enumerate(rows) if kept[i]})
        left = [i for i in reversed(range(len(rows))) if not kept[i]]
        rows, states = [rows[i] for i in left], [states[i] for i in left]
        tokens = torch.tensor(found)[left]
    return torch.tensor([result[row] for row in sorted(result)])


def asked(*requests):
    """What the engine makes of temperature, top-p and top-k of its requests."""
    temperatures, top_ps, top_ks = zip(*requests, strict=True)
    return SimpleNamespace(
        temperatures=torch.tensor(temperatures)[:, None], top_ps=torch.tensor(top_ps),
        top_ks=torch.tensor(top_ks, dtype=torch.int32),
    )  # fmt: skip


ALL = 1 << 30
ASKED = [(0.7, 1.0, ALL), (1.0, 1.0, ALL), (1.0, 1.0, 1), (1.3, 0.8, ALL), (0.7, 1.0, 3)]
DRAWS = [Categorical(0.7), Categorical(0.5), Greedy(), TopP(0.8, 1.3), TopK(3, 0.7)]  # the second is as configured


@pytest.mark.parametrize("fdfo", [False, True])
@pytest.mark.parametrize("schedule", SCHEDULES[:3], ids=repr)
def test_each_request_is_drawn_at_its_own_temperature_top_p_and_top_k(module, schedule, fdfo):
    mine = algorithm(module, {"schedule": schedule.to_json(), "seed": 4, "temperature": 0.5}, fdfo)
    tokens = torch.full((5, BLOCK), MASK)
    if fdfo:
        found = one_by_one(mine, tokens, ASKED)
    else:
        blocks = batch(tokens, asked(*ASKED))
        mine.run(Runner(model()), blocks)
        found = blocks.input_ids.view(5, BLOCK)
    for row, (draw, seed) in enumerate(zip(DRAWS, seeds_of(torch.Generator().manual_seed(4), 5), strict=True)):
        wanted = Sampler(Logits(model(), VOCAB, MASK), schedule, draw).run(tokens[:1], rng=[seed])
        assert torch.equal(found[row], wanted.tokens[0])


def request(**changed):
    """A request as the engine's scheduler shows it; the first three are its defaults."""
    return SimpleNamespace(
        sampling_params=SimpleNamespace(**{"temperature": 1.0, "top_p": 1.0, "top_k": ALL, **changed})
    )


REFUSED = [
    ({"sampling_seed": 0}, "does not follow 'sampling_seed' of a request: leave it out, or use another one."),
    (
        {"min_p": 0.1, "regex": "a+"},
        "does not follow 'min_p', 'regex' of a request: leave them out, or use another one.",
    ),
    ({"logit_bias": {"3": 1.0}}, "does not follow 'logit_bias' of a request: leave it out, or use another one."),
    ({"top_p": 0.9, "top_k": 4}, "follows either 'top_p' or 'top_k' of a request: give one of them."),
]  # fmt: skip


@pytest.mark.parametrize(("changed", "sentence"), REFUSED)
def test_a_request_that_cannot_be_followed_is_refused_in_one_sentence(module, changed, sentence):
    assert module.Unmask.validate_request(request(**changed)) == f"The algorithm Unmask {sentence}"


@pytest.mark.parametrize(
    "changed", [{}, {"temperature": 0.3}, {"top_p": 0.5}, {"top_k": 7}, {"top_k": 1, "top_p": 0.9}]
)
def test_any_other_request_is_taken(module, changed):
    assert module.Unmask.validate_request(request(**changed)) is None


def test_a_block_is_done_only_when_an_evaluation_has_seen_its_last_tokens(module):
    """Three steps reveal everything; the fourth evaluation stores it."""
    runner = Runner(model())
    algorithm(module, {"schedule": SCHEDULES[0].to_json()}).run(runner, batch(torch.full((2, BLOCK), MASK)))
    assert runner.calls == 4


@pytest.mark.parametrize("fdfo", [False, True])
def test_counts_are_those_of_our_sampler_and_one_evaluation_more_for_each_block(module, fdfo):
    """By the common rule: nothing after the end token counts, nor does the end itself."""
    mine = algorithm(module, {"schedule": SCHEDULES[2].to_json(), "seed": 4, "end": 2}, fdfo)
    for _ in range(2):
        mine.rng.manual_seed(4)
        if fdfo:
            one_by_one(mine, start())
        else:
            mine.run(Runner(model()), batch(start()))
    seeds = seeds_of(torch.Generator().manual_seed(4), 3)
    wanted = Sampler(Logits(model(), VOCAB, MASK), SCHEDULES[2]).run(start(), rng=seeds).until(2).counts
    assert wanted.valid_tokens < int((start() == MASK).sum())
    twice = wanted + wanted + Counts(0, 6)
    assert (mine.counts.valid_tokens, mine.counts.evaluations) == (twice.valid_tokens, twice.evaluations)
    assert mine.counts.seconds > 0


def test_a_mask_in_the_prompt_is_left_alone(module):
    mine = algorithm(module, {"schedule": SCHEDULES[0].to_json()})
    blocks = batch(torch.full((1, BLOCK), MASK), prompt=torch.arange(BLOCK)[None] == 1)
    mine.run(Runner(model()), blocks)
    assert torch.nonzero(blocks.input_ids == MASK)[:, 0].tolist() == [1]


def test_a_schedule_may_come_from_a_file(module, tmp_path):
    SCHEDULES[1].save(tmp_path / "schedule.json")
    assert algorithm(module, {"schedule": str(tmp_path / "schedule.json")}).hosted.schedule == SCHEDULES[1]


def test_a_schedule_may_be_words(module):
    found = [algorithm(module, {"schedule": words}).hosted.schedule for words in ("comb/even:4", "fast-dllm")]
    assert found == [Schedule(size.Even(4), order.Comb()), Schedule(size.Threshold(0.9), order.Confidence())]


def test_the_package_declares_the_plugin():
    (found,) = entry_points(group="sglang.srt.plugins", name="unmask")
    assert found.value == "unmask.adapters.sglang:register"


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (None, f"Argument 'schedule' must be a schedule, not None. {REMEDY}"),
        (
            {"schedule": "none.json"},
            "Argument 'schedule' must be the name of an existing file, not 'none.json'. " + REMEDY,
        ),
        (
            {"shedule": {}},
            "Argument 'dllm-algorithm-config' must be a known name, not 'shedule'. Did you mean 'schedule'?",
        ),
    ],
)
def test_mistakes_are_answered_in_one_sentence(module, settings, message):
    with pytest.raises(ValueError) as caught:  # noqa: PT011 - the whole text is compared
        algorithm(module, settings)
    assert str(caught.value) == message

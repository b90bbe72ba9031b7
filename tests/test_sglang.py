"""SGLang's algorithm, in the loops of a stand-in written from its contract (see `standins`)."""

from types import SimpleNamespace

import pytest

torch = pytest.importorskip("torch")

from importlib.metadata import entry_points  # noqa: E402

from standins import adapter  # noqa: E402
from toy import table_model  # noqa: E402
from unmask import order, size  # noqa: E402
from unmask.predict import Logits  # noqa: E402
from unmask.sample import Sampler, seeds_of  # noqa: E402
from unmask.sample.draw import Categorical, Greedy  # noqa: E402
from unmask.schedule import Schedule  # noqa: E402

VOCAB, MASK, BLOCK = 6, 6, 8
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
    config = SimpleNamespace(block_size=BLOCK, mask_id=MASK, first_done_first_out_mode=fdfo, algorithm_config=settings)
    return module.registry.algo_name_to_cls["Unmask"](config)


def batch(tokens):
    return SimpleNamespace(batch_size=len(tokens), input_ids=tokens.flatten().clone(), dllm_prompt_mask=None)


def forward(model):
    return lambda batch: model(batch.input_ids.view(batch.batch_size, BLOCK)).flatten(0, 1)


def start():
    tokens = torch.full((3, BLOCK), MASK)
    tokens[0, :2], tokens[1, :5] = torch.tensor([1, 2]), torch.tensor([0, 3, 4, 5, 1])
    return tokens


@pytest.mark.parametrize("schedule", SCHEDULES, ids=repr)
@pytest.mark.parametrize("temperature", [0, 1.0])
def test_blocks_of_a_batch_are_filled_as_by_our_sampler(module, schedule, temperature):
    model = table_model(VOCAB, BLOCK, 2, torch.float64)
    mine = algorithm(module, {"schedule": schedule.to_json(), "temperature": temperature, "seed": 4})
    blocks = batch(start())
    same_tensor = blocks.input_ids
    mine.run(forward(model), blocks)
    seeds = seeds_of(torch.Generator().manual_seed(4), 3)
    draw = Categorical() if temperature else Greedy()
    wanted = Sampler(Logits(model, VOCAB, MASK), schedule, draw).run(start(), rng=seeds)
    assert blocks.input_ids is same_tensor
    assert torch.equal(blocks.input_ids.view(3, BLOCK), wanted.tokens)


@pytest.mark.parametrize("schedule", SCHEDULES, ids=repr)
def test_blocks_handed_back_one_by_one_are_the_same_whatever_their_neighbours(module, schedule):
    """Each block is carried by its own state; the batch changes as blocks finish and is shuffled on the way."""
    model = table_model(VOCAB, BLOCK, 2, torch.float64)
    mine = algorithm(module, {"schedule": schedule.to_json(), "seed": 4}, fdfo=True)
    tokens, states, open_rows, result = start(), None, [0, 1, 2], {}
    while open_rows:
        blocks = batch(tokens)
        states, done = mine.run(forward(model), blocks, states)
        tokens = blocks.input_ids.view(-1, BLOCK)
        result.update({row: tokens[i] for i, row in enumerate(open_rows) if done[i]})
        left = [i for i in reversed(range(len(done))) if not done[i]]
        open_rows, states = [open_rows[i] for i in left], [states[i] for i in left]
        tokens = tokens[left]
    seeds = seeds_of(torch.Generator().manual_seed(4), 3)
    wanted = Sampler(Logits(model, VOCAB, MASK), schedule).run(start(), rng=seeds).tokens
    assert torch.equal(torch.stack([result[row] for row in range(3)]), wanted)


def test_a_block_is_done_only_when_an_evaluation_has_seen_its_last_tokens(module):
    """Three steps reveal everything; the fourth evaluation stores it."""
    calls = []
    model = table_model(VOCAB, BLOCK, 2, torch.float64)
    mine = algorithm(module, {"schedule": SCHEDULES[0].to_json()})
    mine.run(lambda blocks: calls.append(1) or forward(model)(blocks), batch(torch.full((2, BLOCK), MASK)))
    assert len(calls) == 4


def test_a_mask_in_the_prompt_is_left_alone(module):
    mine = algorithm(module, {"schedule": SCHEDULES[0].to_json()})
    blocks = batch(torch.full((1, BLOCK), MASK))
    blocks.dllm_prompt_mask = torch.arange(BLOCK)[None] == 1
    mine.run(forward(table_model(VOCAB, BLOCK, 2, torch.float64)), blocks)
    assert torch.nonzero(blocks.input_ids == MASK)[:, 0].tolist() == [1]


def test_a_schedule_may_come_from_a_file(module, tmp_path):
    SCHEDULES[1].save(tmp_path / "schedule.json")
    assert algorithm(module, {"schedule": str(tmp_path / "schedule.json")}).hosted.schedule == SCHEDULES[1]


def test_the_package_declares_the_plugin():
    (found,) = entry_points(group="sglang.srt.plugins", name="unmask")
    assert found.value == "unmask.adapters.sglang:register"


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (None, "Argument 'schedule' must be given in the algorithm's configuration: an object, or a file name."),
        ({"schedule": "none.json"}, "Argument 'schedule' must name a file to read, which 'none.json' is not."),
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

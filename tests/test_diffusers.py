"""The diffusers scheduler, run by the real `LLaDA2Pipeline` on a tiny random model."""

import dataclasses
import inspect
import re

import pytest

torch = pytest.importorskip("torch")
diffusers = pytest.importorskip("diffusers", reason="the engine of this adapter: pip install 'unmask[diffusers]'")
transformers = pytest.importorskip("transformers", reason="LLaDA2Pipeline needs it: pip install 'unmask[diffusers]'")
if not hasattr(diffusers, "LLaDA2Pipeline"):
    pytest.skip("diffusers before 0.38 has no LLaDA2Pipeline", allow_module_level=True)

from unmask import gauge, order, size  # noqa: E402
from unmask.adapters.diffusers import UnmaskingScheduler, UnmaskingSchedulerOutput  # noqa: E402
from unmask.predict import Logits  # noqa: E402
from unmask.sample import Counts, Sampler  # noqa: E402
from unmask.sample.draw import Categorical, Greedy  # noqa: E402
from unmask.schedule import Schedule  # noqa: E402

VOCAB, MASK, BLOCK = 24, 23, 16


@pytest.fixture(scope="module")
def model():
    config = transformers.BertConfig(
        vocab_size=VOCAB, hidden_size=16, num_hidden_layers=1, num_attention_heads=2, intermediate_size=16,
        max_position_embeddings=64, initializer_range=0.5,
    )  # fmt: skip
    with torch.random.fork_rng():
        torch.manual_seed(0)
        return transformers.BertForMaskedLM(config).eval()


def pipeline(model, schedule):
    pipe = diffusers.LLaDA2Pipeline(model=model, scheduler=UnmaskingScheduler(schedule, block_length=BLOCK))
    pipe.set_progress_bar_config(disable=True)
    return pipe


def run(pipe, prompt=None, new=2 * BLOCK, rows=2, **options):
    """Generate, and count what every step of every block revealed: a list of blocks of lists of sizes per row."""
    prompt = torch.zeros((rows, 0), dtype=torch.long) if prompt is None else prompt
    blocks = []

    def record(pipe, number, step, tensors):
        if step == 0:
            blocks.append([])
        blocks[-1].append(tensors["transfer_index"].sum(dim=1).tolist())
        return {}

    result = pipe(
        input_ids=prompt, gen_length=new, block_length=BLOCK, mask_token_id=MASK, output_type="seq",
        eos_early_stop=False, callback_on_step_end=record, callback_on_step_end_tensor_inputs=["transfer_index"],
        **options,
    )  # fmt: skip
    return result.sequences, [torch.tensor(block).T.tolist() for block in blocks]


PLANNED = [size.Even(5), size.Ceil(6), size.Cosine(4), size.ChenTC(6), size.Explicit([1, 2, 5, 8]), size.Even(16)]
DRAWN = [size.LogLinear(8), size.TC(5), size.DTC(5), size.Minimax(4, gauge.tc), size.Universal(4), size.Offset(3)]
REACTIVE = [size.Threshold(0.2), size.Factor(3.0), size.EntropyBound(4.0), size.AtMost(size.EntropyBound(9.0), 3)]


@pytest.mark.parametrize("chosen", PLANNED, ids=repr)
@pytest.mark.parametrize("which", [order.Random(), order.Comb(), order.Confidence()], ids=repr)
def test_the_pipeline_reveals_the_planned_sizes_at_every_step(model, chosen, which):
    tokens, blocks = run(pipeline(model, Schedule(chosen, which)), generator=torch.Generator().manual_seed(0))
    wanted = [int(count) for count in chosen.sizes(BLOCK) if count]
    assert blocks == [[wanted, wanted]] * 2
    assert not (tokens == MASK).any()


def ours(model, schedule, prompt, new, rng, draw):
    """The same blocks with our own sampler, given what comes before them: tokens, and the sizes of every block."""
    rows, given = prompt.shape
    tokens = torch.cat([prompt, torch.full((rows, new), MASK)], dim=1)
    blocks = []
    for start in range(given // BLOCK * BLOCK, given + new, BLOCK):

        def logits(block, context=tokens[:, :start]):
            return model(torch.cat([context, block], dim=1)).logits[:, context.shape[1] :]

        sampler = Sampler(Logits(logits, VOCAB, MASK, whole=True), schedule, draw)
        trace = sampler.run(tokens[:, start : start + BLOCK], rng=rng)
        tokens[:, start : start + BLOCK] = trace.tokens
        blocks.append(trace.sizes.tolist())
    return tokens[:, given:], blocks


@pytest.mark.parametrize("chosen", [*DRAWN, *REACTIVE], ids=repr)
@pytest.mark.parametrize("which", [order.Random(), order.Entropy()], ids=repr)
@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_the_pipeline_does_what_our_sampler_does_block_by_block(model, chosen, which, temperature):
    schedule = Schedule(chosen, which)
    prompt = torch.tensor([[3, 1, 4], [1, 5, 9]])
    new = 2 * BLOCK - 3  # the first block holds the prompt
    tokens, blocks = run(
        pipeline(model, schedule), prompt, new, temperature=temperature, generator=torch.Generator().manual_seed(1)
    )
    draw = Categorical() if temperature else Greedy()
    same, sizes = ours(model, schedule, prompt, new, torch.Generator().manual_seed(1), draw)
    assert torch.equal(tokens, same)
    assert blocks == sizes


@pytest.mark.parametrize("name", ["set_timesteps", "step", "check_eos_finished", "check_block_should_continue"])
def test_the_scheduler_takes_all_that_the_engine_gives_its_own(name):
    """Names and signatures of the installed engine: whatever its scheduler can be given by name, ours can."""
    theirs = inspect.signature(getattr(diffusers.BlockRefinementScheduler, name)).parameters
    mine = inspect.signature(getattr(UnmaskingScheduler(Schedule(size.Even(4), order.Comb())), name))
    mine.bind(**{each: None for each in theirs if each != "self"})


def test_a_step_answers_with_all_that_the_engine_s_own_answers_with():
    source = inspect.getmodule(diffusers.BlockRefinementScheduler)
    theirs, mine = (
        [field.name for field in dataclasses.fields(output)]
        for output in (source.BlockRefinementSchedulerOutput, UnmaskingSchedulerOutput)
    )
    assert mine[: len(theirs)] == theirs
    pipeline = inspect.getsource(diffusers.LLaDA2Pipeline.__call__)
    read = set(re.findall(r"scheduler_output\.(\w+)", pipeline)) | set(re.findall(r"self\.scheduler\.(\w+)", pipeline))
    assert {"prev_sample", "transfer_index", "step", "set_timesteps"} <= read
    assert [name for name in read if name not in mine and not hasattr(UnmaskingScheduler, name)] == []


def test_counts_are_those_of_our_sampler_block_by_block(model):
    schedule = Schedule(size.EntropyBound(4.0), order.Entropy())
    pipe, prompt = pipeline(model, schedule), torch.tensor([[3, 1, 4], [1, 5, 9]])
    for seed in (1, 2):  # those of the last generation alone
        run(pipe, prompt, 2 * BLOCK - 3, temperature=1.0, generator=torch.Generator().manual_seed(seed))
    _, blocks = ours(model, schedule, prompt, 2 * BLOCK - 3, torch.Generator().manual_seed(2), Categorical())
    evaluations = sum(size > 0 for block in blocks for row in block for size in row)
    assert pipe.scheduler.counts == Counts(2 * (2 * BLOCK - 3), evaluations)
    assert pipe.scheduler.counts.seconds > 0
    pipe.scheduler.set_timesteps()
    assert pipe.scheduler.counts == Counts()


@pytest.mark.parametrize("seed", [0, 2, 3, 5])  # no end at the very first place, which diffusers 0.38 overlooked
def test_rows_that_ended_cost_nothing_more_and_count_up_to_their_end(model, seed):
    """The rows of a batch end in different places; each counts as much as it does alone."""
    schedule = Schedule(size.Even(5), order.LeftToRight())
    options = {"gen_length": 4 * BLOCK, "block_length": BLOCK, "mask_token_id": MASK, "eos_token_id": 22,
               "temperature": 1.0, "output_type": "seq"}  # fmt: skip
    start, seeds = torch.zeros((3, 0), dtype=torch.long), torch.Generator().manual_seed(seed)
    pipe = pipeline(model, schedule)
    found = pipe(input_ids=start, generator=seeds, **options).sequences
    written, evaluations = 0, 0
    for row in found.tolist():
        end = [*row, 22].index(22)
        written += end
        # Left to right, 4, 3, 3, 3 and 3 tokens a step: up to the one that wrote the end.
        last = min(end, len(row) - 1)
        evaluations += 5 * (last // BLOCK) + sum(last % BLOCK >= first for first in (0, 4, 7, 10, 13))
    assert pipe.scheduler.counts == Counts(written, evaluations)
    assert written < found.numel()


def test_a_schedule_may_be_words_or_a_file_and_is_saved_as_itself(tmp_path):
    comb = Schedule(size.Even(4), order.Comb())
    comb.save(tmp_path / "schedule.json")
    for given in ("comb/even:4", str(tmp_path / "schedule.json"), comb.to_json()):
        made = UnmaskingScheduler(given, block_length=BLOCK)
        made.save_pretrained(tmp_path / "saved")
        assert UnmaskingScheduler.from_pretrained(tmp_path / "saved").schedule == made.schedule == comb
    with pytest.raises(ValueError, match="Argument 'schedule' must be the name of a schedule, or a file, not 'cmob'"):
        UnmaskingScheduler("cmob")


def test_an_evaluation_is_paid_for_each_step_and_no_other(model):
    calls = []
    handle = model.register_forward_hook(lambda *_: calls.append(1))
    run(pipeline(model, Schedule(size.Even(5), order.Comb())))
    handle.remove()
    assert len(calls) == 10


@pytest.mark.skipif(not hasattr(diffusers, "EntropyBoundScheduler"), reason="this diffusers has no rule of its own")
@pytest.mark.parametrize("bound", [0.0, 0.5, 2.0, 5.0, 50.0])
def test_the_entropy_bound_accepts_what_the_engine_s_own_accepts(bound):
    """Step by step: the engine's rule is asked about the positions that are still masked."""
    theirs = diffusers.EntropyBoundScheduler(entropy_bound=bound, t_max=1.0, t_min=1.0)
    for seed in range(10):
        rng = torch.Generator().manual_seed(seed)
        mine = UnmaskingScheduler(Schedule(size.EntropyBound(bound), order.Entropy()), block_length=BLOCK)
        tokens, step = torch.full((1, BLOCK), VOCAB), 0
        while (tokens == VOCAB).any():
            logits = 2 * torch.randn((1, BLOCK, VOCAB), generator=rng)
            left = torch.nonzero(tokens[0] == VOCAB)[:, 0]
            answer = mine.step(logits, step, tokens, mask_token_id=VOCAB, temperature=1.0, generator=rng)
            wanted = theirs.step(logits[:, left], 0, tokens[:, left], generator=rng).accepted_index[0]
            assert torch.equal(torch.nonzero(answer.transfer_index[0])[:, 0], left[wanted])
            tokens, step = answer.prev_sample, step + 1


def test_even_sizes_by_confidence_are_the_engine_s_own_scheduler(model):
    """Greedy, quotas forced by a threshold above 1, no editing: the same tokens."""
    pipe = diffusers.LLaDA2Pipeline(model=model, scheduler=diffusers.BlockRefinementScheduler(block_length=BLOCK))
    pipe.set_progress_bar_config(disable=True)
    # The engine may draw the mask, which ours may not: a bias keeps it from doing so.
    with torch.no_grad():
        kept = model.cls.predictions.bias.clone()
        model.cls.predictions.bias[MASK] = -1e4
        theirs, _ = run(pipe, num_inference_steps=5, threshold=2.0, editing_threshold=None)
        mine, _ = run(pipeline(model, Schedule(size.Even(5), order.Confidence())))
        model.cls.predictions.bias.copy_(kept)
    assert torch.equal(mine, theirs)


@pytest.mark.parametrize(
    "chosen", [size.Minimax(4, gauge.both), size.EntropyBound(0.5), size.Explicit([1, 15])], ids=repr
)
def test_a_scheduler_is_saved_and_loaded_like_any_other(tmp_path, chosen):
    saved = UnmaskingScheduler(Schedule(chosen, order.Blocks(order.Comb(2), 8)), block_length=8)
    saved.save_pretrained(tmp_path)
    loaded = UnmaskingScheduler.from_pretrained(tmp_path)
    assert loaded.schedule == saved.schedule
    assert loaded.config.block_length == 8
    assert UnmaskingScheduler.from_config(saved.config).schedule == saved.schedule


def test_a_pipeline_is_saved_and_loaded_with_its_scheduler(tmp_path, model):
    pipe = pipeline(model, Schedule(size.TC(4), order.Random()))
    pipe.save_pretrained(tmp_path)
    loaded = diffusers.LLaDA2Pipeline.from_pretrained(tmp_path)
    loaded.set_progress_bar_config(disable=True)
    assert loaded.scheduler.schedule == pipe.scheduler.schedule
    first, second = (run(p, generator=torch.Generator().manual_seed(2), temperature=1.0) for p in (pipe, loaded))
    assert torch.equal(first[0], second[0])
    assert first[1] == second[1]


class Ending(torch.nn.Module):
    """A model that ends every sequence at its second position."""

    device, dtype = torch.device("cpu"), torch.float32

    def forward(self, tokens, attention_mask, position_ids):
        logits = torch.nn.functional.one_hot(torch.where(position_ids == 0, 3, 7), VOCAB).float()
        return transformers.modeling_outputs.MaskedLMOutput(logits=50 * logits)


def test_the_pipeline_stops_when_every_sequence_has_ended():
    model, calls = Ending(), []
    model.register_forward_hook(lambda *_: calls.append(1))
    pipe = pipeline(model, Schedule(size.Even(BLOCK), order.LeftToRight()))
    result = pipe(
        input_ids=torch.zeros((1, 0), dtype=torch.long), gen_length=BLOCK, block_length=BLOCK,
        mask_token_id=MASK, eos_token_id=7, output_type="seq",
    )  # fmt: skip
    assert len(calls) == 2
    assert result.sequences[0, :2].tolist() == [3, 7]
    assert pipe.scheduler.counts == Counts(1, 2)


def test_what_the_host_filled_itself_is_not_revealed_again():
    mine = UnmaskingScheduler(Schedule(size.Even(4), order.LeftToRight()), block_length=8)
    logits, tokens = torch.zeros((1, 8, 4)), torch.full((1, 8), 4)
    tokens = mine.step(logits, 0, tokens, mask_token_id=4).prev_sample
    tokens[0, 2:4] = 3
    answer = mine.step(logits, 1, tokens, mask_token_id=4)
    assert torch.nonzero(answer.transfer_index[0])[:, 0].tolist() == [4, 5]
    assert answer.prev_sample[0, 2:4].tolist() == [3, 3]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"mask_token_id": None},
            "Argument 'mask_token_id' must be a token id, not None. Pass the token id of the model's mask token",
        ),
        ({"sampling_method": "gready"}, "Argument 'sampling_method' must be a known name, not 'gready'. "),
        ({"temperature": -1.0}, "Argument 'temperature' must be at least 0, not -1."),
        ({"temperature": 1.0, "top_p": 0.9, "top_k": 3}, "Argument 'top_p' must not be used with 'top_k'. "),
    ],
)
def test_mistakes_are_answered_in_one_sentence(options, message):
    mine = UnmaskingScheduler(Schedule(size.Even(4), order.Comb()))
    with pytest.raises(ValueError, match=message.replace(".", "[.]")):
        mine.step(torch.zeros((1, 8, 4)), 0, torch.full((1, 8), 4), **{"mask_token_id": 4, **options})

"""Dream's tokens hook, in a stand-in for its loop written from its contract (see `standins`)."""

import pytest

torch = pytest.importorskip("torch")

from standins import Dream  # noqa: E402
from toy import table_model  # noqa: E402
from unmask import gauge, order, size  # noqa: E402
from unmask.adapters.dream import TokensHook  # noqa: E402
from unmask.predict import Logits, Shifted  # noqa: E402
from unmask.sample import Sampler  # noqa: E402
from unmask.sample.draw import Categorical, Greedy  # noqa: E402
from unmask.schedule import Schedule  # noqa: E402

VOCAB, MASK, LENGTH = 6, 6, 14


SCHEDULES = [
    Schedule(size.Even(4), order.Comb()),
    Schedule(size.TC(4), order.Random()),
    Schedule(size.Minimax(3, gauge.tc), order.Entropy()),
    Schedule(size.LogLinear(5), order.Random()),
    Schedule(size.EntropyBound(2.0), order.Entropy()),
    Schedule(size.Threshold(0.5), order.Confidence()),
    Schedule(size.Even(2), order.Blocks(order.Random(), 4)),
]


@pytest.mark.parametrize("schedule", SCHEDULES, ids=repr)
@pytest.mark.parametrize("draw", [Categorical(), Greedy()], ids=repr)
def test_the_hook_replaces_the_engine_s_reveal_by_our_sampler(schedule, draw):
    model = table_model(VOCAB, LENGTH, 1, torch.float64)
    start = torch.full((2, LENGTH), MASK)
    start[:, :3] = torch.tensor([[1, 2, 3], [0, 0, 5]])
    hook = TokensHook(schedule, MASK, [5, 6], draw, end=2)
    steps = hook.steps(LENGTH - 3)
    wanted = Sampler(Shifted(Logits(model, VOCAB, MASK)), schedule, draw).run(start, rng=[5, 6])
    for _ in range(2):  # a hook starts anew with every generation
        engine = Dream(model, MASK)
        options = {"max_new_tokens": LENGTH - 3, "steps": steps, "generation_tokens_hook_func": hook}
        assert torch.equal(engine.diffusion_generate(start[:, :3], **options), wanted.tokens)
        assert engine.evaluations == steps
        assert hook.counts == wanted.until(2).counts
        assert hook.counts.seconds > 0


def test_steps_are_those_of_the_schedule_and_no_more():
    assert TokensHook(SCHEDULES[0], MASK, [0]).steps(11) == 4
    assert TokensHook(SCHEDULES[0], MASK, [0]).steps(3) == 3
    assert TokensHook(SCHEDULES[4], MASK, [0]).steps(11) == 11
    assert TokensHook(SCHEDULES[6], MASK, [0]).steps(9) == 2 + 2 + 1


def test_a_hook_that_did_not_see_the_start_says_so():
    with pytest.raises(ValueError, match="Argument 'step' must be None at the first call"):
        TokensHook(SCHEDULES[0], MASK, [0])(0, torch.full((1, 4), MASK), torch.zeros((1, 4, VOCAB)))

"""Approximate caches: exact when they compute everything, and otherwise what their authors' loops compute."""

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from unmask import order, size  # noqa: E402
from unmask._check import InputError  # noqa: E402
from unmask.evaluate.likelihood import replay  # noqa: E402
from unmask.models.caches import Cached, Delayed, Dual, Prefix  # noqa: E402
from unmask.models.causal import CausalConfig  # noqa: E402
from unmask.models.transformer import Config  # noqa: E402
from unmask.predict import Counted, Places  # noqa: E402
from unmask.sample import Sampler, Verified  # noqa: E402
from unmask.sample.agenda import planned_steps  # noqa: E402
from unmask.sample.draw import Replay  # noqa: E402
from unmask.schedule import Schedule  # noqa: E402
from unmask.sequences import Sequences  # noqa: E402

LENGTH, BLOCK, VOCAB = 18, 4, 5
SIZES = {"even": size.Even(3), "log-linear": size.LogLinear(4)}
BLIND = {"comb": order.Comb(), "random": order.Random(), "left-to-right": order.LeftToRight()}


@pytest.fixture(scope="module")
def network():
    torch.manual_seed(0)
    shape = {"width": 16, "layers": 3, "readers": 2, "heads": 2, "hidden": 24, "reader_hidden": 24}
    # Large weights: fresh ones hardly look at their neighbours, and any cache would do.
    made = Config(VOCAB, LENGTH, **shape).network().double().eval()
    with torch.no_grad():
        for parameter in made.parameters():
            parameter.mul_(2.0)
    return made


def texts(count=4, seed=0, prompt=0):
    tokens = torch.from_numpy(np.random.default_rng(seed).integers(VOCAB, size=(count, LENGTH)))
    return tokens, torch.arange(LENGTH).expand(count, -1) >= prompt


class Slow:
    """The network position by position, in numpy, with a table of keys and values that is written where it is told."""

    def __init__(self, network):
        self.weight = {name: value.numpy() for name, value in network.state_dict().items()}
        config = network.config
        self.layers, self.readers, self.heads = config.layers, config.readers, config.heads
        self.half = config.width // config.heads // 2

    def turned(self, x, place):
        angle = place * 10_000.0 ** (-np.arange(self.half) / self.half)
        first, second = x.reshape(self.heads, 2, self.half).swapaxes(0, 1)
        cos, sin = np.cos(angle), np.sin(angle)
        return np.concatenate([first * cos - second * sin, second * cos + first * sin], axis=1)

    def normed(self, name, x):
        return x / np.sqrt((x**2).mean() + np.finfo(np.float64).eps) * self.weight[f"{name}.weight"]

    def fed(self, name, x):
        gate, up = np.split(self.weight[f"{name}.feed.gate_up.weight"] @ self.normed(f"{name}.feed.norm", x), 2)
        return x + self.weight[f"{name}.feed.down.weight"] @ (gate / (1 + np.exp(-gate)) * up)

    def mixed(self, query, table):
        keys, values = (np.stack([table[place][part] for place in sorted(table)]) for part in (0, 1))
        score = np.einsum("hd,lhd->hl", query, keys) / np.sqrt(2 * self.half)
        share = np.exp(score - score.max(axis=1, keepdims=True))
        return np.einsum("hl,lhd->hd", share / share.sum(axis=1, keepdims=True), values).ravel()

    def advance(self, tokens, places, tables):
        """Take places through the layers and write their keys and values; their states."""
        x = {place: self.weight["embed.weight"][tokens[place]] for place in places}
        for number in range(self.layers):
            name, queries = f"layers.{number}", {}
            for place in places:
                joint = self.weight[f"{name}.qkv.weight"] @ self.normed(f"{name}.norm", x[place])
                query, key, value = joint.reshape(3, self.heads, -1)
                queries[place] = self.turned(query, place)
                tables[number][place] = self.turned(key, place), value
            for place in places:
                mixed = self.weight[f"{name}.out.weight"] @ self.mixed(queries[place], tables[number])
                x[place] = self.fed(name, x[place] + mixed)
        for place in places:
            joint = self.weight["keys_values.weight"] @ self.normed("kept", x[place])
            key, value = joint.reshape(2, self.heads, -1)
            tables[-1][place] = self.turned(key, place), value
        return x

    def losses(self, x, places, tables, text):
        total = 0.0
        for place in places:
            state = x[place]
            for number in range(self.readers):
                name = f"readers.{number}"
                query = self.weight[f"{name}.query.weight"] @ self.normed(f"{name}.norm", state)
                mixed = self.mixed(self.turned(query.reshape(self.heads, -1), place), tables[-1])
                state = self.fed(name, state + self.weight[f"{name}.out.weight"] @ mixed)
            logits = self.weight["head.weight"] @ self.normed("norm", state)
            total += np.log(np.exp(logits - logits.max()).sum()) + logits.max() - logits[text[place]]
        return total

    def run(self, text, given, sets, fresh):
        """Nats of a text: `fresh` says which places a step computes, and None when the cache is thrown away first."""
        tokens = [int(text[place]) if place in given else VOCAB for place in range(len(text))]
        total, computed = 0.0, 0
        for places in sets:
            some = fresh(tokens)
            if some is None:
                tables, some = [{} for _ in range(self.layers + 1)], range(len(text))
            states = self.advance(tokens, list(some), tables)
            computed += len(list(some))
            total += self.losses(states, places, tables, text)
            for place in places:
                tokens[place] = int(text[place])
        return total, computed


class FastDllm:
    """A pass over everything when a block begins; then one over the block, or over it and all after it."""

    def __init__(self, start, length, *, dual):
        self.length, self.dual, self.start, self.end = length, dual, start, start

    def __call__(self, tokens):
        if VOCAB not in tokens[: self.end]:
            self.start, self.end = self.end, min(self.end + self.length, LENGTH)
            return None
        return range(self.start, self.end if self.dual else LENGTH)


class Dkv:
    """By block: steps 0 and 1 and every n-th take all; else all but what was visible before the last step."""

    def __init__(self, start, length, reload):
        self.length, self.reload, self.end = length, reload, start
        self.step, self.previous, self.current = 0, None, None

    def __call__(self, tokens):
        if VOCAB not in tokens[: self.end]:
            self.end, self.step = min(self.end + self.length, LENGTH), -1
            self.previous, self.current = None, None
        self.step += 1
        visible = {place for place, token in enumerate(tokens) if token != VOCAB}
        self.previous, self.current = self.current, visible if self.step else None
        if self.step <= 1 or self.step % self.reload == 0:
            return range(len(tokens)) if self.step else None
        return [place for place in range(len(tokens)) if place not in self.previous]


RULES = {
    "dual": (lambda block: Dual(block), lambda start, block: FastDllm(start, block, dual=True)),
    "prefix": (lambda block: Prefix(block), lambda start, block: FastDllm(start, block, dual=False)),
    "delayed 3": (lambda block: Delayed(3, block), lambda start, block: Dkv(start, block, 3)),
    "delayed, never": (lambda block: Delayed(LENGTH, block), lambda start, block: Dkv(start, block, LENGTH)),
}


@pytest.mark.parametrize("name", RULES)
@pytest.mark.parametrize("inner", BLIND)
@pytest.mark.parametrize(("prompt", "block", "steps"), [(0, 6, 6), (3, 5, 4), (2, 16, 7)])
def test_a_cached_run_is_the_published_loop(network, name, inner, prompt, block, steps):
    ours, theirs = RULES[name]
    schedule = Schedule(size.Even(steps), order.Blocks(BLIND[inner], block))
    tokens, masked = texts(prompt=prompt)
    seeds = list(range(len(tokens)))
    predictor = Cached(network.predictor(), ours(block))
    sampler = Sampler(predictor, schedule, Replay(tokens))
    state = sampler.init(tokens, masked, rng=seeds)
    for state, _ in sampler.steps(state):  # noqa: B007, B020 - the last one counts
        pass
    slow = Slow(network)
    step = planned_steps(schedule, masked.numpy(), seeds, np.full(len(tokens), LENGTH))
    for number, text in enumerate(tokens.numpy()):
        sets = [np.flatnonzero(step[number] == k) for k in range(step[number].max() + 1)]
        nats, computed = slow.run(text, set(range(prompt)), sets, theirs(prompt, block))
        # The network has its angles in float32; what a cache changes is a thousand times as much.
        assert float(state.trace().nll[number]) == pytest.approx(nats, abs=1e-5)
        assert int(state.memory.computed[number]) == computed


@pytest.mark.parametrize("rule", [Delayed(1), Delayed(1, 5), Dual(LENGTH), Dual(1), Prefix(1)], ids=str)
@pytest.mark.parametrize("which", [*BLIND.values(), order.Margin()], ids=lambda which: type(which).__name__)
def test_a_cache_that_computes_everything_is_exact(network, rule, which):
    schedule = Schedule(size.Even(6), which)
    if rule in (Dual(1), Prefix(1)):
        schedule = Schedule(size.Even(1), order.Blocks(which, 1))
    # What is given stands at the end, since a prompt is outside every block. Without it all is masked at first, and all
    # predictions of the first step are equal: the margin rule would choose by rounding.
    tokens, masked = texts()
    masked = masked & (torch.arange(LENGTH) < LENGTH - 2)
    found = [
        replay(each, schedule, tokens, masked=masked, rng=[1, 2, 3, 4])
        for each in (network.predictor(), Cached(network.predictor(), rule))
    ]
    assert torch.allclose(found[0].nll, found[1].nll, rtol=0, atol=1e-12)
    assert torch.equal(found[0].evaluations, found[1].evaluations)


@pytest.mark.parametrize("rule", [Dual(BLOCK), Prefix(BLOCK), Delayed(3, BLOCK), Delayed(9)], ids=str)
@pytest.mark.parametrize("sizes", [*SIZES.values(), size.Threshold(0.5)], ids=lambda each: type(each).__name__)
@pytest.mark.parametrize("which", [order.Random(), order.Confidence()], ids=lambda which: type(which).__name__)
def test_a_sequence_in_a_batch_of_any_lengths_is_told_what_it_is_told_alone(network, rule, sizes, which):
    """Rows at different steps and blocks, padding, prompts."""
    schedule = Schedule(sizes, order.Blocks(which, BLOCK))
    tokens, _ = texts(5, seed=3)
    # Where nothing is given all positions look alike, and rounding would decide which comes first.
    lengths, starts = (18, 18, 11, 7, 3), (0, 4, 2, 0, 2) if isinstance(which, order.BlindOrder) else (1, 4, 2, 1, 2)
    rows = [each[:length].tolist() for each, length in zip(tokens, lengths, strict=True)]
    hidden = [[i >= start for i in range(length)] for start, length in zip(starts, lengths, strict=True)]
    predictor = Cached(network.predictor(), rule)
    together = replay(predictor, schedule, Sequences.of(rows, hidden), rng=list(range(5)), batch=5)
    for number, (row, mine) in enumerate(zip(rows, hidden, strict=True)):
        alone = replay(predictor, schedule, torch.tensor([row]), masked=torch.tensor([mine]), rng=[number])
        assert float(together.nll[number]) == pytest.approx(float(alone.nll[0]), abs=1e-9)
        assert int(together.evaluations[number]) == int(alone.evaluations[0])


def test_a_cache_changes_what_is_said_and_computes_less(network):
    schedule = Schedule(size.Even(4), order.Blocks(order.Comb(shift=0), 6))
    tokens, masked = texts()
    exact = replay(network.predictor(), schedule, tokens, rng=[0] * 4)
    for rule, share in ((Dual(6), (18 + 3 * 6) / 72), (Prefix(6), (3 * 18 + 3 * (18 + 12 + 6)) / (3 * 72))):
        sampler = Sampler(Cached(network.predictor(), rule), schedule, Replay(tokens))
        state = sampler.init(tokens, masked, rng=[0] * 4)
        for state, _ in sampler.steps(state):  # noqa: B007, B020 - the last one counts
            pass
        assert state.memory.computed.tolist() == [round(share * 12 * LENGTH)] * 4
        assert float((state.trace().nll - exact.nll).abs().min()) > 1e-3


def test_a_memory_can_be_read_again_whatever_was_done_since(network):
    tokens, masked = texts()
    hidden, masked = tokens.masked_fill(masked, VOCAB), masked.clone()
    with torch.no_grad():
        memory = Cached(network.predictor(), Dual(6)).begin(hidden, masked)
        places = [Places.of(torch.arange(4) * LENGTH + each, LENGTH) for each in range(8)]
        kept, said = [], []
        for each in places:
            kept.append((memory, hidden))
            prediction, memory = memory.read(hidden, each)
            said.append(prediction.logits())
            memory = memory.revealed(each)
            hidden = hidden.flatten().index_put((each.rows,), tokens.flatten()[each.rows]).view_as(hidden)
        for (old, seen), each, before in zip(kept, places, said, strict=True):
            assert torch.equal(old.read(seen, each)[0].logits(), before)


def test_wrappers_keep_the_cache(network):
    schedule = Schedule(size.Even(4), order.Blocks(order.Random(), 6))
    tokens, _ = texts()
    cached = Cached(network.predictor(), Dual(6))
    plain, wrapped = (replay(each, schedule, tokens, rng=[0, 1, 2, 3]).nll for each in (cached, Counted(cached)))
    assert torch.equal(plain, wrapped)


def test_what_cannot_be_cached_is_refused(network):
    causal = CausalConfig(VOCAB, LENGTH, width=16, heads=2, hidden=16, reader_hidden=16).network().predictor()
    with pytest.raises(InputError) as caught:
        Cached(causal, Dual(4))
    assert str(caught.value) == (
        "Argument 'predictor' must be the predictor of a network of unmask.models.transformer, not a Recalling."
    )
    with pytest.raises(InputError, match=r"'rule' must be a rule of unmask\.models\.caches"):
        Cached(network.predictor(), 4)
    for make in (lambda: Dual(0), lambda: Prefix(0), lambda: Delayed(0), lambda: Delayed(2, 0)):
        with pytest.raises(InputError, match="must be at least 1, not 0"):
            make()
    tokens, _ = texts()
    with pytest.raises(InputError) as caught:
        replay(Cached(network.predictor(), Dual(4)), Schedule(size.Even(2), order.Random()), tokens, rng=0)
    assert str(caught.value) == (
        "The schedule asks for predictions outside the block that the cache computes. "
        "Give the cache the length of the schedule's own blocks."
    )
    with pytest.raises(InputError, match="must be exact to verify drafts, but this one has an approximate cache"):
        Verified(Cached(network.predictor(), Delayed(4)), Schedule(size.Even(4), order.Random())).run((2, 18), rng=0)

"""Training: the objective's minimum is the truth, and a killed run loses nothing."""

import os
import re
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from test_cli_models import complaint  # noqa: E402
from unmask import _atomic, order, size  # noqa: E402
from unmask.distribution import Markov, Table  # noqa: E402
from unmask.evaluate.enumeration import prediction_error  # noqa: E402
from unmask.models import transformer as nn  # noqa: E402
from unmask.models.causal import CausalConfig  # noqa: E402
from unmask.models.text import Alphabet, Store  # noqa: E402
from unmask.schedule import Schedule  # noqa: E402
from unmask.train import Recipe, masks, rate_share, train  # noqa: E402
from unmask.train.masks import EveryStep, Masks, MixedMasks, ScheduleMasks, UniformMasks  # noqa: E402
from unmask.train.update import Batch, Learner, Plain  # noqa: E402

TINY = nn.Config(vocab=2, length=4, width=32, layers=2, heads=2, hidden=64)


class Samples:
    """Independent sequences of a distribution in place of windows of a text."""

    def __init__(self, distribution):
        self.distribution = distribution

    def random_windows(self, length, count, *, rng):
        return self.distribution.sample(count, rng=rng)


def as_predictor(model):
    def predictor(tokens, masked):
        with torch.no_grad():
            given = torch.from_numpy(np.where(masked, model.config.vocab, tokens))
            return torch.softmax(model(given).double(), dim=-1).numpy()

    return predictor


@pytest.mark.parametrize(
    "masks", [UniformMasks(), ScheduleMasks(Schedule(size.Even(3), order.Random()))], ids=["uniform", "schedule"]
)
def test_training_converges_to_the_true_conditional_marginals(masks):
    """The prediction error of the learned model falls by ten and ends below 0.01 nats per sequence."""
    chain = Markov.sticky(2, 0.8, 4)
    table = Table.of(chain)
    errors = []
    for steps in (10, 500):
        recipe = Recipe(steps=steps, batch=256, rate=5e-3, warmup=10, decay=0.0, average=0.98)
        model, _ = train(TINY, Samples(chain), recipe, lessons=masks)
        errors.append(prediction_error(as_predictor(model), size.Even(3), table))
    assert errors[1] < 0.01
    assert errors[1] < 0.1 * errors[0]


def whole_comb(steps):
    return Schedule(size.Even(steps), order.Comb(shift=0))


@pytest.mark.parametrize("schedule", [Schedule(size.Even(4), order.LeftToRight()), whole_comb(2)], ids=["one", "two"])
def test_training_on_every_step_converges_to_the_best_law_of_the_schedule(schedule):
    """KL from what a perfect predictor would write under it falls by ten and ends below 0.01 nats per sequence."""
    chain = Markov.sticky(2, 0.8, 4)
    table = np.exp(Table.of(chain).log_probability(np.array(list(np.ndindex(2, 2, 2, 2))))).reshape(2, 2, 2, 2)
    texts = torch.tensor(list(np.ndindex(2, 2, 2, 2)))
    step = np.repeat(masks.steps_of(schedule, np.ones((1, 4), dtype=bool), np.random.default_rng(0)), 16, axis=0)
    best = sum(np.log(conditional(table, texts, step[0], position)) for position in range(4))
    config = CausalConfig(vocab=2, length=4, width=32, layers=2, readers=1, heads=2, hidden=64)
    errors = []
    for updates in (10, 500):
        recipe = Recipe(steps=updates, batch=256, rate=5e-3, warmup=10, decay=0.0, average=0.98)
        model, _ = train(config, Samples(chain), recipe, lessons=EveryStep((schedule,), given=0.2))
        with torch.no_grad():
            loss = torch.nn.functional.cross_entropy(
                model(texts, torch.from_numpy(step)), texts.flatten(), reduction="none"
            )
        errors.append(float((table.ravel() * (best + loss.view(16, 4).sum(dim=1).double().numpy())).sum()))
    assert -1e-6 < errors[1] < 0.01
    assert errors[1] < 0.1 * errors[0]


def conditional(table, texts, step, position):
    """The probability of a token of each text given its tokens of earlier steps."""
    known = [each for each in range(4) if step[each] < step[position]]
    joint = table.sum(axis=tuple({0, 1, 2, 3} - {*known, position}), keepdims=True)
    given = joint.sum(axis=position, keepdims=True)
    spots = tuple(texts.numpy().T)
    return np.broadcast_to(joint / given, table.shape)[spots]


def interrupt_at(step):
    """A watcher that presses Ctrl+C."""

    def watch(progress):
        if progress.step >= step:
            raise KeyboardInterrupt

    return watch


@pytest.mark.parametrize("causal", [False, True], ids=["both ways", "causal"])
@pytest.mark.parametrize("muon", [None, 5e-3])
def test_a_resumed_run_repeats_an_uninterrupted_one_bit_for_bit(tmp_path, muon, causal):
    store = Store.of("ab ba " * 500, Alphabet("ab "))
    recipe = Recipe(steps=60, batch=8, rate=3e-3, muon=muon, warmup=5, dropout=0.2 if muon else 0.0)
    kind = CausalConfig if causal else nn.Config
    config = kind(vocab=3, length=12, width=32, layers=1, heads=2, hidden=48)
    lessons = EveryStep((whole_comb(3), Schedule(size.Even(4), order.Random())), given=0.5) if causal else None
    whole, _ = train(config, store, recipe, lessons=lessons)
    _, begun = train(config, store, recipe, lessons=lessons, folder=tmp_path, minutes=0.0)
    assert begun.step == 1  # time is over at once
    with pytest.raises(KeyboardInterrupt):
        train(config, store, recipe, lessons=lessons, folder=tmp_path, every=5, watch=interrupt_at(55))
    resumed, end = train(config, store, recipe, lessons=lessons, folder=tmp_path)
    assert end.step == 60
    for name, value in whole.state_dict().items():
        assert torch.equal(value, resumed.state_dict()[name])
    assert len((tmp_path / "log.csv").read_text().splitlines()) >= 3


SMALL = nn.Config(vocab=3, length=12, width=32, layers=1, readers=1, heads=2, hidden=48)
LETTERS = Store.of("ab ba " * 500, Alphabet("ab "))


def test_a_kill_while_a_checkpoint_is_written_loses_nothing_before_it(tmp_path, monkeypatch):
    recipe = Recipe(steps=100, batch=8)
    train(SMALL, LETTERS, recipe, folder=tmp_path, minutes=0.0)
    before = (tmp_path / "checkpoint.pt").read_bytes()

    def killed(saved, file):
        file.write(b"half of it")
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(torch, "save", killed)
        with pytest.raises(KeyboardInterrupt):
            train(SMALL, LETTERS, recipe, folder=tmp_path)
    assert (tmp_path / "checkpoint.pt").read_bytes() == before
    _, progress = train(SMALL, LETTERS, recipe, folder=tmp_path)
    assert progress.step == 100


def test_the_log_of_a_resumed_run_is_that_of_a_whole_one(tmp_path):
    """Lines after the checkpoint and a line cut short by a kill are dropped; their steps are logged again."""
    recipe = Recipe(steps=100, batch=8)
    train(SMALL, LETTERS, recipe, folder=tmp_path / "whole", every=2)
    with pytest.raises(KeyboardInterrupt):
        train(SMALL, LETTERS, recipe, folder=tmp_path / "cut", every=2, watch=interrupt_at(36))
    with (tmp_path / "cut" / "log.csv").open("a") as file:
        file.write("38,0.4")
    train(SMALL, LETTERS, recipe, folder=tmp_path / "cut", every=2)
    logs = [(tmp_path / name / "log.csv").read_text().splitlines() for name in ("whole", "cut")]
    assert [line.split(",")[:3] for line in logs[0]] == [line.split(",")[:3] for line in logs[1]]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system cannot copy a process")
@pytest.mark.parametrize("kind", [[], ["causal"]], ids=["both ways", "causal"])
def test_a_run_killed_at_random_moments_ends_with_the_weights_and_the_log_of_an_uninterrupted_one(tmp_path, kind):
    """SIGKILL up to twelve times, at random updates and in the midst of what is written; nothing is left behind."""
    script = Path(__file__).parent / "killed.py"
    done = subprocess.run([sys.executable, script, tmp_path, "0", *kind], capture_output=True, text=True, check=True)
    assert re.fullmatch(r"\d+ kills\n", done.stdout), done.stdout


def test_a_kill_before_the_first_checkpoint_doubles_no_line_of_the_log(tmp_path):
    recipe = Recipe(steps=10, batch=8)
    with pytest.raises(KeyboardInterrupt):
        train(SMALL, LETTERS, recipe, folder=tmp_path, every=2, watch=interrupt_at(6))
    assert not (tmp_path / "checkpoint.pt").exists()
    train(SMALL, LETTERS, recipe, folder=tmp_path, every=2)
    assert steps_of(tmp_path) == [2, 4, 6, 8, 10]


def test_stops_leave_no_trace_in_the_log(tmp_path):
    """A stop between two lines: no line for it, and the mean of the next is that of all updates since the last."""
    recipe = Recipe(steps=20, batch=8)
    train(SMALL, LETTERS, recipe, folder=tmp_path / "whole", every=5)
    for _ in range(20):
        train(SMALL, LETTERS, recipe, folder=tmp_path / "stopped", every=5, minutes=0.0)
    logs = [(tmp_path / name / "log.csv").read_text().splitlines() for name in ("whole", "stopped")]
    assert [line.rsplit(",", 1)[0] for line in logs[0]] == [line.rsplit(",", 1)[0] for line in logs[1]]
    assert steps_of(tmp_path / "stopped") == [5, 10, 15, 20]


def steps_of(folder):
    return [int(line.split(",")[0]) for line in (folder / "log.csv").read_text().splitlines()[1:]]


def refusal(folder):
    with pytest.raises(ValueError, match=r"checkpoint\.pt") as caught:
        train(SMALL, LETTERS, Recipe(steps=2, batch=8), folder=folder)
    return str(caught.value)


def test_a_damaged_checkpoint_is_refused_in_one_sentence(tmp_path):
    path = tmp_path / "checkpoint.pt"
    said = f"The checkpoint '{path}' is damaged. Delete it to start the run again."
    path.write_bytes(b"nothing to unpickle")
    assert refusal(tmp_path) == said
    path.write_bytes(b"")
    assert refusal(tmp_path) == said
    path.unlink()
    train(SMALL, LETTERS, Recipe(steps=2, batch=8), folder=tmp_path)
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) // 2])
    assert refusal(tmp_path) == said


def test_a_checkpoint_of_another_version_is_not_called_damaged(tmp_path):
    path = tmp_path / "checkpoint.pt"
    said = (
        f"The checkpoint '{path}' was not written by this version of unmask. "
        "Continue with the version that wrote it, or choose another folder."
    )
    for other in ({"identity": {}, "step": 3}, [1, 2], {"format": "unmask-checkpoint-9"}):
        torch.save(other, path)
        assert refusal(tmp_path) == said
    torch.save({"made of": Path}, path)  # what only a pickle could hold
    assert refusal(tmp_path) == said
    path.unlink()
    train(SMALL, LETTERS, Recipe(steps=2, batch=8), folder=tmp_path)
    kept = torch.load(path, weights_only=True)
    for change in ({"model": {}}, {"optimisers": []}, {"total": None}, {"step": None}):
        torch.save(kept | change, path)
        assert refusal(tmp_path) == said


def test_a_checkpoint_that_cannot_be_read_is_not_to_be_removed(tmp_path, monkeypatch):
    """Root may read everything, so the system's refusal is played; a folder in its place is refused to anyone."""
    path = tmp_path / "checkpoint.pt"
    path.mkdir()
    assert refusal(tmp_path).startswith(
        f"The checkpoint '{path}' cannot be read: is a directory. The file may be intact. Make it readable"
    )
    path.rmdir()
    path.write_bytes(b"x")

    def refuse(self, *_, **__):
        raise PermissionError(13, "Permission denied", str(self))

    monkeypatch.setattr(Path, "open", refuse)
    said = refusal(tmp_path)
    assert "cannot be read: permission denied." in said
    assert "Remove" not in said


def test_memory_that_is_used_up_while_loading_is_no_damage(tmp_path, monkeypatch):
    train(SMALL, LETTERS, Recipe(steps=2, batch=8), folder=tmp_path)

    def full(*_, **__):
        raise RuntimeError("[enforce fail at alloc_cpu.cpp] DefaultCPUAllocator: can't allocate memory")

    monkeypatch.setattr(torch, "load", full)
    with pytest.raises(RuntimeError, match="DefaultCPUAllocator"):
        train(SMALL, LETTERS, Recipe(steps=2, batch=8), folder=tmp_path)


@pytest.mark.skipif(_atomic.fcntl is None, reason="this system has no flock")
def test_a_folder_is_trained_by_one_process_at_a_time(tmp_path):
    """Two runs in one folder doubled the lines of the log, and one died of a file that the other had renamed."""
    recipe = Recipe(steps=4, batch=8)
    said = []

    def meanwhile(progress):
        with pytest.raises(ValueError, match="is being trained by another process") as caught:
            train(SMALL, LETTERS, recipe, folder=tmp_path)
        said.append(str(caught.value))

    train(SMALL, LETTERS, recipe, folder=tmp_path, every=4, watch=meanwhile)
    assert said == [
        f"Argument 'folder' must not be in use, but '{tmp_path}' is being trained by another process. "
        "Wait until that process ends, or choose a different path."
    ]
    assert steps_of(tmp_path) == [4]
    train(SMALL, LETTERS, recipe, folder=tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["checkpoint.pt", "log.csv"]
    (tmp_path / "file").touch()
    with pytest.raises(ValueError, match=r"Argument 'folder' must be a folder, not the file '.*file'"):
        train(SMALL, LETTERS, recipe, folder=tmp_path / "file")


# Memory


@pytest.mark.parametrize(
    ("batch", "shape", "argument"),
    [
        (10**9, {}, "batch"),
        (8, {"width": 4 * 10**9}, "width"),
        (8, {"length": 10**12}, "length"),
        (8, {"hidden": 10**400}, "hidden"),
        (8, {"vocab": 10**15}, "vocab"),
    ],
)
def test_a_run_that_cannot_fit_is_refused_before_anything_is_made(tmp_path, batch, shape, argument):
    config = replace(SMALL, **shape)
    with pytest.raises(
        ValueError, match=f"Argument '{argument}' must fit into memory, but it needs at least"
    ) as caught:
        train(config, LETTERS, Recipe(steps=1, batch=batch), folder=tmp_path / "run")
    assert len(str(caught.value)) < 200
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("part", ["layers", "readers"])
def test_a_model_too_deep_to_be_made_is_refused(part):
    with pytest.raises(ValueError, match=f"Argument '{part}' must be at most 4096, not 100000000000000"):
        replace(SMALL, **{part: 10**14})
    assert getattr(replace(SMALL, **{part: 4096}), part) == 4096


@pytest.mark.parametrize(
    ("words", "option"),
    [("--batch 1000000000", "batch"), ("--width 80000000", "width")],
)
def test_the_command_refuses_it_likewise_in_the_words_of_its_options(tmp_path, words, option):
    (tmp_path / "t.txt").write_text("ab ba " * 100)
    said = complaint("train --text", tmp_path / "t.txt", "--output", tmp_path / "run", "--length 8 --heads 2", words)
    assert re.match(rf"(Argument '{option}'|--{option}) must fit into memory, but it needs at least ", said)
    assert not (tmp_path / "run").exists()


@pytest.mark.skipif(_atomic.fcntl is None, reason="this system has no flock")
def test_two_commands_in_one_folder(tmp_path):
    """The second gets a sentence, and the first is not disturbed."""
    (tmp_path / "t.txt").write_text("ab ba " * 100)
    words = f"train --text {tmp_path / 't.txt'} --output {tmp_path / 'run'} --length 8 --width 16 --layers 2 --heads 2"
    line = [*words.split(), "--batch", "4", "--steps", "1000000"]
    first = subprocess.Popen(
        [sys.executable, "-m", "unmask.cli", *line], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    try:
        while not (tmp_path / "run" / "log.csv").exists():  # it is on its way
            time.sleep(0.1)
            assert first.poll() is None, first.communicate()
        assert f"'{tmp_path / 'run'}' is being trained by another process." in complaint(*line)
    finally:
        first.send_signal(signal.SIGINT)
        first.communicate(timeout=60)
    assert first.returncode == 130
    lines = (tmp_path / "run" / "log.csv").read_text().splitlines()[1:]
    assert [int(each.split(",")[0]) for each in lines] == list(range(100, 100 * len(lines) + 1, 100))
    left = sorted(path.name for path in (tmp_path / "run").iterdir())
    assert left == ["about.json", "checkpoint.pt", "log.csv", "model.safetensors"]


MEASURED = """
import resource, sys, torch
torch.set_num_threads(1)
from unmask import order, size
from unmask.models.causal import CausalConfig
from unmask.models.transformer import Config
from unmask.schedule import Schedule
from unmask.models.text import Alphabet, Store
from unmask.train import EveryStep, Recipe, train
from unmask.train.memory import bytes_needed
store = Store.of("ab ba " * 500, Alphabet("ab "))
muon = 1e-3 if sys.argv[1] == "muon" else None
config, batch = {
    "activations": (Config(40, 128, 128, 2, 2, 4, 256, 256), 96),
    "weights": (Config(40, 16, 512, 2, 2, 4, 2048, 2048), 1),
    "muon": (Config(40, 16, 512, 1, 1, 4, 2048, 2048), 1),
    "logits": (Config(3000, 128, 32, 1, 1, 2, 32, 32), 64),
    "causal activations": (CausalConfig(40, 128, 128, 2, 2, 4, 256, 256), 96),
    "causal tables": (CausalConfig(40, 512, 32, 1, 0, 2, 32, 32), 32),
    "causal weights": (CausalConfig(40, 16, 512, 2, 2, 4, 2048, 2048), 1),
    "causal logits": (CausalConfig(3000, 128, 32, 1, 1, 2, 32, 32), 64),
}[sys.argv[1]]
combs = EveryStep((Schedule(size.Even(8), order.Comb(shift=0)),))
lessons = combs if isinstance(config, CausalConfig) else None
train(Config(3, 8, 16, 1, 1, 2, 16, 16), store, Recipe(steps=2, batch=2, muon=muon))
train(CausalConfig(3, 8, 16, 1, 1, 2, 16, 16), store, Recipe(steps=2, batch=2, muon=muon), lessons=combs)
before = int(open("/proc/self/statm").read().split()[1]) * resource.getpagesize()
train(config, store, Recipe(steps=2, batch=batch, muon=muon), lessons=lessons)
# Not getrusage: that one remembers the process that started this one, which may be larger.
peak = 1024 * int(next(line for line in open("/proc/self/status") if line.startswith("VmHWM")).split()[1])
print(bytes_needed(config, batch, muon=muon is not None) / (peak - before))
"""


@pytest.mark.skipif(sys.platform != "linux", reason="memory is counted in other units elsewhere")
@pytest.mark.parametrize(
    "kind",
    [
        "activations", "weights", "muon", "logits",
        "causal activations", "causal tables", "causal weights", "causal logits",
    ],
)  # fmt: skip
def test_the_estimate_of_memory_is_a_lower_bound_and_no_wild_one(kind):
    """About half to nine tenths of what a run really takes."""
    done = subprocess.run([sys.executable, "-c", MEASURED, kind], capture_output=True, text=True, check=True)
    assert 0.3 < float(done.stdout) < 1.0


def test_weights_that_an_update_broke_are_never_kept(tmp_path, monkeypatch):
    """The loss of a step is known before its update, so it cannot tell."""
    recipe = Recipe(steps=100, batch=8)
    train(SMALL, LETTERS, recipe, folder=tmp_path, minutes=0.0)
    before = (tmp_path / "checkpoint.pt").read_bytes()
    learn = Learner.learn

    def broken(self, batch):
        learn(self, batch)
        with torch.no_grad():
            next(self.runner.parameters()).fill_(torch.nan)

    monkeypatch.setattr(Learner, "learn", broken)
    with pytest.raises(ValueError, match="not number"):
        train(SMALL, LETTERS, Recipe(steps=1, batch=8))
    with pytest.raises(ValueError, match="not a number"):
        train(SMALL, LETTERS, recipe, folder=tmp_path)
    assert (tmp_path / "checkpoint.pt").read_bytes() == before


def test_what_is_dropped_out_is_drawn_anew_at_every_update_and_nothing_of_a_trained_model():
    """Without a rate nothing is learned, so that all lines of the log would be equal but for what is dropped out."""
    store = Store.of("a" * 500, Alphabet("ab "))
    losses = {}
    for dropout in (0.0, 0.5):
        seen = list[float]()
        recipe = Recipe(steps=4, batch=8, rate=1e-30, dropout=dropout)
        lessons = EveryStep((whole_comb(3),))
        shape = CausalConfig(vocab=3, length=12, width=32, layers=1, readers=1, heads=2, hidden=48)
        model, _ = train(shape, store, recipe, lessons=lessons, every=1, watch=lambda p, seen=seen: seen.append(p.loss))
        losses[dropout] = seen
        tokens, step = torch.zeros((2, 12), dtype=torch.int64), torch.arange(12).expand(2, -1)
        assert torch.equal(model(tokens, step), model(tokens, step))
    assert len(set(losses[0.0])) == 1
    assert len(set(losses[0.5])) == 4


def test_training_leaves_the_callers_generator_as_it_was():
    torch.manual_seed(5)
    before = torch.get_rng_state()
    train(SMALL, LETTERS, Recipe(steps=1, batch=8, dropout=0.1))
    assert torch.equal(torch.get_rng_state(), before)


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"warmup": -1}, "'warmup' must be at least 0"),
        ({"average": 1.0}, "'average' must be below 1"),
        ({"clip": 0.0}, "'clip' must be greater than 0"),
        ({"dropout": 1.0}, "'dropout' must be below 1"),
        ({"decay": float("nan")}, "'decay' must be finite"),
        ({"seed": -1}, "'seed' must be at least 0"),
    ],
)
def test_recipes_that_cannot_work_are_refused(wrong, said):
    with pytest.raises(ValueError, match=said):
        Recipe(steps=1, **wrong)


def test_no_kind_of_mask_is_starved_by_small_batches():
    """Two kinds, one sequence: each is drawn about half the time; fails by chance with probability below 1e-9."""

    class Whole(Masks):
        def draw(self, batch, length, *, rng):
            return np.ones((batch, length), dtype=np.bool_)

    class One(Masks):
        def draw(self, batch, length, *, rng):
            return np.eye(1, length, dtype=np.bool_).repeat(batch, axis=0)

    mixed = MixedMasks((Whole(), One()))
    rng = np.random.default_rng(0)
    whole = sum(bool(mixed.draw(1, 4, rng=rng).all()) for _ in range(400))
    assert 140 <= whole <= 260
    assert {int(mixed.draw(5, 4, rng=rng).all(axis=1).sum()) for _ in range(50)} == {2, 3}


def test_a_folder_of_another_run_is_refused(tmp_path):
    store = Store.of("ab ba " * 500, Alphabet("ab "))
    config = nn.Config(vocab=3, length=12, width=32, layers=1, heads=2, hidden=48)
    train(config, store, Recipe(steps=2, batch=8), folder=tmp_path)
    with pytest.raises(ValueError, match="must be empty or hold the same run"):
        train(config, store, Recipe(steps=3, batch=8), folder=tmp_path)


def test_a_loss_that_is_not_a_number_stops_the_run(tmp_path):
    store = Store.of("ab ba " * 500, Alphabet("ab "))
    config = nn.Config(vocab=3, length=12, width=32, layers=1, heads=2, hidden=48)
    with pytest.raises(ValueError, match="Lower 'rate'"):
        train(config, store, Recipe(steps=200, batch=8, rate=1e30, warmup=1, clip=1e30), every=10)


def test_uniform_masks_have_every_level_equally_often():
    """Stratified: in a batch of L sequences each number of masked tokens occurs exactly once."""
    masked = UniformMasks().draw(64, 64, rng=np.random.default_rng(1))
    assert sorted(masked.sum(axis=1).tolist()) == list(range(1, 65))


def test_schedule_masks_visit_levels_in_proportion_to_batch_size():
    """Level frequencies against v_n / L within 5 standard errors (failure under 1e-4), fixed seed."""
    schedule = Schedule(size.Cosine(4), order.Random())
    masked = ScheduleMasks(schedule).draw(20_000, 12, rng=np.random.default_rng(2))
    visible = np.bincount(12 - masked.sum(axis=1), minlength=12) / 20_000
    chance = schedule.size.batch_mass(12) / 12
    assert np.all(np.abs(visible - chance) <= 5 * np.sqrt(chance * (1 - chance) / 20_000) + 1e-9)


def test_schedule_masks_of_a_comb_leave_teeth_masked():
    masked = ScheduleMasks(Schedule(size.Even(4), order.Comb())).draw(50, 16, rng=np.random.default_rng(3))
    assert np.all(masked.reshape(50, 4, 4).sum(axis=1).max(axis=1) == 4)
    assert np.all(np.isin(masked.sum(axis=1), [4, 8, 12, 16]))


def test_schedule_masks_of_blocks_fill_one_block_before_the_next():
    """A masked position in a block means that all later blocks are masked throughout."""
    schedule = Schedule(size.Even(2), order.Blocks(order.Random(), 4))
    masked = ScheduleMasks(schedule).draw(200, 12, rng=np.random.default_rng(4))
    blocks = masked.reshape(200, 3, 4)
    begun = blocks.any(axis=2)
    assert np.all(blocks.all(axis=2)[:, 1:] >= begun[:, :-1])
    assert set(masked.sum(axis=1).tolist()) == {2, 4, 6, 8, 10, 12}


def test_reactive_schedules_cannot_give_training_masks():
    with pytest.raises(ValueError, match="must not look at predictions"):
        ScheduleMasks(Schedule(size.Even(4), order.Confidence()))


def test_the_loss_weighs_every_sequence_alike():
    tokens = np.array([[1, 0, 0, 0], [0, 0, 0, 0]])
    masked = np.array([[True, False, False, False], [True, True, True, True]])
    batch = Batch.masked(tokens, masked, 3)
    assert batch.inputs[0].tolist() == [[3, 0, 0, 0], [3, 3, 3, 3]]
    logits = torch.zeros(2, 4, 3)
    logits[0, 0, 1] = 5.0
    logits[0, 1, 1] = 9.0  # not masked: it must not count
    first = -torch.log_softmax(logits[0, 0], dim=-1)[1]
    assert torch.isclose(batch.loss(logits.flatten(0, 1)[batch.inputs[1]]), (first + np.log(3)) / 2)


@pytest.mark.parametrize("share", [0.01, 0.3, 0.5, 0.99, 1.0])
def test_a_batch_has_few_numbers_of_rows_and_each_row_once(share):
    rng = np.random.default_rng(0)
    masked = rng.random((20, 32)) < share
    masked[:, 0] = True
    tokens = rng.integers(5, size=masked.shape)
    batch = Batch.masked(tokens, masked, 5)
    assert len(batch.inputs[1]) % 10 == 0
    assert len(batch.inputs[1]) - masked.sum() < 10
    assert len(batch.inputs[1].unique()) == len(batch.inputs[1])
    assert (batch.weight > 0).sum() == masked.sum()
    assert float(batch.weight.sum()) == pytest.approx(1.0)
    np.testing.assert_array_equal(batch.target, tokens.ravel()[batch.inputs[1]])


def test_a_run_may_begin_from_given_weights(tmp_path):
    store = Store.of("ab ba " * 500, Alphabet("ab "))
    config = nn.Config(vocab=3, length=12, width=32, layers=1, heads=2, hidden=48)
    first, _ = train(config, store, Recipe(steps=30, batch=8, rate=3e-3, warmup=5))
    idle, _ = train(config, store, Recipe(steps=1, batch=8, rate=1e-12, warmup=5), weights=first)
    for mine, theirs in zip(idle.parameters(), first.parameters(), strict=True):
        torch.testing.assert_close(mine, theirs)
    with pytest.raises(ValueError, match="Argument 'weights' must have the shape"):
        train(nn.Config(3, 12, width=16), store, Recipe(steps=1), weights=first)


def test_the_learning_rate_warms_up_and_ends_at_zero():
    recipe = Recipe(steps=100, rate=1.0, warmup=10)
    assert rate_share(recipe, 0) == pytest.approx(0.1)
    assert rate_share(recipe, 10) == pytest.approx(1.0)
    assert rate_share(recipe, 99) < 0.001


def test_mixed_masks_share_the_batch():
    comb = ScheduleMasks(Schedule(size.Even(4), order.Comb()))
    mixed = MixedMasks((UniformMasks(), MixedMasks((comb, comb))))
    masked = mixed.draw(10, 8, rng=np.random.default_rng(0))
    assert masked.shape == (10, 8)
    assert masked.any(axis=1).all()
    # Before a step, a comb of 4 steps has revealed 0, 2, 4 or 6 of 8 tokens.
    assert set(masked[5:].sum(axis=1).tolist()) <= {2, 4, 6, 8}


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_recorded_updates_do_what_plain_ones_do(tmp_path):
    """On a GPU: the same losses to half precision, with rates that change at every step, and across a stop."""
    store = Store.of("ab ba " * 500, Alphabet("ab "))
    config = nn.Config(vocab=3, length=16, width=32, layers=1, heads=2, hidden=48)
    recipe = Recipe(steps=100, batch=32, rate=1e-3, muon=1e-3, warmup=5)
    _, plain = train(config, store, recipe, device="cuda", every=10)
    _, whole = train(config, store, recipe, device="cuda", every=10, compile_model=True)
    for minutes in (0.0, None):
        _, resumed = train(
            config, store, recipe, folder=tmp_path, device="cuda", every=10, minutes=minutes, compile_model=True
        )
        assert resumed.step == (100 if minutes is None else 1)
    assert whole.loss == pytest.approx(plain.loss, rel=0.02)
    assert resumed.loss == pytest.approx(plain.loss, rel=0.02)


def test_an_update_moves_every_parameter_and_counts_the_loss():
    config = nn.Config(vocab=3, length=8, width=16, layers=1, readers=1, heads=2, hidden=24)
    model = nn.Transformer(config)
    before = [parameter.detach().clone() for parameter in model.parameters()]
    optimiser = torch.optim.SGD([{"params": list(model.parameters()), "peak": 0.5}], lr=0.0)
    learner = Learner(model, [optimiser], 1.0, torch.zeros(()))
    rng = np.random.default_rng(0)
    batch = Batch.masked(rng.integers(3, size=(4, 8)), UniformMasks().draw(4, 8, rng=rng), 3)
    expected = float(batch.loss(model(*batch.inputs)).detach())
    learner.set_rate(0.0)
    Plain(learner)(batch)
    assert all(torch.equal(now, then) for now, then in zip(model.parameters(), before, strict=True))
    learner.set_rate(0.2)
    Plain(learner)(batch)
    assert optimiser.param_groups[0]["lr"] == pytest.approx(0.1)
    assert float(learner.total) == pytest.approx(2 * expected, rel=1e-6)
    assert all(not torch.equal(now, then) for now, then in zip(model.parameters(), before, strict=True))
    # The step is the clipped gradient, of norm 1 at most, times the rate.
    moved = (
        sum(float((now.detach() - then).square().sum()) for now, then in zip(model.parameters(), before, strict=True))
        ** 0.5
    )
    assert moved <= 0.1 + 1e-6

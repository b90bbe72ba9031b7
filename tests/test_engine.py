"""Engines: the same results to the last bit whoever does the work, however many they are, and whoever is killed."""

import csv
import json
import os
import signal
import socket
import subprocess
import sys
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from unmask import order, size  # noqa: E402
from unmask.calibration import measure  # noqa: E402
from unmask.engine import LOCAL, SHARD, Job, Local, Ray, parts  # noqa: E402
from unmask.engine import ray as cluster  # noqa: E402
from unmask.evaluate import replay, replays  # noqa: E402
from unmask.evaluate.levels import random_order  # noqa: E402
from unmask.models import transformer as nn  # noqa: E402
from unmask.models import weights  # noqa: E402
from unmask.predict import MaskPredictor, Wrapper  # noqa: E402
from unmask.sample import Sampler  # noqa: E402
from unmask.schedule import Schedule  # noqa: E402
from unmask.words.outputs import check_rows, write_rows  # noqa: E402
from unmask.words.workers import Workers  # noqa: E402

from test_cli_models import answer, complaint, run  # noqa: E402  # isort: skip

# Every process that has such a test starts a cluster: one process is enough.
pytestmark = pytest.mark.xdist_group("ray")

MISSING = 'Ray is not installed: pip install "unmask[ray]"'
LETTERS = "abcde "
LENGTH = 16
COUNT = 2 * SHARD + 6  # two whole shards and a short one
SCHEDULES = [
    Schedule(size.Even(4), order.Comb()),
    Schedule(size.TC(5), order.Random()),
    Schedule(size.Threshold(0.3), order.Confidence()),
]


def network():
    torch.manual_seed(0)
    return nn.Transformer(nn.Config(len(LETTERS), LENGTH, width=16, layers=1, heads=2, hidden=32))


TEXTS = torch.randint(len(LETTERS), (COUNT, LENGTH), generator=torch.Generator().manual_seed(1))


@pytest.fixture(scope="module")
def predictor():
    return network().predictor()


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A folder with a small random model and a text of more than two shards for it."""
    folder = tmp_path_factory.mktemp("engine")
    weights.save(network(), folder / "m.safetensors", about={"alphabet": LETTERS})
    (folder / "text.txt").write_text("".join(LETTERS[token] for token in TEXTS.flatten().tolist()))
    return folder


@pytest.fixture(scope="module")
def ray():
    """A cluster of three processors, which every engine of this process then uses."""
    library = pytest.importorskip("ray", reason=MISSING)
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    os.environ.setdefault("RAY_worker_niceness", "0")  # or the other tests' processes would go first
    library.init(address="local", num_cpus=3, num_gpus=0, include_dashboard=False, log_to_driver=False)
    library.cloudpickle.register_pickle_by_value(sys.modules[__name__])  # workers cannot import the tests
    yield library
    library.cloudpickle.unregister_pickle_by_value(sys.modules[__name__])
    library.shutdown()


@dataclass(frozen=True, eq=False)
class Deadly(Wrapper):
    """Kills the worker that is half-way through the short shard, the first time that happens."""

    predictor: MaskPredictor
    marker: Path
    home: int

    def __call__(self, tokens, masked, rows=None):
        away = os.getpid() != self.home
        if away and tokens.shape[0] == COUNT % SHARD and not masked.all() and not self.marker.exists():
            self.marker.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return self.predictor(tokens, masked, rows)


def everything(predictor, engine):
    """All that the library measures, as one list of tensors, and the progress that was seen."""
    seen = Counter()
    rng = list(range(COUNT))
    scores = replays(
        predictor,
        SCHEDULES,
        TEXTS,
        rng=rng,
        batch=SHARD,
        engine=engine,
        progress=lambda n, done: seen.update({n: done}),
    )
    reference, _ = random_order(predictor, TEXTS, rng=3, points=4, batch=SHARD, engine=engine)
    losses = measure(predictor, order.Random(), TEXTS, rng=2, points=5, batch=SHARD, engine=engine)
    comb = measure(predictor, order.Comb(4), TEXTS, rng=2, batch=SHARD, engine=engine)
    traces = Sampler(predictor, SCHEDULES[0]).batches((COUNT, LENGTH), rng=rng, engine=engine)
    parts = [part for score in scores for part in (score.nll, score.evaluations)]
    parts += [torch.from_numpy(part) for each in (losses, comb) for part in (each.visible, each.table, each.error)]
    parts += [torch.from_numpy(each.groups.deviations) for each in (losses, comb)]
    parts += [part for trace in traces for part in (trace.tokens, trace.revealed, trace.log_probability)]
    return [reference, *parts], seen


def assert_same(left, right):
    assert len(left) == len(right)
    wrong = [place for place, (a, b) in enumerate(zip(left, right, strict=True)) if not torch.equal(a, b)]
    assert not wrong


# Without Ray


def test_shards_do_not_depend_on_who_does_the_work():
    assert [(part.start, part.stop) for part in parts(COUNT)] == [(0, 32), (32, 64), (64, 70)]
    assert parts(0) == []
    with pytest.raises(ValueError, match="Argument 'batch' must be at least 1, not 0"):
        parts(4, 0)


def test_a_job_does_every_task_on_every_part_of_the_texts():
    """Parts are copies, in their order."""
    texts, names = torch.arange(10).view(5, 2), tuple("abcde")
    seen, done = [], []

    def work(shard, report):
        task, part, who = shard
        seen.append((part.shape[0], "".join(who), part.untyped_storage().nbytes()))
        report(len(who))
        return task * int(part.sum())

    cut = Job(LOCAL, work, (texts, names), parts(5, 2))
    assert cut([(1,), (10,)], lambda task, amount: done.append((task, amount))) == [[6, 22, 17], [60, 220, 170]]
    assert seen[:3] == seen[3:] == [(2, "ab", 32), (2, "cd", 32), (1, "e", 16)]
    assert done == [(0, 2), (0, 2), (0, 1), (1, 2), (1, 2), (1, 1)]
    assert cut([]) == []
    assert Job(LOCAL, work, (texts, names), parts(5, 5))([(2,)]) == [[90]]
    assert Job(LOCAL, work, (texts[:0], ()), parts(0, 1))([(2,)]) == [[]]


def test_the_local_engine_keeps_the_order_and_tells_how_far_it_is():
    seen = []
    with Local() as engine:
        found = engine.map(lambda shard, report: report(shard) or -shard, [3, 1, 2], lambda *what: seen.append(what))
    assert found == [-3, -1, -2]
    assert seen == [(0, 3), (1, 1), (2, 2)]


def test_many_schedules_at_once_are_scored_like_each_alone(predictor):
    together = replays(predictor, SCHEDULES, TEXTS, rng=list(range(COUNT)))
    for schedule, result in zip(SCHEDULES, together, strict=True):
        alone = replay(predictor, schedule, TEXTS, rng=list(range(COUNT)))
        assert torch.equal(result.nll, alone.nll)
        assert torch.equal(result.evaluations, alone.evaluations)


def test_batches_are_runs_one_after_the_other(predictor):
    sampler = Sampler(predictor, SCHEDULES[1])
    done = []
    traces = sampler.batches((COUNT, LENGTH), rng=list(range(COUNT)), progress=done.append)
    assert sum(done) == COUNT * LENGTH  # a call for every step, and one for what an early end left out
    assert len(done) == 3 * (SCHEDULES[1].size.steps + 1)
    for part, trace in zip(parts(COUNT), traces, strict=True):
        again = sampler.run((part.stop - part.start, LENGTH), rng=range(part.start, part.stop))
        assert torch.equal(trace.tokens, again.tokens)
        assert trace.seeds == tuple(range(part.start, part.stop))


def test_progress_adds_up_to_all_evaluations(predictor):
    _, seen = everything(predictor, LOCAL)
    assert (seen[0], seen[1]) == (COUNT * 4, COUNT * 5)


def test_nothing_imports_ray_or_pyarrow_until_it_is_asked_for():
    code = (
        "import sys, unmask.engine, unmask.cli.evaluate, unmask.cli.expect, unmask.cli.generate, unmask.cli.calibrate; "
        "print([name for name in ('ray', 'pyarrow') if name in sys.modules])"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "[]"


def test_missing_extras_are_named(monkeypatch, place, tmp_path):
    monkeypatch.setattr(cluster.importlib.util, "find_spec", lambda name: None)
    line = ("generate --model", place / "m.safetensors")
    assert complaint(*line, "--engine ray") == (
        'This needs Ray, which is not installed. Run: pip install "unmask[ray]".'
    )
    assert complaint(*line, "--output", tmp_path / "x.parquet") == (
        'Parquet needs pyarrow, which is not installed. Run: pip install "unmask[parquet]", or take a .jsonl file.'
    )
    assert list(tmp_path.iterdir()) == []


def test_bad_requests_are_refused_in_a_sentence(place, tmp_path):
    line = ("generate --model", place / "m.safetensors")
    chain = "expect --distribution markov --length 8 --alphabet 2 --stay 0.9 --size even --steps 2"
    assert complaint(*line, "--engine rai") == "--engine: no such engine 'rai'. Did you mean 'ray'?"
    assert complaint(*line, "--workers 2") == "--workers must be used with --engine ray."
    assert complaint(chain, "--address auto") == "--address must be used with --engine ray."
    assert complaint(*line, "--engine ray --watch") == ("--watch cannot be used with --engine ray. Leave out --watch.")
    assert complaint(*line, "--output", tmp_path / "x.csv") == ("--output must end in .jsonl or .parquet, not 'x.csv'.")
    assert complaint(chain, "--output", tmp_path / "none" / "x.csv").startswith(
        "--output must be in a folder that exists"
    )
    with pytest.raises(ValueError, match=r"where every worker has its own GPU, not 'cuda:1'"):
        Workers("ray", None, None).on("cuda:1")


def test_an_address_where_nothing_answers_is_refused_at_once():
    with socket.socket() as bound:  # bound but not listening
        bound.bind(("127.0.0.1", 0))
        where = f"127.0.0.1:{bound.getsockname()[1]}"
        with pytest.raises(
            ConnectionError, match=f"must be that of a running cluster, and nothing answers at '{where}'"
        ):
            cluster._knock(where)
    cluster._knock("auto")


def test_rows_are_written_whole_or_not_at_all(tmp_path):
    rows = [{"a": 1, "b": 0.1}, {"a": 2, "b": None}]
    for kind in ("csv", "jsonl"):
        write_rows(rows, tmp_path / f"rows.{kind}")
    assert [json.loads(line) for line in (tmp_path / "rows.jsonl").read_text().splitlines()] == rows
    with (tmp_path / "rows.csv").open() as file:
        assert list(csv.DictReader(file)) == [{"a": "1", "b": "0.1"}, {"a": "2", "b": ""}]
    before = (tmp_path / "rows.jsonl").read_bytes()
    with pytest.raises(ValueError, match="not JSON compliant"):
        write_rows([*rows, {"a": 3, "b": float("nan")}], tmp_path / "rows.jsonl")
    assert (tmp_path / "rows.jsonl").read_bytes() == before
    assert sorted(path.name for path in tmp_path.iterdir()) == ["rows.csv", "rows.jsonl"]


def test_parquet_holds_what_json_lines_hold(place, tmp_path):
    parquet = pytest.importorskip("pyarrow.parquet", reason='pyarrow is not installed: pip install "unmask[parquet]"')
    line = ("generate --model", place / "m.safetensors", "--count 3 --steps 4")
    for kind in ("jsonl", "parquet"):
        result = run(*line, "--output", tmp_path / f"texts.{kind}")
        assert result.exit_code == 0
        assert result.stdout.replace("\n", "") == f"Written: {tmp_path / f'texts.{kind}'}"
    rows = [json.loads(text) for text in (tmp_path / "texts.jsonl").read_text().splitlines()]
    assert parquet.read_table(tmp_path / "texts.parquet").to_pylist() == rows
    record = answer(*line)
    for key, many in (("seed", "seeds"), ("text", "texts"), ("bits_per_token", "bits_per_token"), ("sizes", "sizes")):
        assert [row[key] for row in rows] == record[many]
    with pytest.raises(TypeError, match="not JSON serializable"):
        write_rows([{"a": object()}], tmp_path / "bad.jsonl")
    with pytest.raises(Exception, match="object"):
        write_rows([{"a": object()}], tmp_path / "bad.parquet")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["texts.jsonl", "texts.parquet"]
    with pytest.raises(ValueError, match=r"Argument 'output' must end in .csv or .jsonl, not 'rows.json'"):
        check_rows(tmp_path / "rows.json", (".csv", ".jsonl"))


def test_the_rows_of_expect_are_those_it_prints(tmp_path):
    line = "expect --distribution markov --length 64 --alphabet 2 --stay 0.9 --size even,tc --steps 4,8 --draws 50"
    record = answer(line, "--output", tmp_path / "rows.jsonl")
    assert [json.loads(text) for text in (tmp_path / "rows.jsonl").read_text().splitlines()] == record["rows"]


# With Ray


@pytest.mark.parametrize("workers", [1, 2, 3])
def test_any_number_of_workers_gives_the_same_bits(ray, predictor, workers):
    here, told = everything(predictor, LOCAL)
    with Ray(workers) as engine:
        there, heard = everything(predictor, engine)
    assert_same(here, there)
    assert told == heard


def test_a_killed_worker_changes_no_bit_and_is_counted_once(ray, predictor, tmp_path):
    deadly = Deadly(predictor, tmp_path / "killed", os.getpid())
    here, told = everything(deadly, LOCAL)
    assert not deadly.marker.exists()
    with Ray(workers=2) as engine:
        there, heard = everything(deadly, engine)
    assert deadly.marker.exists()
    assert_same(here, there)
    assert told == heard


def test_every_command_writes_the_same_bytes_with_ray(ray, place, tmp_path):
    model, text = ("--model", place / "m.safetensors"), ("--text", place / "text.txt", "--texts", COUNT)
    chain = "--distribution markov --length 64 --alphabet 2 --stay 0.9 --size even,tc,dtc --steps 4,8 --draws 50"
    lines = {
        "texts.jsonl": ("generate", *model, "--count", COUNT, "--order random --steps 5"),
        "losses.json": ("calibrate", *model, *text, "--orders random,comb-4,left-to-right --points 6"),
        "rows.jsonl": ("expect", chain),
    }
    for name, line in lines.items():
        files = [tmp_path / f"{who}-{name}" for who in ("here", "there")]
        for file, engine in zip(files, ("--engine local", "--engine ray --workers 3"), strict=True):
            result = run(*line, engine, "--output", file)
            assert result.exit_code == 0, result.stderr
        assert files[0].read_bytes() == files[1].read_bytes()
    assert len(list(tmp_path.iterdir())) == 6


def test_a_worker_reads_the_work_once_and_has_our_threads(ray, tmp_path):
    log = tmp_path / "log"

    class Logged:
        def __init__(self):
            self.weights = np.zeros(100_000)

        def __setstate__(self, state):
            self.__dict__.update(state)
            with log.open("a") as file:
                file.write(f"{os.getpid()}\n")

        def __call__(self, shard, report):
            import torch

            shard += 1  # what arrives can be written to
            return os.getpid(), torch.get_num_threads()

    with Ray(workers=2) as engine:
        again = engine.prepare(Logged())
        found = [each for _ in range(3) for each in again([np.zeros(3)] * 6, lambda shard, done: None)]
    loaded = log.read_text().splitlines()
    assert len(loaded) == len(set(loaded)) == len({pid for pid, _ in found}) <= 3
    assert {threads for _, threads in found} == {torch.get_num_threads()}


def test_errors_of_a_worker_are_raised_here_as_they_were(ray, predictor):
    wrong = TEXTS.clone()
    wrong[-1, -1] = len(LETTERS)

    def refuse(shard, report):
        raise ValueError(f"Argument 'shard' must be good, not {shard}.")

    with Ray(workers=2) as engine:
        with pytest.raises(ValueError, match=r"^Argument 'shard' must be good, not [ab]\.$"):
            engine.map(refuse, ["a", "b", "c"])
        with pytest.raises(ValueError, match="Argument 'tokens' must hold token ids from 0 to 5"):
            replay(predictor, SCHEDULES[0], wrong, rng=list(range(COUNT)), engine=engine)
        assert engine.map(lambda shard, report: shard, [1, 2]) == [1, 2]


def test_code_that_came_with_a_model_travels_with_the_work(ray, monkeypatch):
    """Published LLaDA and Dream bring their own code, which no worker could import."""
    library = pytest.importorskip("transformers.dynamic_module_utils", reason="whose name for such code this is")
    assert library.TRANSFORMERS_DYNAMIC_MODULE_NAME == "transformers_modules"
    module = ModuleType("transformers_modules")
    exec("def double(shard, report):\n    return 2 * shard", vars(module))
    monkeypatch.setitem(sys.modules, "transformers_modules", module)
    with Ray(workers=1) as engine:
        assert engine.map(module.double, [1, 2]) == [2, 4]
    assert "transformers_modules" not in ray.cloudpickle.list_registry_pickle_by_value()


def test_a_shard_that_kills_every_worker_is_given_up_in_a_sentence(ray):
    def die(shard, report):
        os._exit(1)

    with Ray(workers=2, retries=1) as engine, pytest.raises(ChildProcessError, match="given up after 2 workers died"):
        engine.map(die, [0])


def test_a_worker_without_room_is_refused_rather_than_awaited_for_ever(ray):
    threads = torch.get_num_threads()
    try:
        torch.set_num_threads(4)
        with pytest.raises(ValueError, match="A worker needs 4 CPUs, but no machine of the cluster has that many"):
            Ray().map(lambda shard, report: shard, [1])
    finally:
        torch.set_num_threads(threads)
    with pytest.raises(ValueError, match="A worker needs 1 GPU, but no machine"):
        Ray(gpu=True).map(lambda shard, report: shard, [1])
    with pytest.raises(ValueError, match="Argument 'workers' must be at least 1, not 0"):
        Ray(workers=0)


KILLING = """
import os, sys
from dataclasses import replace
from pathlib import Path
import ray, test_engine
from unmask import models
from unmask.cli import main

ray.cloudpickle.register_pickle_by_value(test_engine)
marker, load = Path(sys.argv.pop(1)), models.load

def deadly(name, **settings):
    model = load(name, **settings)
    return replace(model, predictor=test_engine.Deadly(model.predictor, marker, os.getpid()))

models.load = deadly
main()
"""


def test_a_killed_worker_of_a_command_leaves_its_table_and_its_output_as_they_were(ray, place, tmp_path):
    folder, marker = tmp_path / "rows", tmp_path / "killed"
    folder.mkdir()
    line = ["evaluate", "--model", place / "m.safetensors", "--text", place / "text.txt", "--texts", COUNT]
    line += ["--order", "random,comb,confidence", "--size", "even,threshold:0.4", "--steps", "4,8"]
    here = answer(*line, "--output", folder / "here.jsonl")
    # A process of its own, which joins the cluster and loses one of its two workers.
    joined = ["--engine", "ray", "--workers", 2, "--address", ray.get_runtime_context().gcs_address]
    words = [marker, *line, *joined, "--json", "--output", folder / "there.jsonl"]
    settings = {"OMP_NUM_THREADS": str(torch.get_num_threads()), "PYTHONPATH": str(Path(__file__).parent)}
    result = subprocess.run(
        [sys.executable, "-c", KILLING, *map(str, words)], capture_output=True, text=True, env=os.environ | settings
    )
    assert result.returncode == 0, result.stderr
    assert marker.exists()
    assert json.loads(result.stdout) == here
    assert (folder / "there.jsonl").read_bytes() == (folder / "here.jsonl").read_bytes()
    assert sorted(path.name for path in folder.iterdir()) == ["here.jsonl", "there.jsonl"]

"""Engines: the same results to the last bit whoever does the work, however many they are, and whoever is killed."""

import csv
import json
import os
import re
import signal
import socket
import subprocess
import sys
from collections import Counter
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")

from unmask import order, size  # noqa: E402
from unmask.calibration import measure  # noqa: E402
from unmask.engine import LOCAL, SHARD, Job, Local, parts  # noqa: E402
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

HERE = Path(__file__).parent
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
        'Parquet needs pyarrow, which is not installed. Run: pip install "unmask[parquet]", or use a .jsonl file.'
    )
    assert list(tmp_path.iterdir()) == []


def test_bad_requests_are_refused_in_a_sentence(place, tmp_path):
    line = ("generate --model", place / "m.safetensors")
    chain = "expect --distribution markov --length 8 --alphabet 2 --stay 0.9 --size even --steps 2"
    assert complaint(*line, "--engine rai") == "--engine: no such engine 'rai'. Did you mean 'ray'?"
    assert complaint(*line, "--workers 2") == "--workers needs --engine ray. Give --engine ray, or leave out --workers."
    assert (
        complaint(chain, "--address auto") == "--address needs --engine ray. Give --engine ray, or leave out --address."
    )
    assert complaint(*line, "--engine ray --watch") == ("--watch cannot be used with --engine ray. Leave out --watch.")
    assert complaint(*line, "--output", tmp_path / "x.csv") == ("--output must end in .jsonl or .parquet, not 'x.csv'.")
    assert complaint(chain, "--output", tmp_path / "none" / "x.csv").startswith(
        "--output must be in a folder that exists"
    )
    with pytest.raises(
        ValueError,
        match=r"must be cpu, cuda or auto with 'engine' ray, not 'cuda:1'\. With cuda, every worker has its own GPU\.$",
    ):
        Workers("ray", None, None).on("cuda:1")


def test_an_address_where_nothing_answers_is_refused_at_once():
    with socket.socket() as bound:  # bound but not listening
        bound.bind(("127.0.0.1", 0))
        where = f"127.0.0.1:{bound.getsockname()[1]}"
        with pytest.raises(
            ConnectionError, match=f"^No Ray cluster answers at '{where}'. Give the address of one that"
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


SUMMARY = re.compile(r"^(?:\d+ \w+, )*\d+ \w+ in [\d.]+s", flags=re.MULTILINE)  # what pytest prints last


@pytest.mark.skipif(find_spec("ray") is None, reason='Ray is not installed: pip install "unmask[ray]"')
def test_ray_s_workers_do_what_one_process_does():
    """`real_ray`, in a process of its own: Ray ends the process that started a cluster if the cluster fails.

    A run of all tests once lost its process while these were running on a busy machine, and waited for it forever. So a
    process that was ended, with or without a signal, is started again, twice at most; a test that fails is never
    repeated.
    """
    command = [sys.executable, "-m", "pytest", "-n0", "-p", "no:cacheprovider", str(HERE / "real_ray.py")]
    for _ in range(3):
        done = subprocess.run(command, cwd=HERE.parent, capture_output=True, text=True, check=False)
        if SUMMARY.search(done.stdout):
            break
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-2000:]
    assert re.findall(r"^(\d+) passed", done.stdout, flags=re.MULTILINE) == ["11"]
    assert "skipped" not in done.stdout.splitlines()[-1]

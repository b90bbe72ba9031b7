"""Ray's workers: the same results to the last bit, however many they are and whoever is killed.

`test_engine` runs this file in a process of its own.
"""

import json
import os
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
import torch

import test_engine
from test_cli_models import answer, run
from test_engine import COUNT, LETTERS, SCHEDULES, TEXTS, Deadly, assert_same, everything
from unmask.engine import LOCAL, Ray
from unmask.evaluate import replay

place, predictor = test_engine.place, test_engine.predictor  # fixtures of these tests too


@pytest.fixture(scope="module")
def ray():
    """A cluster of three processors, which every engine of this process then uses."""
    import ray as library

    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    os.environ.setdefault("RAY_worker_niceness", "0")  # or the other tests' processes would go first
    library.init(address="local", num_cpus=3, num_gpus=0, include_dashboard=False, log_to_driver=False)
    tests = (test_engine, sys.modules[__name__])  # which workers cannot import
    for module in tests:
        library.cloudpickle.register_pickle_by_value(module)
    yield library
    for module in tests:
        library.cloudpickle.unregister_pickle_by_value(module)
    library.shutdown()


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

    with (
        Ray(workers=2, retries=1) as engine,
        pytest.raises(ChildProcessError, match="failed: 2 workers died while computing it"),
    ):
        engine.map(die, [0])


def test_a_worker_without_room_is_refused_rather_than_awaited_for_ever(ray):
    threads = torch.get_num_threads()
    try:
        torch.set_num_threads(4)
        with pytest.raises(ValueError, match="A worker needs 4 CPUs, but no machine in the cluster has that many"):
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

"""The scripts for people with weights, with a small network of our own in place of a published one."""

import csv
import json
import math
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")

FOLDER = Path(__file__).parent.parent
FEW = ("--tiny", "--rules", "margin in blocks,entropy bound,comb", "--texts", "2", "--evaluations", "4,8")


@pytest.fixture
def weights(monkeypatch):
    monkeypatch.syspath_prepend(str(FOLDER))
    from experiments.weights import command, llada, mdlm, protocol, record

    monkeypatch.setattr(torch, "set_num_threads", lambda count: None)  # that of the other tests
    return {"command": command, "llada": llada, "mdlm": mdlm, "protocol": protocol, "record": record}


def made(weights, *words):
    weights["command"].main(weights["llada"].RECIPE, [str(word) for word in words])


def table(folder):
    with (folder / "table.csv").open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def costs(folder):
    """All that does not depend on how fast the machine is."""
    return [{name: cell for name, cell in row.items() if name != "seconds_per_text"} for row in table(folder)]


def test_a_tiny_run_gives_every_rule_at_every_setting_and_goes_on_with_more(weights, tmp_path, capsys):
    rules = "margin in blocks,comb"
    made(weights, "--tiny", "--output", tmp_path, "--rules", rules, "--texts", 2, "--evaluations", "4,8")
    before = {tuple(row.items()) for row in table(tmp_path)}
    made(weights, "--tiny", "--output", tmp_path, "--texts", 2, "--evaluations", "4,8")
    rows = table(tmp_path)
    assert before <= {tuple(row.items()) for row in rows}  # seconds too: nothing was measured again
    found = [(row["data"], row["rule"], row["setting"]) for row in rows]
    settings = {"threshold": ("0.9", "0.7", "0.5", "0.3"), "entropy bound": ("0.1", "0.5", "2", "8")}
    assert sorted(found) == sorted(
        (data, rule, setting)
        for data in ("wikitext", "lambada", "ag_news")
        for rule in weights["protocol"].RULES
        for setting in settings.get(rule, ("4", "8"))
    )
    assert "random weights" in (tmp_path / "table.md").read_text()
    assert "random weights" in capsys.readouterr().out
    for row in rows:
        bits, spent = float(row["bits_per_token"]), float(row["evaluations"])
        assert float(row["perplexity"]) == pytest.approx(2**bits, rel=1e-4)
        assert float(row["tokens_per_forward"]) == pytest.approx(32 / spent, rel=1e-4)
        if row["rule"] in ("random", "comb", "advised", "margin in blocks"):
            assert spent == int(row["setting"])


def test_a_run_that_was_killed_goes_on_behind_the_last_text_and_ends_with_the_same_table(
    weights, tmp_path, monkeypatch
):
    whole, broken = tmp_path / "whole", tmp_path / "broken"
    made(weights, *FEW, "--output", whole)
    protocol, calls = weights["protocol"], []
    replay = protocol.replay

    def failing(*given, **options):
        calls.append(given)
        if len(calls) == 8:
            raise KeyboardInterrupt
        return replay(*given, **options)

    monkeypatch.setattr(protocol, "replay", failing)
    with pytest.raises(SystemExit, match="130"):
        made(weights, *FEW, "--output", broken, "--batch", 1)
    with (broken / "texts.csv").open("a") as file:
        file.write("wikitext,comb,4,comb, ev")  # as much as a killed process may leave of a line
    made(weights, *FEW, "--output", broken, "--batch", 1)
    cells = 3 * (2 + 4 + 2)
    assert len(calls) == 2 * cells + 1  # the one that failed, and no other twice
    for mine, theirs in zip(costs(broken), costs(whole), strict=True):
        for name, cell in mine.items():
            try:
                assert float(cell) == pytest.approx(float(theirs[name]), rel=1e-4, abs=1e-5)
            except ValueError:
                assert cell == theirs[name]


def test_differences_are_paired_with_margin_at_as_many_evaluations(weights, tmp_path):
    record = weights["record"]
    kept = record.Record(tmp_path, {})
    nats = {
        ("margin in blocks", "8"): (30.0, 50.0),
        ("margin in blocks", "16"): (20.0, 40.0),
        ("comb", "9"): (31.0, 52.0),
    }
    for (rule, setting), values in nats.items():
        lines = enumerate(values)
        kept.add(
            record.Scored("a", rule, setting, rule, text, 10, 4, value, int(setting), 0.1) for text, value in lines
        )
    (row,) = [row for row in record.table(record.Record(tmp_path, {}), {"a": 2}) if row["rule"] == "comb"]
    assert row["over_margin"] == pytest.approx(3 / 20 / math.log(2))
    assert row["over_margin_error"] == pytest.approx(0.5 / 10 / math.log(2))
    assert row["bits_error"] == pytest.approx(10.5 / 10 / math.log(2))
    assert row["word_perplexity"] == pytest.approx(math.exp(83 / 8))
    assert record.table(kept, {"a": 3}) == []  # no cell has so many texts


def test_rows_get_evaluations_in_proportion_to_their_length(weights, tmp_path):
    lines = ["ab" * 4, "cd" * 8, "ef" * 16]
    (tmp_path / "rows.jsonl").write_text("".join(json.dumps({"text": line}) + "\n" for line in lines))
    words = ("--tiny", "--rows", "--rules", "comb", "--evaluations", "8", "--data", f"mine={tmp_path / 'rows.jsonl'}")
    made(weights, *words, "--output", tmp_path / "out")
    with (tmp_path / "out" / "texts.csv").open(newline="") as file:
        found = {int(row["tokens"]): int(row["evaluations"]) for row in csv.DictReader(file)}
    assert found == {8: 2, 16: 4, 32: 8}


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ([], "Give either --model or --tiny."),
        (["--model", "x"], "--data must be given. For example: --data wikitext=wikitext.jsonl."),
        (["--model", "x", "--data", "a=none.txt"], "--data must be the name of an existing file, not 'none.txt'."),
        (["--tiny", "--rules", "best"], "--rules must be some of margin in blocks, threshold,"),
        (
            ["--tiny", "--evaluations", "0"],
            "--evaluations must be numbers from 1 to 32, the length of a window, not '0'",
        ),
        (["--model", "x", "--code", "."], "--code must be left out without --tiny."),
        (["--tiny", "--code", "nowhere"], "--code must be the name of an existing folder, not 'nowhere'."),
        (["--tiny", "--texts", "1"], "--texts must be at least 2, not 1."),
    ],
)
def test_what_is_wrong_is_one_sentence_before_any_work(weights, tmp_path, capsys, words, sentence):
    with pytest.raises(SystemExit, match="2"):
        made(weights, *words, "--output", tmp_path / "out")
    said = capsys.readouterr().err
    assert said.startswith(f"Error: {sentence}")
    assert said.count("\n") == 1
    assert not (tmp_path / "out").exists()


def test_another_measurement_is_not_mixed_with_the_first(weights, tmp_path, capsys):
    words = ("--tiny", "--rules", "comb", "--texts", "2", "--evaluations", "4", "--output", tmp_path)
    made(weights, *words)
    before = (tmp_path / "texts.csv").read_bytes()
    with pytest.raises(SystemExit, match="2"):
        made(weights, *words, "--seed", 1)
    assert "differs in its seed. Choose another --output." in capsys.readouterr().err
    assert (tmp_path / "texts.csv").read_bytes() == before


def test_texts_of_two_schedules_are_never_averaged_in_one_cell(weights, tmp_path, monkeypatch):
    """Another advice for a setting that was half finished: its texts are scored anew."""
    protocol, record = weights["protocol"], weights["record"]
    words = ("--tiny", "--rules", "advised", "--texts", "3", "--evaluations", "4", "--batch", "2", "--output", tmp_path)
    made(weights, *words)
    file = tmp_path / "texts.csv"
    (said,) = {row["schedule"] for row in table(tmp_path)}
    lines = file.read_text().splitlines(keepends=True)
    half = [line.replace(said, "advised: another") for line in lines[1:] if line.split(",")[4] in ("0", "1")]
    assert half
    file.write_text("".join([lines[0], *half]))
    made(weights, *words)
    assert {(row["schedule"], row["texts"]) for row in table(tmp_path)} == {(said, "3")}
    cell = protocol.Cell("advised", "8", "advised", lambda count: None, lambda count: "comb" if count > 6 else "random")
    assert cell.named([9, 7, 7]) == "advised: comb"
    assert cell.named([5, 9, 6, 7]) == "advised: comb, random up to 6 tokens"
    kept = record.Record(tmp_path / "other", {})
    kept.add(record.Scored("a", "advised", "8", name, text, 10, 4, 1.0, 8, 0.1) for text, name in enumerate("xy"))
    assert record.table(kept, {"a": 2}) == []


@pytest.mark.parametrize("damaged", [b"", b"{", b"[]", b"\xff", b"[" * 100_000])
def test_a_damaged_description_is_one_sentence(weights, tmp_path, capsys, damaged):
    (tmp_path / "run.json").write_bytes(damaged)
    with pytest.raises(SystemExit, match="2"):
        made(weights, *FEW, "--output", tmp_path)
    said = capsys.readouterr().err
    assert said.startswith("Error: --output must be")
    assert said.count("\n") == 1


@pytest.mark.parametrize("steps", [1, 2, 4, 8])
def test_margin_in_blocks_costs_what_duels_loop_says(weights, steps):
    """Against the loop as DUEL describes it: score, take the best of the block, add their log-probabilities."""
    from experiments.weights import tiny

    model = tiny.stand_in("x", 20)
    text = torch.arange(20) * 7 % model.predictor.vocab
    run = weights["protocol"].Run(20, (20 * steps // 8 or 1,), 8, 1, 0, ("margin in blocks",))
    (cell,) = weights["protocol"].cells(run, None)
    schedule = cell.schedule(20)
    found = weights["protocol"].replay(model.predictor, schedule, text[None], rng=0)
    shown, total, calls = torch.full_like(text, model.predictor.mask), 0.0, 0
    for first in range(0, 20, 8):
        block = torch.arange(first, min(first + 8, 20))
        for count in schedule.size.sizes(len(block)) if schedule.size.steps <= len(block) else [1] * len(block):
            with torch.no_grad():
                told = model.module(shown[None])[0].double().log_softmax(-1)
            calls += 1
            best = told.exp().topk(2, dim=-1).values
            hidden = block[shown[block] == model.predictor.mask]
            chosen = hidden[(best[hidden, 0] - best[hidden, 1]).topk(int(count)).indices]
            total -= float(told[chosen, text[chosen]].sum())
            shown[chosen] = text[chosen]
    assert float(found.nll[0]) == pytest.approx(total, abs=1e-4)
    assert int(found.evaluations[0]) == calls


@pytest.mark.parametrize("name", ["mdlm", "llada", "dream"])
def test_the_committed_tables_have_every_rule_and_say_that_they_mean_nothing(weights, name):
    folder = FOLDER / "experiments" / "results" / "weights"
    with (folder / f"{name}.csv").open(newline="", encoding="utf-8") as file:
        found = list(csv.DictReader(file))
    assert tuple(found[0]) == weights["record"].COLUMNS
    assert {(row["data"], row["rule"]) for row in found} == {
        (data, rule) for data in ("wikitext", "lambada", "ag_news") for rule in weights["protocol"].RULES
    }
    said = (folder / f"{name}.md").read_text(encoding="utf-8")
    assert "random weights on its real code: these numbers show only that it runs" in said
    assert "commit" in said


class Noisy(torch.nn.Module):
    """A network with the interface of MDLM's: token ids and a noise level, the mask last."""

    def __init__(self, vocab, width=8):
        super().__init__()
        self.vocab_size, self.config = vocab, type("Config", (), {"time_conditioning": False})()
        self.embed, self.level, self.head = (
            torch.nn.Embedding(vocab, width),
            torch.nn.Linear(1, width),
            torch.nn.Linear(width, vocab),
        )

    def forward(self, indices, sigma):
        seen = self.embed(indices)
        return self.head(seen + seen.mean(dim=1, keepdim=True) + self.level(sigma[:, None])[:, None])


def test_mdlms_network_without_its_noise_level_predicts_as_its_own_parameterisation_says(weights):
    torch.manual_seed(0)
    network = Noisy(5)
    model = weights["mdlm"].model(network, "abcd", length=16)
    assert (model.predictor.mask, model.length) == (4, 16)
    tokens = torch.tensor([[0, 4, 2, 4], [4, 4, 1, 3]])
    masked = tokens == 4
    with torch.no_grad():
        logits = network(tokens, torch.zeros(2))[masked]
        logits[:, 4] = -math.inf
        told = model.predictor(tokens, masked, torch.nonzero(masked.flatten())[:, 0]).logits()
    assert torch.equal(told.log_softmax(-1).exp(), logits.log_softmax(-1).exp())
    assert bool((told.softmax(-1)[:, 4] == 0).all())


def test_an_mdlm_that_looks_at_the_noise_level_is_refused(weights):
    network = Noisy(5)
    network.config.time_conditioning = True
    with pytest.raises(ValueError, match="be trained without time conditioning"):
        weights["mdlm"].model(network, "abcd", length=16)

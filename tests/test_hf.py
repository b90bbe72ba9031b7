"""Models of Hugging Face: what stays fixed, what is predicted, what is refused, and all four commands on a tiny one."""

import csv
import importlib.util
import json
import math
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="models need torch")
transformers = pytest.importorskip("transformers", reason="models of Hugging Face need transformers")

from safetensors import safe_open  # noqa: E402
from safetensors.torch import save_file  # noqa: E402

import tiny  # noqa: E402
from test_cli_models import answer, complaint, run  # noqa: E402
from unmask import data, models, order, size  # noqa: E402
from unmask._check import InputError  # noqa: E402
from unmask.evaluate.likelihood import replay  # noqa: E402
from unmask.models import hf  # noqa: E402
from unmask.models import split as head  # noqa: E402
from unmask.predict import Counted, Framed, Headed, Logits, Shifted, Suppressed  # noqa: E402
from unmask.sample import Sampler  # noqa: E402
from unmask.sample.draw import Categorical, Greedy  # noqa: E402
from unmask.schedule import Schedule  # noqa: E402

PAD, UNK, CLS, SEP, MASK = range(5)
TEXT = "the cat sat on the mat . a dogs sat on a cat . " * 12
SCHEDULE = Schedule(size.Even(3), order.Random())


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A folder with a tiny BERT, and a text for it."""
    folder = tmp_path_factory.mktemp("hf")
    (folder / "bert").mkdir()
    tiny.bert(folder / "bert")
    tiny.tokenizer(folder / "bert")
    (folder / "text.txt").write_text(TEXT)
    return folder


@pytest.fixture(scope="module")
def model(place):
    return models.load(f"hf:{place / 'bert'}")


def full(model, tokens):
    """Logits as the library itself would compute them, special tokens around and never drawn."""
    rows = [[CLS, *row, SEP] for row in tokens.tolist()]
    with torch.no_grad():
        logits = model.module(input_ids=torch.tensor(rows)).logits[:, 1:-1].clone()
    logits[..., : MASK + 1] = -torch.inf
    return torch.log_softmax(logits, dim=-1)


# What a model is


def test_the_tokenizer_says_mask_frame_and_length(model):
    assert isinstance(model.predictor, Framed)
    assert (model.predictor.mask, model.predictor.before, model.predictor.after) == (MASK, [CLS], [SEP])
    assert isinstance(model.predictor.predictor, Suppressed)
    assert isinstance(model.predictor.predictor.predictor, Headed)
    assert model.length == tiny.LENGTH
    assert model.cut().length == tiny.LENGTH
    assert model.cut(5).length == 5
    assert model.about == {"family": "masked language model", "architecture": "BertForMaskedLM"}
    assert model.codec.decode(model.codec.encode("the cats sat").tolist()) == "the cats sat"
    with pytest.raises(ValueError, match="'length' must be at most 18, not 19"):
        model.cut(19)


def test_the_head_on_some_rows_gives_what_the_whole_model_gives(model):
    tokens = torch.randint(5, len(tiny.WORDS), (3, 7), generator=torch.Generator().manual_seed(0))
    tokens[:, ::2] = MASK
    masked = tokens == MASK
    rows = torch.nonzero(masked.flatten())[:, 0]
    expected = full(model, tokens)
    some = model.predictor(tokens, masked, rows).log_probabilities()
    assert torch.allclose(some, expected.flatten(0, 1)[rows], atol=1e-5)
    assert torch.allclose(model.predictor(tokens, masked).log_probabilities(), expected.flatten(0, 1), atol=1e-5)
    whole = Framed(Suppressed(Logits(head.Call(model.module, PAD), len(tiny.WORDS), MASK), range(4)), [CLS], [SEP], PAD)
    for schedule in (SCHEDULE, Schedule(size.Threshold(0.3), order.Confidence())):
        with torch.no_grad():
            one, other = (replay(each, schedule, tokens % 10 + 5, rng=[1, 2, 3]) for each in (model.predictor, whole))
        assert torch.allclose(one.nll, other.nll, atol=1e-5)
        assert torch.equal(one.evaluations, other.evaluations)


@pytest.mark.parametrize("draw", [Categorical(), Greedy()], ids=repr)
def test_what_is_written_is_what_the_network_s_own_logits_give_token_by_token(model, draw):
    start = torch.full((8, 9), MASK)
    start[:, 4] = 6
    whole = Logits(lambda tokens: full(model, tokens), len(tiny.WORDS), MASK)
    for schedule in (SCHEDULE, Schedule(size.Threshold(0.3), order.Confidence())):
        one, other = (Sampler(each, schedule, draw).run(start, rng=list(range(8))) for each in (model.predictor, whole))
        assert torch.equal(one.tokens, other.tokens)
        assert torch.equal(one.revealed, other.revealed)


def test_special_tokens_are_never_drawn_and_given_tokens_never_changed(model):
    start = torch.full((64, 9), MASK)
    start[:, 4] = 6
    start[:, 5] = SEP  # a pair of texts, say
    trace = Sampler(model.predictor, SCHEDULE).run(start, rng=list(range(64)))
    drawn = trace.tokens[:, [0, 1, 2, 3, 6, 7, 8]]
    assert int(drawn.min()) > MASK
    assert len(drawn.unique()) > 5
    assert torch.equal(trace.tokens[:, 4:6], start[:, 4:6])


def test_padding_changes_nothing(model):
    """A text alone, and filled up in a batch of longer ones: the end of a text stands right after it in both."""
    short, long = torch.tensor([[5, MASK, 9, MASK]]), torch.tensor([[5, 6, MASK, 10, 5, MASK, 14]])
    both = torch.cat([torch.nn.functional.pad(short, (0, 3), value=PAD), long])
    alone = [model.predictor(each, each == MASK).log_probabilities() for each in (short, long)]
    together = model.predictor(both, both == MASK).log_probabilities()
    assert torch.allclose(together[:4], alone[0], atol=1e-5)
    assert torch.allclose(together[7:], alone[1], atol=1e-5)
    traces = [
        Sampler(model.predictor, SCHEDULE).run(short, rng=[3]),
        Sampler(model.predictor, SCHEDULE).run(both, rng=[3, 4]),
    ]
    assert traces[1].tokens[0, 4:].tolist() == [PAD] * 3
    assert torch.equal(traces[1].revealed[0, :4] >= 0, short[0] == MASK)


def test_a_frame_is_seen_by_the_model_and_by_nobody_else():
    seen = []

    def echo(tokens):
        seen.append(tokens)
        return torch.nn.functional.one_hot(tokens, 9).float()

    framed = Framed(Logits(echo, 9, 8), [1, 2], [3], pad=0)
    tokens = torch.tensor([[4, 8, 5, 6], [8, 7, 0, 0]])
    prediction = framed(tokens, tokens == 8, torch.tensor([1, 2, 4, 5]))
    assert seen[0].tolist() == [[1, 2, 4, 8, 5, 6, 3], [1, 2, 8, 7, 3, 0, 0]]
    assert prediction.logits().argmax(dim=1).tolist()[1] == 5
    assert prediction.logits().argmax(dim=1).tolist()[3] == 7
    assert len(framed(tokens, tokens == 8)) == 8
    bare = Framed(Logits(echo, 9, 8), [], [])
    bare(tokens, tokens == 8)
    assert torch.equal(seen[-1], tokens)
    with pytest.raises(ValueError, match="'after' must be at most 8, not 9"):
        Framed(Logits(echo, 9, 8), [], [9])


SMALL = {
    "hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 32, "vocab_size": 40,
    "max_position_embeddings": 30, "pad_token_id": 1,
}  # fmt: skip
ARCHITECTURES = {
    "Albert": {"embedding_size": 8},
    "Bert": {},
    "ConvBert": {"embedding_size": 16},
    "Deberta": {"relative_attention": True, "pos_att_type": ["c2p"]},
    "DebertaV2": {},
    "DistilBert": {"dim": 16, "n_layers": 1, "n_heads": 2, "hidden_dim": 32},
    "Electra": {"embedding_size": 16},
    "Esm": {"position_embedding_type": "rotary", "mask_token_id": 4},
    "MobileBert": {"embedding_size": 16, "intra_bottleneck_size": 16, "true_hidden_size": 16},
    "ModernBert": {"global_attn_every_n_layers": 1},
    "MPNet": {},
    "Roberta": {},
    "XLMRoberta": {},
}


WHOLE = ("Esm", "MobileBert")  # one adds to the logits, the other uses the weights of the layer by hand


def random_network(name):
    """A network of an architecture with random weights, large enough that its predictions differ."""
    if not hasattr(transformers, f"{name}Config"):
        pytest.skip(f"this version of transformers has no {name}")
    torch.manual_seed(0)
    config = getattr(transformers, f"{name}Config")(**{**SMALL, **ARCHITECTURES.get(name, {})})
    network = getattr(transformers, f"{name}ForMaskedLM")(config).eval()
    for weights in network.parameters():
        torch.nn.init.normal_(weights, std=0.2)
    return network


@pytest.mark.parametrize("name", ARCHITECTURES)
def test_whatever_the_architecture_the_predictor_gives_its_logits(name):
    """The output layer is run apart where that gives the same, and nowhere else."""
    network = random_network(name)
    found = head.predictor(network, 4, 1, [0, 4, 7, 8, 2])
    assert isinstance(found, Headed) == (name not in WHOLE)
    tokens = torch.randint(5, 40, (2, 6), generator=torch.Generator().manual_seed(1))
    with torch.no_grad():
        expected = network(input_ids=tokens).logits.flatten(0, 1)
        logits = found(tokens, tokens == 4, torch.tensor([1, 3, 8])).logits()
    expected[:, 4] = -torch.inf
    assert torch.allclose(logits, expected[[1, 3, 8]], atol=1e-4)


MIXED = ("ConvBert", "FNet", "MobileBert", "Nystromformer")  # neighbours, or all positions, not by attention alone


@pytest.mark.parametrize("name", [*ARCHITECTURES, "FNet", "Nystromformer"])
def test_padding_is_a_token_only_where_the_network_hides_it(name):
    """Alone and filled up, each text is told the same; where that cannot be, lengths are kept apart."""
    found = head.predictor(random_network(name), 4, 1, [0, 4, 2, *range(8)])
    assert found.pad == (None if name in MIXED else 1)
    source = torch.Generator().manual_seed(2)
    rows = [torch.randint(4, 40, (length,), generator=source) for length in (3, 9, 1, 6, 9)]
    both = torch.nn.utils.rnn.pad_sequence(rows, batch_first=True, padding_value=1)
    places = torch.nonzero((both != 1).flatten())[:, 0]
    with torch.no_grad():
        alone = torch.cat([found(row[None], row[None] == 4).log_probabilities() for row in rows])
        together = found(both, both == 4, places).log_probabilities()
        assert torch.allclose(together, alone, atol=1e-5) == (found.pad is not None)
        changed = both.clone()
        changed[1, 5:] = 30
        again = found(changed, changed == 4, places).log_probabilities()
    beside = places // 9 != 1
    if found.pad is not None:
        assert torch.allclose(again[beside], together[beside], atol=1e-5)


class Maskless(torch.nn.Module):
    """A network that takes no notice of attention masks, or makes a mistake when it is given one."""

    def __init__(self, network, mistake=None):
        super().__init__()
        self.inner, self.mistake = network, mistake

    def forward(self, input_ids, attention_mask=None):
        if attention_mask is not None and self.mistake is not None:
            raise self.mistake("no masks here")
        return self.inner(input_ids=input_ids)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_whether_padding_is_hidden_is_known_in_any_precision(dtype):
    network, probe = random_network("Bert").to(dtype), [0, 4, 2, *range(8)]
    assert head.hides(network, 1, probe) == 1
    assert head.hides(network, None, probe) is None
    assert head.hides(network, 1, [1, 4]) is None  # nothing to compare
    for mistake in (None, TypeError, ValueError, RuntimeError):
        assert head.hides(Maskless(network, mistake).eval(), 1, probe) is None


class Rounded(torch.nn.Module):
    """A network that hides padding, one logit of which is rounded the other way when there is any."""

    def __init__(self, network):
        super().__init__()
        self.inner = network

    def forward(self, input_ids, attention_mask=None):
        found = self.inner(input_ids=input_ids, attention_mask=attention_mask)
        if attention_mask is not None:
            largest = found.logits[0, 0].argmax()
            found.logits[0, 0, largest] *= 1 + torch.finfo(found.logits.dtype).eps
        return found


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_one_logit_rounded_the_other_way_is_not_taken_for_padding_that_is_seen(dtype):
    """Processors add up in different ways, so that this may happen on any of them."""
    assert head.hides(Rounded(random_network("Bert").to(dtype)).eval(), 1, [0, 4, 2, *range(8)]) == 1


def test_a_loaded_model_says_what_its_padding_is(model, tmp_path):
    assert model.predictor.pad == PAD
    tiny.bert(tmp_path)
    tiny.tokenizer(tmp_path, pad_token=None)
    assert models.load(f"hf:{tmp_path}").predictor.pad is None


# Texts and prompts


def test_masked_tokens_of_a_prompt_are_the_tokenizers_or_underscores(model):
    words = {word: number for number, word in enumerate(tiny.WORDS)}
    expected = [words["the"], MASK, MASK, words["sat"], MASK]
    assert model.codec.prompt("the __ sat _", MASK) == expected
    assert model.codec.prompt("the [MASK] [MASK] sat [MASK]", MASK) == expected
    assert model.codec.prompt("[MASK] _", MASK) == [MASK, words["_"]]
    assert model.codec.prompt("the cat [SEP] _", MASK) == [words["the"], words["cat"], SEP, MASK]
    with pytest.raises(ValueError, match="must contain only tokens of the model, but it has 'zebra' at character 5"):
        model.codec.prompt("the zebra _", MASK)


def test_ordinary_text_never_becomes_a_special_token(model):
    for text, said in (("the [MASK] sat", "'\\[MASK\\]' at character 5"), ("the zebra", "'zebra' at character 5")):
        with pytest.raises(ValueError, match=f"ordinary tokens of the model, but it has {said}"):
            model.codec.encode(text)


def test_a_chat_template_does_not_repeat_what_stands_before_every_sequence(tmp_path):
    tiny.bert(tmp_path)
    tiny.tokenizer(tmp_path, chat="[CLS]" + tiny.CHAT)
    model = models.load(f"hf:{tmp_path}")
    assert model.codec.decode(model.codec.chat("cat")) == "the cat sat"
    for message, seen in (("the [MASK] cat", r"'\[MASK\]'"), ("the zebra", "'zebra'")):
        must = f"only tokens of the model other than its mask token, but it has {seen} at character 5"
        with pytest.raises(ValueError, match=must):
            model.codec.chat(message)


def test_the_live_view_puts_blanks_between_words(model):
    assert "".join(map(model.codec.piece, model.codec.encode("the cats sat").tolist())) == " the cats sat"


# The four commands


def test_generate_fills_a_prompt_of_words(place):
    name = ("--model", f"hf:{place / 'bert'}")
    record = answer("generate", *name, "--count 5 --prompt", "The cats [MASK] on _")
    assert record["length"] == 6  # with its own mask token, an underscore is a word
    record = answer("generate", *name, "--count 5 --prompt", "the cats _ on _ .")
    assert record["length"] == 7
    assert all(text.startswith("the cats") and text.endswith(".") for text in record["texts"])
    assert [step >= 0 for step in record["revealed"][0]] == [False, False, False, True, False, True, False]
    longer = answer("generate", *name, "--prompt", "the cat", "--length 9 --steps 3 --count 2")
    assert all(text.startswith("the cat") for text in longer["texts"])
    assert answer("generate", *name, "--count 1")["length"] == tiny.LENGTH
    assert "--length must be at most 18" in complaint("generate", *name, "--length 19")
    assert "must have a gap to fill" in complaint("generate", *name, "--prompt", "the cat")
    assert "chat template" in complaint("generate", *name, "--chat --prompt", "cat")


def test_calibrate_advise_evaluate_and_generate_agree_on_a_real_tokenizer(place, tmp_path):
    name = ("--model", f"hf:{place / 'bert'}")
    line = ("calibrate", *name, "--text", place / "text.txt", "--output", tmp_path / "c.json", "--length 8 --texts 6")
    found = answer(*line, "--orders random,spread,comb-2")
    assert (found["length"], found["texts"]) == (8, 6)
    assert found["entropy"]["bits_per_token"] > 0
    record = answer("advise", *name, "--calibration", tmp_path / "c.json", "--steps 4 --save", tmp_path / "s.json")
    assert record["length"] == 8
    rows = answer(
        "evaluate", *name, "--text", place / "text.txt", "--texts 6 --calibration", tmp_path / "c.json",
        "--schedule", tmp_path / "s.json", "--order random,confidence --size even --steps 2,8",
    )["rows"]  # fmt: skip
    assert all(np.isfinite(row["bits_per_token"]) and row["bits_per_token"] > 0 for row in rows)
    assert rows[0]["predicted"] == pytest.approx(record["candidates"][0]["bits_per_token"])
    made = answer("generate", *name, "--length 8 --schedule", tmp_path / "s.json")
    assert made["sizes"][0] == record["sizes"]
    text = run(*line, "--orders random,spread,comb-2")
    assert f"Next: unmask advise --model hf:{place / 'bert'} --calibration" in text.stdout.replace("\n", "")
    assert "has [MASK]" not in complaint(
        "evaluate", *name, "--text", place / "none.txt", "--schedule", tmp_path / "s.json"
    )
    (tmp_path / "special.txt").write_text("the cat [SEP] " * 40)
    refused = complaint(
        "evaluate", *name, "--text", tmp_path / "special.txt", "--schedule", tmp_path / "s.json", "--length 8"
    )
    assert "but it has '[SEP]' at character 9" in refused


def test_one_evaluation_needs_only_the_rows_it_reveals(model):
    counted = Counted(model.predictor)
    Sampler(counted, SCHEDULE).run((2, 6), rng=[0, 1])
    assert (counted.calls, counted.rows) == (3, 12)


# Families with conventions of their own


@pytest.mark.parametrize(
    ("config", "name"),
    [
        ({"model_type": "llada", "architectures": ["LLaDAModelLM"]}, "LLaDA"),
        ({"model_type": "other", "architectures": ["LLaDAMoEModelLM"]}, "LLaDA"),
        ({"model_type": "Dream", "architectures": ["DreamModel"]}, "Dream"),
        ({"model_type": "llada2_moe", "architectures": ["LLaDA2MoeModelLM"]}, "LLaDA 2"),
        ({"model_type": "sdar", "architectures": ["SDARForCausalLM"]}, "SDAR"),
        ({"model_type": "Fast_dLLM_Qwen", "architectures": ["Fast_dLLM_QwenForCausalLM"]}, "Fast-dLLM v2"),
        ({"model_type": "bd3lm", "architectures": ["BD3LM"]}, "BD3-LM"),
        ({"model_type": "bert"}, "masked language model"),
        ({}, "masked language model"),
    ],
)
def test_a_family_is_known_by_its_configuration(config, name):
    assert hf.family_of(config).name == name


@pytest.fixture
def foreign(tmp_path, monkeypatch):
    """Makes a model with code of its own; what the library keeps of the code goes to a folder of the test."""
    cache = str(tmp_path / "modules")
    monkeypatch.setattr("transformers.dynamic_module_utils.HF_MODULES_CACHE", cache)
    monkeypatch.setattr(sys, "path", list(sys.path))

    def make(kind, **special):
        folder = tmp_path / kind
        folder.mkdir()
        code, classes = {
            "llada": (tiny.LLADA, ("LLaDAConfig", "LLaDAModelLM")),
            "dream": (tiny.DREAM, ("DreamConfig", "DreamModel")),
        }[kind]
        network = tiny.foreign(folder, code, mark=tmp_path / "ran", classes=classes)
        tiny.tokenizer(folder, [*tiny.WORDS, "<end>"], framed=False, chat=tiny.CHAT, eos_token="<end>", **special)
        return folder, network

    return make


@pytest.mark.parametrize("kind", ["llada", "dream"])
def test_diffusion_models_follow_their_conventions(foreign, tmp_path, kind):
    folder, network = foreign(kind, pad_token="<end>")
    refused = complaint("generate --model", f"hf:{folder}", "--count 1")
    assert "comes with its own Python code" in refused
    assert "--trust-remote-code" in refused
    assert not (tmp_path / "ran").exists()
    model = models.load(f"hf:{folder}", trust_remote_code=True)
    assert (tmp_path / "ran").exists()
    assert model.about["family"] == {"llada": "LLaDA", "dream": "Dream"}[kind]
    assert (model.length, model.predictor.mask, model.predictor.pad) == (20, MASK, None)
    assert isinstance(model.predictor, Shifted) == (kind == "dream")
    inner = model.predictor.predictor if kind == "dream" else model.predictor
    assert isinstance(inner, Suppressed)  # beginnings and the unknown; ends, padding and turns are drawn
    assert inner.tokens == [1, 2]
    assert isinstance(inner.predictor, Headed)
    tokens = torch.tensor([[5, 6, MASK, 9, MASK]])
    with torch.no_grad():
        logits = network(input_ids=tokens).logits[0]
        got = model.predictor(tokens, tokens == MASK, torch.tensor([2, 4])).logits()
    logits[:, [1, 2, MASK]] = -torch.inf
    assert torch.allclose(got, logits[[1, 3]] if kind == "dream" else logits[[2, 4]], atol=1e-5)
    assert model.codec.decode([5, 6, 15, 9]) == "the cat"  # a text is over after its end
    chat = answer("generate --trust-remote-code --model", f"hf:{folder}", "--count 2 --length 5 --chat --prompt", "cat")
    assert chat["length"] == 8
    assert all(row[:3] == [-1] * 3 and -1 not in row[3:] for row in chat["revealed"])
    assert "at most 17, not 18. The model has room for" in complaint(
        "generate --trust-remote-code --model", f"hf:{folder}", "--length 18 --chat --prompt", "cat"
    )
    assert complaint("generate --trust-remote-code --model", f"hf:{folder}", "--chat --prompt", "cat " * 20) == (
        "--prompt must have at most 19 tokens, not 22. The model has room for 20 tokens, and an answer needs at least "
        "one."
    )


@pytest.mark.parametrize("kind", ["llada", "dream"])
@pytest.mark.parametrize("form", ["safetensors", "index", "pickle"])
def test_a_checkpoint_of_a_model_with_code_of_its_own_that_lacks_weights_is_refused(foreign, kind, form):
    """Its class may hide what the library would say: the names in the files are compared with those of the network."""
    folder, network = foreign(kind, pad_token="<end>")
    load = {"trust_remote_code": True, "allow_pickle": form == "pickle"}
    values = {**network.state_dict()}
    for last in (None, "model.transformer.ff_out.weight"):
        values.pop(last, None)
        (folder / "model.safetensors").unlink(missing_ok=True)
        if form == "pickle":
            torch.save(values, folder / "pytorch_model.bin")
        else:
            name = "model.safetensors" if form == "safetensors" else "part-1.safetensors"
            save_file(values, folder / name, metadata={"format": "pt"})
        if form == "index":
            index = {"metadata": {}, "weight_map": dict.fromkeys(values, "part-1.safetensors")}
            (folder / "model.safetensors.index.json").write_text(json.dumps(index))
        if last is None:
            assert models.load(f"hf:{folder}", **load).about["family"] in ("LLaDA", "Dream")
        else:
            with pytest.raises(InputError, match=f"lacks 1 of them, such as '{last}'"):
                models.load(f"hf:{folder}", **load)


@pytest.mark.parametrize(
    "line",
    [
        "from transformers import NOTHING_OF_THIS_NAME",
        "{}['default']",
        "LLaDAModelLM.__init__ = lambda self, config: self.nothing",
        "LLaDAModelLM.forward = lambda self, **values: self.nothing",
    ],
)
@pytest.mark.parametrize("written", ["4.46.3", None, "5.0.0", "40.1"])
def test_code_of_a_model_that_fails_under_a_later_major_version_says_which_it_is_for(foreign, line, written):
    folder, _ = foreign("llada", pad_token="<end>")
    with (folder / "modeling.py").open("a") as file:
        file.write(f"\n{line}\n")
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**config, "transformers_version": written}))
    with pytest.raises(InputError) as caught:
        models.load(f"hf:{folder}", trust_remote_code=True)
    sentence, here = str(caught.value), transformers.__version__
    if int((written or "4").split(".")[0]) < int(here.split(".")[0]):
        said = f"comes with code that was written for transformers {written or 4} and fails under {here}: "
        assert sentence.startswith(f"The model '{folder}' {said}")
        assert sentence.endswith("Run: pip install 'transformers<5'")
    else:
        assert "was written for" not in sentence


def test_classes_that_a_program_made_known_to_the_library_are_loaded_as_code_of_its_own(foreign, monkeypatch):
    """dllm does so for LLaDA and Dream; then nothing needs to be trusted, and Dream's class still answers no pair."""
    folder, _ = foreign("dream", pad_token="<end>")
    spec = importlib.util.spec_from_file_location("known_to_the_library", folder / "modeling.py")
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, spec.name, module)
    spec.loader.exec_module(module)
    config = transformers.CONFIG_MAPPING
    monkeypatch.setattr(config, "_extra_content", {**config._extra_content, "Dream": module.DreamConfig})
    mapping = transformers.AutoModel._model_mapping
    monkeypatch.setattr(mapping, "_extra_content", {**mapping._extra_content, module.DreamConfig: module.DreamModel})
    model = models.load(f"hf:{folder}")
    assert type(model.module) is module.DreamModel
    assert model.about["family"] == "Dream"


LATER = int(transformers.__version__.split(".")[0]) > 4


@pytest.fixture
def unwritten():
    """Memory that nobody wrote holds no number: otherwise the right ones may lie there by chance."""
    before = torch.are_deterministic_algorithms_enabled()
    torch.use_deterministic_algorithms(True, warn_only=True)
    yield
    torch.use_deterministic_algorithms(before)


@pytest.mark.parametrize("kept", [False, True], ids=["lost", "kept"])
@pytest.mark.parametrize("kind", ["llada", "dream"])
@pytest.mark.parametrize("written", ["4.46.3", transformers.__version__])
def test_code_whose_unsaved_numbers_are_lost_is_refused_and_not_run(foreign, unwritten, written, kind, kept):
    """Transformers 5 fills only what a checkpoint has: what a network computes when it is made would be anything.

    The configuration says who saved the model last, not for which version its code was written.
    """
    folder, _ = foreign(kind, pad_token="<end>")
    text = (folder / "modeling.py").read_text()
    buffer = "self.register_buffer('angles', torch.arange(4.0), persistent=False)\n        self.post_init()"
    text = text.replace("self.post_init()", buffer)
    if kept:  # code for transformers 5 writes them anew
        anew = "    def _init_weights(self, module):\n        if module is self:\n            "
        anew += "self.angles.copy_(torch.arange(4.0))"
        text = text.replace("    def get_input_embeddings", f"{anew}\n\n    def get_input_embeddings")
    (folder / "modeling.py").write_text(text)
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**config, "transformers_version": written}))
    if LATER and (written == "4.46.3" or not kept):
        with pytest.raises(
            InputError, match=r"'angles', which the model computes when it is created, is lost[.] Run: pip"
        ):
            models.load(f"hf:{folder}", trust_remote_code=True)
    else:
        model = models.load(f"hf:{folder}", trust_remote_code=True)
        assert model.module.angles.tolist() == [0, 1, 2, 3]


def test_an_answer_is_over_at_its_end_and_not_at_one_of_the_prompt(foreign, tmp_path):
    folder, _ = foreign("llada", pad_token="<end>")
    line = ("generate --trust-remote-code --model", f"hf:{folder}", "--order left-to-right --count 40")
    rows = tmp_path / "rows.jsonl"
    chat = answer(*line, "--length 8 --steps 8 --chat --prompt cat --output", rows)
    ended = [valid < 8 for valid in chat["valid_tokens"]]
    assert 0 < sum(ended) < 40
    # One by one from the left: an evaluation for each token before the end and one for the end itself.
    wanted = [valid + over for valid, over in zip(chat["valid_tokens"], ended, strict=True)]
    assert chat["evaluations"] == [sum(sizes) for sizes in chat["sizes"]] == wanted
    assert chat["tokens_per_evaluation"] == sum(chat["valid_tokens"]) / sum(chat["evaluations"])
    assert [row.count(-2) for row in chat["revealed"]] == [8 - count for count in wanted]
    assert not any("<end>" in text for text in chat["texts"])
    kept = [json.loads(each) for each in rows.read_text().splitlines()]
    assert list(kept[0]) == ["seed", "text", "sizes", "revealed", "bits_per_token", "valid_tokens", "evaluations"]
    assert [row["valid_tokens"] for row in kept] == chat["valid_tokens"]
    told = answer(*line, "--prompt", "the <end> cat [MASK] [MASK]")
    assert all(text.startswith("the cat") for text in told["texts"])


# What is refused


def test_pickle_is_refused_unless_allowed(place, tmp_path):
    network = models.load(f"hf:{place / 'bert'}").module
    network.config.save_pretrained(tmp_path)
    tiny.tokenizer(tmp_path)
    torch.save(network.state_dict(), tmp_path / "pytorch_model.bin")
    refused = complaint("generate --model", f"hf:{tmp_path}", "--count 1")
    assert "has no weights in safetensors" in refused
    assert "--allow-pickle" in refused
    assert answer("generate --allow-pickle --model", f"hf:{tmp_path}", "--count 1")["texts"]


@pytest.fixture
def indexed(place, tmp_path):
    """A folder whose weights are named by an index; the function writes that."""
    import shutil

    folder = tmp_path / "model"
    shutil.copytree(place / "bert", folder)
    (folder / "model.safetensors").rename(folder / "part.safetensors")
    shutil.copy(folder / "part.safetensors", tmp_path / "other.safetensors")
    with safe_open(folder / "part.safetensors", framework="pt") as file:
        weights = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    torch.save(weights, folder / "weights.bin")

    def write(target, name="model.safetensors.index.json"):
        (folder / name).write_text(json.dumps({"metadata": {}, "weight_map": dict.fromkeys(weights, target)}))
        return folder

    return write


def test_an_index_is_read_before_what_it_names(indexed, tmp_path, monkeypatch):
    """Pickled weights, or any file of the machine, were read if an index named them."""
    assert models.load(f"hf:{indexed('part.safetensors')}").length == tiny.LENGTH

    def never(*_, **__):
        raise AssertionError("it was read")

    monkeypatch.setattr(transformers.AutoModelForMaskedLM, "from_pretrained", never)
    with pytest.raises(ValueError, match=r"has no weights in safetensors format\. Pickled weights can run any code"):
        models.load(f"hf:{indexed('weights.bin')}")
    for outside in (
        "../other.safetensors",
        f"{tmp_path}/other.safetensors",
        "a/../../other.safetensors",
        "..\\x.safetensors",
    ):
        for allowed in (False, True):
            with pytest.raises(ValueError, match=r"must have all its weights in its folder, but model\.safe"):
                models.load(f"hf:{indexed(outside)}", allow_pickle=allowed)
    with pytest.raises(ValueError, match="must have all its weights in its folder"):
        models.load(f"hf:{indexed(3)}")
    (indexed("x") / "model.safetensors.index.json").write_text("[]")
    with pytest.raises(ValueError, match=r"must have an index of its weights, but '.*index\.json' is not one"):
        models.load(f"hf:{tmp_path / 'model'}")


def test_an_index_of_pickled_weights_is_checked_where_those_are_allowed(indexed):
    folder = indexed("weights.bin", "pytorch_model.bin.index.json")
    with pytest.raises(ValueError, match="has no weights in safetensors"):
        models.load(f"hf:{folder}")
    assert models.load(f"hf:{folder}", allow_pickle=True).length == tiny.LENGTH
    indexed("../weights.bin", "pytorch_model.bin.index.json")
    with pytest.raises(ValueError, match="must have all its weights in its folder"):
        models.load(f"hf:{folder}", allow_pickle=True)


@pytest.mark.parametrize("named", ["../other.safetensors", "weights.bin", "hidden.index.json"])
def test_weights_that_a_configuration_names_are_checked_too(indexed, named):
    folder = indexed("../other.safetensors", "hidden.index.json")
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | {"transformers_weights": named}))
    with pytest.raises(ValueError, match=r"all its weights in its folder|no weights in safetensors"):
        models.load(f"hf:{folder}")


@pytest.mark.parametrize("content", ["[1, 2]", "null", "3", "[" * 100_000, '{"model_type": ["bert"]}'])
def test_a_configuration_of_another_kind_is_refused(place, tmp_path, content):
    import shutil

    shutil.copytree(place / "bert", tmp_path / "model")
    (tmp_path / "model" / "config.json").write_text(content)
    with pytest.raises(InputError, match="Argument 'model' must"):
        models.load(f"hf:{tmp_path / 'model'}")


@pytest.mark.parametrize("change", [{"architectures": 3}, {"mask_token_id": "x"}, {"mask_token_id": 10**30}])
def test_what_a_configuration_need_not_say_does_no_harm(place, tmp_path, change):
    import shutil

    shutil.copytree(place / "bert", tmp_path / "model")
    config = json.loads((tmp_path / "model" / "config.json").read_text())
    (tmp_path / "model" / "config.json").write_text(json.dumps(config | change))
    assert models.load(f"hf:{tmp_path / 'model'}").predictor.mask == MASK


@pytest.mark.parametrize(
    ("template", "said"),
    [
        ("{{ ''.__class__.__mro__ }}", "access to attribute '__class__' of 'str' object is unsafe"),
        ("{{ messages[0].x.y }}", "has no attribute 'x'"),
        ("{% for", "unexpected 'end of template'"),
        ("{% for i in range(10**9) %}a{% endfor %}", "Range too big"),
    ],
)
def test_a_chat_template_that_fails_is_answered_in_a_sentence(model, monkeypatch, template, said):
    monkeypatch.setattr(model.codec.inner, "chat_template", template)
    with pytest.raises(InputError, match=f"must have a chat template that works, but this one fails: .*{said}"):
        model.codec.chat("cat")


def test_loading_does_not_read_the_weights_for_a_name(place, monkeypatch):
    from unmask.models import base

    monkeypatch.setattr(base, "fingerprint", lambda module: "found now")
    model = models.load(f"hf:{place / 'bert'}")
    assert model.module not in base._KNOWN
    assert model.cut(4).fingerprint == "found now"


def test_models_that_lack_something_are_refused_in_a_sentence(place, tmp_path):
    for name in ("none", "words", "unmasked", "headless", "causal", "broken"):
        (tmp_path / name).mkdir()
    tiny.bert(tmp_path / "words")
    tiny.bert(tmp_path / "unmasked")
    tiny.tokenizer(tmp_path / "unmasked", mask_token=None)
    tiny.bert(tmp_path / "headless").bert.save_pretrained(tmp_path / "headless")
    tiny.tokenizer(tmp_path / "headless")
    config = transformers.GPT2Config(vocab_size=20, n_embd=8, n_layer=1, n_head=1, n_positions=16)
    transformers.GPT2LMHeadModel(config).save_pretrained(tmp_path / "causal")
    tiny.tokenizer(tmp_path / "causal")
    (tmp_path / "broken" / "config.json").write_text("{")
    for name, sentence in {
        "none": "has no config.json",
        "words": "must come with its tokenizer",
        "unmasked": "must have a mask token",
        "headless": "must have all its weights",
        "causal": "must be a masked language model, LLaDA, Dream, LLaDA 2, SDAR, Fast-dLLM v2 or BD3-LM, but",
        "broken": "must be one that transformers can read",
    }.items():
        assert sentence in complaint("generate --model", f"hf:{tmp_path / name}", "--count 1")
    refused = complaint("generate --allow-pickle --model", place / "bert", "--count 1")
    assert refused.startswith("--allow-pickle can be used only with a Hugging Face model.")


def test_without_transformers_a_sentence_names_the_extra(place, monkeypatch):
    monkeypatch.setitem(sys.modules, "transformers", None)
    expected = 'This needs transformers, which is not installed. Run: pip install "unmask[hf]".'
    assert complaint("generate --model", f"hf:{place / 'bert'}") == expected


def test_importing_models_does_not_import_transformers():
    code = "import sys, unmask.models, unmask.cli.generate; print('transformers' in sys.modules)"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "False"


def test_loading_leaves_the_librarys_own_settings_alone(place):
    logging = transformers.utils.logging
    before = logging.get_verbosity(), logging.is_progress_bar_enabled()
    models.load(f"hf:{place / 'bert'}")
    assert (logging.get_verbosity(), logging.is_progress_bar_enabled()) == before


# A pre-trained model


WHEEL = Path(sys.prefix) / "wheels" / "rxnmapper-0.4.3-py3-none-any.whl"


def test_a_pretrained_model_of_reactions_fills_what_chemistry_leaves_open(tmp_path):
    """Aspirin: what is hidden in the product is read off the reactants; and the stored cost of one step is found."""
    if not WHEEL.exists():
        pytest.skip("the wheel of rxnmapper is not there: pip download --no-deps rxnmapper==0.4.3 into .venv/wheels")
    experiments = Path(__file__).parent.parent / "experiments"
    subprocess.run([sys.executable, experiments / "reactions.py", WHEEL, tmp_path], check=True)
    model = models.load(f"hf:{tmp_path}", allow_pickle=True)
    assert model.about["architecture"] == "AlbertForMaskedLM"
    aspirin = "CC(=O)OC(C)=O.O=C(O)c1ccccc1O>>CC(=O)Oc1ccccc1C(=O)O"
    assert model.codec.decode(model.codec.encode(aspirin).tolist()) == aspirin
    start = torch.tensor([model.codec.prompt(aspirin[:-15] + "_c1cc__c1_(=_)_", model.predictor.mask)])
    trace = Sampler(model.predictor, Schedule(size.Even(6), order.Confidence()), Greedy()).run(start, rng=[0])
    assert model.codec.decode(trace.tokens[0].tolist()) == aspirin
    found, *halves = (
        data.collect(model, data.rows(tmp_path / f"{name}.jsonl")) for name in ("reactions", "first", "second")
    )
    assert [len(found), *map(len, halves)] == [57, 29, 28]
    assert found.sequences.counts.tolist() == [20] * 57
    one = replay(model.predictor, Schedule(size.Even(1), order.Random()), found.sequences, rng=0)
    stored = next(csv.DictReader((experiments / "results" / "reactions.csv").open()))
    assert one.nll.mean() / 20 / math.log(2) == pytest.approx(float(stored["bits_per_token"]), rel=1e-3)


def test_a_file_is_said_to_be_no_folder_and_not_to_be_missing(tmp_path):
    (tmp_path / "m.safetensors").touch()
    with pytest.raises(ValueError, match=r"must be the name of an existing folder, not '.*m[.]safetensors'"):
        hf.load(str(tmp_path / "m.safetensors"))


@pytest.mark.parametrize("name", ["/no/such/folder", "./nowhere", "../nowhere", "~/nowhere", "a/b/c"])
def test_a_folder_that_does_not_exist_is_said_not_to(name):
    with pytest.raises(ValueError, match=re.escape(f"must be the name of an existing folder, not '{name}'")):
        hf.load(name)

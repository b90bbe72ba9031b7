"""Models that a function in Python makes, wherever a model is taken; networks in training mode; places and lengths."""

import functools
import json
import re
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace

import pytest

torch = pytest.importorskip("torch")

from click.testing import CliRunner  # noqa: E402

from unmask import InputError, models, order, size  # noqa: E402
from unmask.calibration import measure  # noqa: E402
from unmask.cli import main  # noqa: E402
from unmask.evaluate.levels import random_order  # noqa: E402
from unmask.evaluate.likelihood import replay  # noqa: E402
from unmask.front import generate  # noqa: E402
from unmask.models import Bare, Model  # noqa: E402
from unmask.models.base import fingerprint  # noqa: E402
from unmask.models.text import Alphabet  # noqa: E402
from unmask.predict import Counted, Headed, Logits, MaskPredictor, device_of, evaluating, networks_of  # noqa: E402
from unmask.predict.base import Prediction  # noqa: E402
from unmask.sample import Sampler  # noqa: E402
from unmask.schedule import Schedule  # noqa: E402

LETTERS = "abcd "
VOCAB = len(LETTERS)
SCHEDULE = Schedule(size.Even(4), order.Random())
NET = """
import torch

class Net(torch.nn.Module):
    def __init__(self, rows=6, length=16, vocab=5):
        super().__init__()
        self.words, self.places = torch.nn.Embedding(rows, 8), torch.nn.Embedding(length, 8)
        self.drop, self.head = torch.nn.Dropout(0.5), torch.nn.Linear(8, vocab)

    def body(self, tokens):
        mixed = self.words(tokens) + self.places(torch.arange(tokens.shape[1], device=tokens.device))
        return self.drop(mixed + mixed.mean(dim=1, keepdim=True))

    def forward(self, tokens):
        return self.head(self.body(tokens))
"""
MINE = """
import threading
from types import SimpleNamespace
import torch
from net import Net
from unmask import models, predict
from unmask.models import Bare, Model
from unmask.models.text import Alphabet

print("said while loading")
LETTERS = "abcd "

def make(**changed):
    torch.manual_seed(0)
    parts = dict(module=Net(), vocab=5, mask=5, tokenizer=LETTERS, length=16)
    return Bare(**(parts | changed))

def good():
    return make()

def whole():
    net = make().module
    return Model("any", net, predict.Logits(net, 5, 5), Alphabet(LETTERS), 16, {})

def placed(device):
    assert isinstance(device, torch.device)
    return make()

class Answering(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.net = Net()

    def forward(self, tokens):
        return SimpleNamespace(logits=self.net(tokens))

def answering():
    torch.manual_seed(0)
    return make(module=Answering())

class Fixed(Net):
    def forward(self, tokens):
        return self.head(self.words(tokens) + self.places.weight)

def fixed():
    return make(module=Fixed(length=24), length=24)

class Even(torch.nn.Module):
    def forward(self, tokens):
        return torch.zeros((*tokens.shape, 5))

def weightless():
    return make(module=Even())

def unused():
    return make(module=Net(rows=9, vocab=9), vocab=9, mask=8, tokenizer=tokenizer())

def tokenizer():
    from tokenizers import Tokenizer, models, pre_tokenizers, decoders
    made = Tokenizer(models.WordLevel({letter: i for i, letter in enumerate("abcde")}, unk_token="e"))
    made.pre_tokenizer = pre_tokenizers.Split("", "isolated")
    made.decoder = decoders.Fuse()
    return made

def pretrained():
    from transformers import PreTrainedTokenizerFast
    inner = PreTrainedTokenizerFast(tokenizer_object=tokenizer(), mask_token="[MASK]", unk_token="e")
    return make(module=Net(rows=9, vocab=9), vocab=9, mask=inner.mask_token_id, tokenizer=inner)

def locked():
    made = make()
    made.module.lock = threading.Lock()
    return made

def long():
    return make(length=32)

def wrong_mask():
    return make(mask=6)

def negative_mask():
    return make(mask=-1)

def wrong_tokens():
    return make(tokenizer="abc")

def wrong_shape():
    return make(module=Net(vocab=4))

def wrong_length():
    return make(length=0)

def wrong_tokenizer():
    return make(tokenizer=7)

def no_module():
    return make(module=len)

def raises():
    raise KeyError("weights\\nare gone")

def leaves():
    raise SystemExit(3)

def nothing():
    return None

def wants(size):
    return make()

thing = 3
"""


class Net(torch.nn.Module):
    """What NET describes, for tests that need no file."""

    def __new__(cls, *args, **kwargs):
        return _namespace()["Net"](*args, **kwargs)


@functools.cache
def _namespace():
    found = {"__name__": "net_of_the_tests"}
    exec(NET, found)
    return found


@pytest.fixture
def folder(tmp_path, monkeypatch):
    (tmp_path / "net.py").write_text(NET)
    (tmp_path / "mine.py").write_text(MINE)
    monkeypatch.chdir(tmp_path)
    yield tmp_path
    for name in ("net", "mine", "unmask_py_mine", "pack", "pack.inner"):
        sys.modules.pop(name, None)


def load(function):
    return models.load(f"py:mine.py:{function}")


# ---------------------------------------------------------------------------------------------- what is loaded


@pytest.mark.parametrize("function", ["good", "whole", "placed", "answering", "fixed", "weightless"])
def test_a_function_makes_a_model_that_writes(folder, function):
    model = load(function)
    assert model.name == f"py:mine.py:{function}"
    trace = Sampler(model.predictor, SCHEDULE).run((3, model.length), rng=0)
    assert bool((trace.tokens < VOCAB).all())
    assert set(model.codec.decode(trace.tokens[0].tolist())) <= set(LETTERS)


def test_a_module_of_python_is_found_in_the_current_folder(folder):
    (folder / "pack").mkdir()
    (folder / "pack" / "__init__.py").write_text("")
    (folder / "pack" / "inner.py").write_text("from mine import good\n")
    assert models.load("py:pack.inner:good").length == 16


def test_two_folders_may_hold_modules_of_one_name(folder):
    other = folder / "other"
    other.mkdir()
    (other / "net.py").write_text(NET.replace("length=16", "length=24"))
    (other / "mine.py").write_text(MINE.replace("length=16", "length=24"))
    assert load("good").length == 16
    second = models.load("py:other/mine.py:good")
    assert Sampler(second.predictor, SCHEDULE).run((1, 24), rng=0).tokens.shape == (1, 24)
    assert load("good").module.places.num_embeddings == 16


def test_loading_leaves_the_path_of_imports_and_standard_output_alone(folder, capsys):
    before = list(sys.path)
    load("good")
    with suppress(InputError):
        load("raises")
    assert sys.path == before
    said = capsys.readouterr()
    assert not said.out
    assert "said while loading" in said.err


def test_tokens_that_the_tokenizer_does_not_have_are_never_drawn(folder):
    pytest.importorskip("tokenizers")
    model = load("unused")
    trace = Sampler(model.predictor, SCHEDULE).run((64, 16), rng=0)
    # 1,024 tokens of which 3 of 8 ids would be unused: the chance that none came by luck is below 1e-100.
    assert int(trace.tokens.max()) < 5
    assert model.codec.encode("abc").tolist() == [0, 1, 2]


def test_a_tokenizer_of_transformers_serves(folder):
    pytest.importorskip("transformers")
    model = load("pretrained")
    assert model.codec.prompt("a[MASK]b", model.predictor.mask) == [0, model.predictor.mask, 1]
    trace = Sampler(model.predictor, SCHEDULE).run((64, 16), rng=0)
    assert int(trace.tokens.max()) < 5


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("mine.py", "be a function, written as py:FILE.py:FUNCTION or py:package.module:function, not 'py:mine.py'."),
        ("mine.py:", "be a function, written as py:FILE.py:FUNCTION or py:package.module:function, not 'py:mine.py:'."),
        ("a b:c", "must be a function, written as py:FILE.py:FUNCTION or py:package.module:function, not 'py:a b:c'."),
        ("none.py:f", "must be the name of an existing file, not 'none.py'."),
        ("./:f", "must be a file, not the folder '.'."),
        ("mine.py:goood", "must be an existing function, but 'mine.py' has no 'goood'. It has "),
        ("mine.py:thing", "must be a function, but 'thing' of 'mine.py' is not one."),
        ("mine.py:wants", "takes no arguments, or only device, but 'wants' needs size."),
        ("mine.py:raises", "of mine.py: KeyError: 'weights\\nare gone'."),
        ("mine.py:leaves", "of mine.py: SystemExit: 3."),
        (
            "mine.py:nothing",
            "must be a function that returns an unmask.models.Model or unmask.models.Bare, but 'noth",
        ),
        (
            "mine.py:wrong_mask",
            "its mask must be a token id that the module takes, not 6, because the module fails at li",
        ),
        ("mine.py:negative_mask", "its mask must be at least 0, not -1."),
        ("mine.py:wrong_tokens", "its vocab must be the number of tokens of the tokenizer, 3 without the mask, not 5."),
        ("mine.py:wrong_shape", "must return logits of shape (1, 16, 5), not (1, 16, 4)."),
        ("mine.py:wrong_length", "its length must be at least 1, not 0."),
        ("mine.py:wrong_tokenizer", "its tokenizer must be an alphabet, a Codec, a tokenizers.Tokenizer or a tokeniz"),
        ("mine.py:no_module", "its module must be a torch.nn.Module, not <built-in function len>."),
        ("nowhere.inner:f", "but 'nowhere.inner' fails: ModuleNotFoundError: No module named 'nowhere'."),
        ("broken.py:f", "but 'broken.py' fails at line 2 of broken.py: ZeroDivisionError: division by zero."),
        ("syntax.py:f", "but 'syntax.py' fails: SyntaxError: invalid syntax (syntax.py, line 1)."),
        ("gone.py:f", "but 'gone.py' fails at line 1 of gone.py: SystemExit: 3."),
    ],
)
def test_whatever_is_wrong_is_one_sentence(folder, name, sentence):
    (folder / "broken.py").write_text("x = 0\n1 / x\n")
    (folder / "syntax.py").write_text("def f(:\n")
    (folder / "gone.py").write_text("raise SystemExit(3)\n")
    with pytest.raises(InputError) as caught:
        models.load(f"py:{name}")
    said = str(caught.value)
    assert said.startswith("Argument 'model' must ")
    assert sentence in said
    assert "\n" not in said


def test_what_hugging_face_may_do_is_not_asked_of_a_function(folder):
    with pytest.raises(InputError, match=r"only with a Hugging Face model\. .* runs in any case\."):
        models.load("py:mine.py:good", trust_remote_code=True)


# ------------------------------------------------------------------------------------------------ every command


def run(*words):
    return CliRunner().invoke(main, [str(word) for word in words])


def test_every_command_takes_such_a_model(folder):
    (folder / "text.txt").write_text("abcd dcba abba " * 40)
    of = ("--model", "py:mine.py:good")
    done = run("generate", *of, "--count", 3, "--steps", 4, "--json")
    assert done.exit_code == 0, done.output
    assert [len(text) for text in json.loads(done.stdout)["texts"]] == [16] * 3
    done = run("calibrate", *of, "--text", "text.txt", "--texts", 4, "--orders", "random", "--output", "c.json")
    assert done.exit_code == 0, done.output
    done = run("advise", *of, "--calibration", "c.json", "--steps", 4, "--save", "s.json")
    assert done.exit_code == 0, done.output
    assert "--model py:mine.py:good" in done.output
    done = run("generate", *of, "--schedule", "s.json")
    assert done.exit_code == 0, done.output
    line = ("--text", "text.txt", "--texts", 4, "--schedule", "s.json", "--calibration", "c.json", "--json")
    done = run("evaluate", *of, *line)
    assert done.exit_code == 0, done.output
    assert json.loads(done.stdout)["rows"][0]["predicted"] > 0
    done = run("evaluate", "--model", "py:mine.py:answering", *line)
    assert done.exit_code == 2
    assert "was made for another model" in done.stderr


def test_a_failure_is_one_line_of_a_command(folder):
    done = run("generate", "--model", "py:mine.py:raises")
    assert done.exit_code == 2
    assert done.stderr.splitlines()[-1].startswith("Error: --model must be a function that makes a model, but 'rai")
    done = run("generate", "--model", "py:mine.py:fixed", "--length", 10)
    assert done.exit_code == 2
    assert "--model must predict 4 sequences of 10 tokens, but it fails at line" in done.stderr
    done = run("generate", "--model", "py:mine.py:long")
    assert done.exit_code == 2
    assert "at most 16 positions, the model's maximum, not 32" in done.stderr


def test_the_example_of_the_documentation_works_as_it_stands(tmp_path, monkeypatch):
    page = (Path(__file__).parent.parent / "docs" / "integrations.md").read_text(encoding="utf-8")
    section = page.split("\n## A model of your own\n")[1].split("\n## ")[0]
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.py").write_text(re.findall(r"^```python\n(.*?)^```$", section, re.MULTILINE | re.DOTALL)[0])
    for name in ("held-out.txt", "other.txt"):
        (tmp_path / name).write_text("the quick brown fox jumps over the lazy dog " * 6)
    lines = re.findall(r"^    unmask (.*)$", section, re.MULTILINE)
    assert [line.split()[0] for line in lines] == ["generate", "calibrate", "advise", "evaluate", "explore"]
    for line in lines[:-1]:  # the last would wait for someone to look at it
        done = run(*line.split())
        assert done.exit_code == 0, done.output
    sys.modules.pop("unmask_py_mine", None)


def test_help_says_that_code_runs(folder):
    for command in ("generate", "evaluate", "calibrate", "advise", "explore"):
        said = " ".join(run(command, "--help").stdout.split())
        assert "py:FILE.py:FUNCTION" in said
        assert "this runs the code in that file" in said


def test_the_page_is_made_for_such_a_model(folder):
    pytest.importorskip("gradio")
    from unmask.app import page

    built = page.build(load("good"), None, "nothing")
    assert "py:mine.py:good" in json.dumps(built.get_config_file(), default=str)


def test_workers_of_ray_are_sent_the_code_and_write_the_same(folder):
    pytest.importorskip("ray")
    code = """
import sys
from unmask import models, order, size
from unmask.engine import Ray
from unmask.sample import Sampler
from unmask.schedule import Schedule
import torch
torch.set_num_threads(1)
model = models.load("py:mine.py:good")
sampler = Sampler(model.predictor, Schedule(size.Even(4), order.Random()))
with Ray(workers=1) as engine:
    far = sampler.batches((4, 16), rng=0, batch=2, engine=engine)
    near = sampler.batches((4, 16), rng=0, batch=2)
    print(all(torch.equal(a.log_probability, b.log_probability) for a, b in zip(far, near, strict=True)))
    locked = models.load("py:mine.py:locked")
    try:
        Sampler(locked.predictor, sampler.schedule).batches((4, 16), rng=0, engine=engine)
    except ValueError as error:
        print(error)
"""
    # A process of its own, in another folder, so that no worker finds the files by itself.
    away = folder / "away"
    away.mkdir()
    done = subprocess.run(
        [sys.executable, "-c", code.replace("mine.py", "../mine.py")],
        cwd=away, capture_output=True, text=True, check=False, timeout=240,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    same, sentence = done.stdout.splitlines()
    assert same == "True"
    assert sentence == (
        "Argument 'engine' must be local for this model, because it cannot be sent to workers: "
        "cannot pickle '_thread.lock' object."
    )


# ---------------------------------------------------------------------------------------------- the fingerprint


def test_a_fingerprint_is_of_the_weights_and_without_any_of_the_code(folder):
    good = load("good")
    assert good.fingerprint == load("good").fingerprint == fingerprint(good.module)
    weightless = load("weightless")
    assert weightless.device == torch.device("cpu")
    assert (
        len({weightless.fingerprint, good.fingerprint, fingerprint(torch.nn.ReLU()), fingerprint(torch.nn.ELU())}) == 4
    )
    scaled = [torch.nn.ReLU() for _ in range(3)]
    for layer, scale in zip(scaled, (1.0, 2.0, 2.0), strict=True):
        layer.scale, layer.table = scale, torch.full((2,), scale)
    first, second, third = map(fingerprint, scaled)
    assert first != second == third


def test_the_fingerprint_of_a_model_with_weights_is_what_it_was():
    network = torch.nn.Linear(2, 1)
    with torch.no_grad():
        network.weight.fill_(0.5)
        network.bias.fill_(-1.0)
    assert fingerprint(network) == "41bfa5e4e2b697cb"


# ---------------------------------------------------------------------------------------------- evaluation mode


class Own(MaskPredictor):
    """A predictor of someone's own, which holds its network deep inside."""

    vocab, mask = VOCAB, VOCAB

    def __init__(self, network):
        self.inside = [functools.partial(network.forward)]

    def __call__(self, tokens, masked, rows=None):
        logits = self.inside[0](tokens).flatten(0, 1)
        return Prediction((logits if rows is None else logits[rows],), lambda part: part, VOCAB)


GLOBAL = None

PREDICTORS = {
    "module": lambda net: Logits(net, VOCAB, VOCAB),
    "closure": lambda net: Logits(lambda tokens: net(tokens), VOCAB, VOCAB),
    "method": lambda net: Headed(net.body, net.head, VOCAB, VOCAB),
    "head": lambda net: Headed(
        lambda tokens: net.body(tokens), lambda hidden: net.head(net.drop(hidden)), VOCAB, VOCAB
    ),
    "own": Own,
    "wrapped": lambda net: Counted(Counted(Logits(net, VOCAB, VOCAB))),
}
TEXTS = torch.randint(VOCAB, (6, 16), generator=torch.Generator().manual_seed(1))
WORK = {
    "run": lambda predictor: Sampler(predictor, SCHEDULE).run((4, 16), rng=0).log_probability,
    "reactive": lambda predictor: (
        Sampler(predictor, Schedule(size.Even(4), order.Confidence())).run((4, 16), rng=0).log_probability
    ),
    "steps": lambda predictor: _stepped(Sampler(predictor, SCHEDULE)),
    "batches": lambda predictor: Sampler(predictor, SCHEDULE).batches((4, 16), rng=0)[0].log_probability,
    "replay": lambda predictor: replay(predictor, SCHEDULE, TEXTS, rng=0).nll,
    "measure": lambda predictor: torch.as_tensor(_measured(predictor).table),
    "random_order": lambda predictor: random_order(predictor, TEXTS, rng=0, points=4)[0],
}


def _measured(predictor):
    return measure(predictor, order.LeftToRight(), TEXTS, rng=0, points=4)


def _stepped(sampler):
    *_, (last, _) = sampler.steps(sampler.init((4, 16), rng=0))
    return last.trace().log_probability


def modes(network):
    return {name: part.training for name, part in network.named_modules()}


@pytest.mark.parametrize("work", WORK)
@pytest.mark.parametrize("kind", PREDICTORS)
def test_a_network_in_training_mode_is_used_in_evaluation_mode_and_put_back(kind, work):
    torch.manual_seed(0)
    network = Net()
    predictor = PREDICTORS[kind](network)
    expected = WORK[work](PREDICTORS[kind](network.eval()))
    network.train()
    network.head.eval()  # a part may be frozen, and stays so
    before = modes(network)
    assert torch.equal(WORK[work](predictor), expected)
    assert modes(network) == before


def test_a_network_that_a_function_finds_among_what_is_global_counts(monkeypatch):
    monkeypatch.setitem(globals(), "GLOBAL", Net())
    predictor = Logits(lambda tokens: GLOBAL(tokens), VOCAB, VOCAB)
    assert networks_of(predictor) == [GLOBAL]


@pytest.mark.parametrize("work", WORK)
def test_a_network_is_put_back_whatever_ends_the_work(work):
    network = Net()
    predictor = Logits(network, VOCAB, VOCAB)
    calls = []

    def fail(*_):
        calls.append(network.training)
        raise ZeroDivisionError

    network.head.register_forward_hook(fail)
    with pytest.raises(ZeroDivisionError):
        WORK[work](predictor)
    assert calls == [False]
    assert network.training
    assert all(modes(network).values())


def test_what_train_and_eval_do_besides_is_done_and_undone():
    said = []

    class Merged(type(Net())):
        def train(self, mode=True):
            said.append(mode)
            return super().train(mode)

    with evaluating(Logits(Merged(), VOCAB, VOCAB)):
        assert said == [False]
    assert said == [False, True]


def test_a_part_in_training_mode_of_a_network_in_evaluation_mode_is_left_so():
    """Whoever drops units on purpose says so part by part."""
    network = Net().eval()
    network.drop.train()
    with evaluating(Logits(network, VOCAB, VOCAB)):
        assert network.drop.training


def test_a_model_of_hugging_face_that_is_trained_on_is_put_back():
    transformers = pytest.importorskip("transformers")
    from unmask.models import split

    shape = {"hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 1, "intermediate_size": 8}
    config = transformers.BertConfig(vocab_size=9, max_position_embeddings=16, **shape)
    torch.manual_seed(0)
    network = transformers.BertForMaskedLM(config).eval()
    predictor = split.predictor(network, 8, None, [1, 2, 8])
    assert isinstance(predictor, Headed)
    expected = WORK["run"](predictor)
    network.train()
    before = modes(network)
    assert torch.equal(WORK["run"](predictor), expected)
    assert modes(network) == before


# ------------------------------------------------------------------------------------------- places and lengths


def test_where_the_weights_are_is_seen():
    assert device_of(Logits(Net(), VOCAB, VOCAB)) == torch.device("cpu")
    assert device_of(Logits(lambda tokens: tokens, VOCAB, VOCAB)) is None
    assert device_of(torch.nn.BatchNorm1d(2, affine=False)) == torch.device("cpu")  # which has only counters
    offloaded = Net()
    offloaded.words.to("meta")
    assert device_of(offloaded) == torch.device("cpu")


class Elsewhere(torch.nn.Module):
    """A stand-in for a network on a GPU, which this machine need not have: it says where it is."""

    def __init__(self, place):
        super().__init__()
        self.place = place

    def parameters(self, recurse=True):
        yield SimpleNamespace(device=self.place)

    def forward(self, tokens):
        return torch.zeros((*tokens.shape, VOCAB), device=tokens.device)


def test_a_run_starts_where_the_weights_are(monkeypatch):
    """The device asked of torch is recorded: what arrives on it can be seen only where there is one."""
    asked = []
    full, to = torch.full, torch.Tensor.to

    def recorded_full(*args, device=None, **rest):
        asked.append(device)
        return full(*args, **rest)

    def recorded_to(self, *args, **rest):
        if "device" in rest:
            asked.append(rest.pop("device"))
        return to(self, *args, **rest)

    place = torch.device("cuda", 3)
    predictor = Logits(Elsewhere(place), VOCAB, VOCAB)
    from unmask.evaluate.given import texts_of
    from unmask.sample.start import start_of

    monkeypatch.setattr(torch, "full", recorded_full)
    monkeypatch.setattr(torch.Tensor, "to", recorded_to)
    for begin in (
        lambda: start_of((4, 16), None, predictor, None, each=1),
        lambda: start_of(TEXTS, None, predictor, None, each=1),
        lambda: texts_of(TEXTS, predictor),
    ):
        begin()
        assert place in asked
        asked.clear()
    start_of((4, 16), None, predictor, "cpu", each=1)
    assert asked == [torch.device("cpu")]


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_a_network_on_a_gpu_needs_no_device():
    predictor = Logits(Net().cuda(), VOCAB, VOCAB)
    for work in WORK.values():
        work(predictor)


@pytest.mark.parametrize("known", [None, 16])
@pytest.mark.parametrize("kind", [Logits, Headed])
def test_a_sequence_that_is_too_long_is_one_sentence(kind, known):
    network = Net(length=16)
    parts = (network,) if kind is Logits else (network.body, network.head)
    sampler = Sampler(kind(*parts, VOCAB, VOCAB, length=known), SCHEDULE)
    assert sampler.run((2, 16), rng=0).tokens.shape == (2, 16)
    with pytest.raises(InputError) as caught:
        sampler.run((2, 20), rng=0)
    assert str(caught.value) == ("Argument 'tokens' must have at most 16 positions, the model's maximum, not 20.")


def test_a_failure_that_length_does_not_explain_stays_what_it_is():
    with pytest.raises(IndexError):  # the mask is no token of this network
        Sampler(Logits(Net(rows=VOCAB), VOCAB, VOCAB), SCHEDULE).run((2, 16), rng=0)

    def weary(tokens):
        raise RuntimeError("weary")

    with pytest.raises(RuntimeError, match="weary"):
        Sampler(Logits(weary, VOCAB, VOCAB), SCHEDULE).run((2, 16), rng=0)


def test_a_model_may_be_made_without_a_file():
    model = Bare(module=Net(), vocab=VOCAB, mask=VOCAB, tokenizer=Alphabet(LETTERS), length=16).model("mine")
    assert isinstance(model, Model)
    assert [len(text) for text in generate(model, count=2)] == [16, 16]
    assert model.name == "mine"

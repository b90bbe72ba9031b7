"""Block-causal models of Hugging Face: how each family is called, what it says with blocks kept, what is refused.

The stand-ins have the arguments, conventions and caches of LLaDA 2.x, SDAR, Fast-dLLM v2 and BD3-LM, and nothing else
of them; `test_real_blocks.py` runs the published code.
"""

import json

import pytest

torch = pytest.importorskip("torch", reason="models need torch")
pytest.importorskip("transformers", reason="models of Hugging Face need transformers")

from safetensors.torch import load_file, save_file  # noqa: E402

import tiny  # noqa: E402
from unmask import models, order, size  # noqa: E402
from unmask._check import InputError  # noqa: E402
from unmask.evaluate import replay  # noqa: E402
from unmask.models import hf, stretches  # noqa: E402
from unmask.predict import Blockwise, device_of, networks_of  # noqa: E402
from unmask.sample import Sampler  # noqa: E402
from unmask.schedule import Schedule  # noqa: E402
from unmask.sequences import Sequences  # noqa: E402

BLOCK, MASK, UNK = 4, 4, 1
LENGTH = 14
BLOCKED = Schedule(size.Even(2), order.Blocks(order.Comb(), BLOCK, start=0))

CORE = """
import torch
from transformers import PretrainedConfig, PreTrainedModel
from transformers.modeling_outputs import CausalLMOutputWithPast


class TinyConfig(PretrainedConfig):
    model_type = "KIND"

    def __init__(self, width=16, vocab_size=16, max_position_embeddings=24, **others):
        self.width, self.vocab_size, self.max_position_embeddings = width, vocab_size, max_position_embeddings
        super().__init__(**others)


class Layer(torch.nn.Module):
    def __init__(self, width, number):
        super().__init__()
        self.number = number
        self.query, self.key, self.value, self.out = (torch.nn.Linear(width, width) for _ in range(4))

    def forward(self, x, seen, join):
        query, key, value = (each(x)[:, None] for each in (self.query, self.key, self.value))
        key, value = join(key, value, self.number)
        scores = (query @ key.transpose(2, 3) / 2).masked_fill(~seen, -torch.inf)
        return x + torch.tanh(self.out((torch.softmax(scores, dim=-1) @ value)[:, 0]))


class TinyModel(PreTrainedModel):
    config_class = TinyConfig
    base_model_prefix = "model"
    _tied_weights_keys = {}

    def __init__(self, config):
        super().__init__(config)
        self.embed = torch.nn.Embedding(config.vocab_size, config.width)
        self.place = torch.nn.Embedding(config.max_position_embeddings, config.width)
        self.layers = torch.nn.ModuleList(Layer(config.width, number) for number in range(2))
        self.head = torch.nn.Linear(config.width, config.vocab_size, bias=False)
        self.post_init()

    def get_input_embeddings(self):
        return self.embed

    def get_output_embeddings(self):
        return self.head

    def tie_weights(self, *values, **options):
        pass

    def states(self, input_ids, position_ids, seen, join):
        x = self.embed(input_ids) + self.place(position_ids)
        for layer in self.layers:
            x = layer(x, seen, join)
        return x
"""

ADDED = """
    def forward(self, input_ids=None, attention_mask=None, position_ids=None, past_key_values=None, use_cache=None):
        length = input_ids.shape[1]
        start = 0 if past_key_values is None else past_key_values.get_seq_length()
        if attention_mask is None:  # its backbone is an autoregressive one
            attention_mask = torch.ones(length, start + length).tril(start).log()[None, None]
        assert attention_mask.dim() == 4
        assert attention_mask.is_floating_point()
        join = (lambda key, value, number: (key, value)) if past_key_values is None else past_key_values.update
        x = self.states(input_ids, position_ids, attention_mask == 0, join)
        return CausalLMOutputWithPast(logits=self.head(x), past_key_values=past_key_values)

    def generate(self, inputs=None, block_length=4, steps=4, mask_id=4):
        raise NotImplementedError
"""

STORED = """
    def forward(self, input_ids=None, attention_mask=None, position_ids=None, past_key_values=None, **others):
        if past_key_values is None:
            join = lambda key, value, number: (key, value)
        else:
            assert others["use_cache"]
            assert others["store_kv"]  # otherwise nothing would be added to the cache
            join = past_key_values.update
        seen = torch.tensor(True) if attention_mask is None else attention_mask.bool()
        return CausalLMOutputWithPast(logits=self.head(self.states(input_ids, position_ids, seen, join)))
"""

UPDATED = """
    def forward(self, input_ids=None, attention_mask=None, position_ids=None, past_key_values=None, use_cache=None,
                update_past_key_values=False, block_size=32):
        start = 0 if past_key_values is None else past_key_values.get_seq_length()
        place = torch.arange(start, start + input_ids.shape[1])
        seen = place[:, None] // block_size >= torch.arange(start + input_ids.shape[1]) // block_size
        join = lambda key, value, number: (key, value)
        if past_key_values is not None:
            assert update_past_key_values
            join = lambda key, value, number: past_key_values.update(key, value, number, {"cache_position": place})
        return CausalLMOutputWithPast(logits=self.head(self.states(input_ids, place[None], seen, join)))
"""

WINDOWED = '''
    def __init__(self, config):
        PreTrainedModel.__init__(self, config)
        self.backbone = Backbone(config)
        self.post_init()

    def get_output_embeddings(self):
        return None

    def get_input_embeddings(self):
        return self.backbone.embed

    def forward(self, input_ids=None, timesteps=None, sample_mode=None, store_kv=None, return_dict=None):
        assert timesteps.shape == input_ids.shape[:1]
        assert sample_mode
        return CausalLMOutputWithPast(logits=self.backbone(input_ids))


class Part(torch.nn.Module):
    """Keeps what is not turned by its place yet, as BD3-LM does."""

    def __init__(self, config):
        super().__init__()
        self.block_size, self.kv_cache, self.cache_idx = config.block_size, None, 0
        self.joint = torch.nn.Linear(config.width, 3 * config.width)
        self.out = torch.nn.Linear(config.width, config.width)

    def forward(self, x, place, seen):
        joint = self.joint(x)
        if self.kv_cache is not None:
            self.kv_cache[:, self.cache_idx : self.cache_idx + self.block_size] = joint
            joint = self.kv_cache[:, : self.cache_idx + self.block_size].clone()
        query, key, value = (joint + place[: joint.shape[1]].repeat(1, 3)).chunk(3, dim=-1)
        scores = query @ key.transpose(1, 2) / 2
        scores = scores if seen is None else scores.masked_fill(~seen, -torch.inf)
        mixed = torch.softmax(scores, dim=-1) @ value
        mixed = mixed if self.kv_cache is None else mixed[:, -self.block_size :]
        return x + torch.tanh(self.out(mixed))


class Backbone(torch.nn.Module):
    def __init__(self, config):
        super().__init__()
        self.block_size = config.block_size
        self.embed = torch.nn.Embedding(config.vocab_size, config.width)
        self.place = torch.nn.Embedding(config.max_position_embeddings, config.width)
        self.blocks = torch.nn.ModuleList(Part(config) for _ in range(2))
        self.head = torch.nn.Linear(config.width, config.vocab_size)

    def forward(self, tokens):
        x, seen = self.embed(tokens), None
        if self.blocks[0].kv_cache is None:
            number = torch.arange(tokens.shape[1]) // self.block_size
            seen = number[:, None] >= number
        for part in self.blocks:
            x = part(x, self.place.weight, seen)
        return self.head(x)
'''

BD3 = {"block_size": BLOCK, "time_conditioning": False, "causal": False, "cross_attn": True}
KINDS = {
    "LLaDA 2": (CORE.replace("KIND", "llada2_moe").replace("TinyModel", "LLaDA2MoeModelLM") + ADDED, {}),
    "SDAR": (CORE.replace("KIND", "sdar").replace("TinyModel", "SDARForCausalLM") + STORED, {"block_size": BLOCK}),
    "Fast-dLLM v2": (
        CORE.replace("KIND", "Fast_dLLM_Qwen").replace("TinyModel", "Fast_dLLM_QwenForCausalLM") + UPDATED,
        {"bd_size": BLOCK},
    ),
    "BD3-LM": (CORE.replace("KIND", "bd3lm").replace("TinyModel", "BD3LM") + WINDOWED, BD3),
}
MARKED = '\nopen(MARK, "w").write("the code of the model ran")\n'


def saved(folder, kind, code=None, **changes):
    """A folder with a tiny model of a family, and the network."""
    folder.mkdir(parents=True, exist_ok=True)
    written, config = KINDS[kind]
    written = code or written
    model = next(line.split()[1].split("(")[0] for line in written.splitlines() if "(PreTrainedModel)" in line)
    loader = "AutoModelForMaskedLM" if kind == "BD3-LM" else "AutoModelForCausalLM"
    config = {name: value for name, value in (config | changes).items() if value is not None}
    made = tiny.foreign(
        folder, written + MARKED, mark=folder / "ran", classes=("TinyConfig", model), loader=loader, **config
    )
    tiny.tokenizer(folder, [*tiny.WORDS, "more"], framed=False, eos_token="[SEP]", sep_token=None, cls_token=None)
    return made


@pytest.fixture(scope="module", params=KINDS)
def loaded(request, tmp_path_factory):
    folder = tmp_path_factory.mktemp("stretches") / "model"
    saved(folder, request.param)
    return request.param, models.load(f"hf:{folder}", trust_remote_code=True)


def full(kind, network, tokens):
    """What the model's own loop would be told without any cache."""
    number = torch.arange(tokens.shape[1]) // BLOCK
    seen, place = number[:, None] >= number, torch.arange(tokens.shape[1])[None]
    if kind == "LLaDA 2":
        return network(input_ids=tokens, attention_mask=seen.float().log()[None, None], position_ids=place).logits
    if kind == "SDAR":
        return network(input_ids=tokens, attention_mask=seen[None].float(), position_ids=place).logits
    if kind == "Fast-dLLM v2":
        logits = network(input_ids=tokens, block_size=BLOCK).logits
        return torch.cat([logits[:, :1], logits[:, :-1]], dim=1)
    return network(input_ids=tokens, timesteps=torch.zeros(len(tokens)), sample_mode=True).logits


def inner(model):
    found = model.predictor
    while not isinstance(found, Blockwise):
        found = found.predictor
    return found


@pytest.mark.parametrize(
    "schedule",
    [
        BLOCKED,
        Schedule(size.Threshold(0.2), order.Blocks(order.Margin(), BLOCK)),
        Schedule(size.Even(5), order.Random()),
    ],
    ids=["its blocks", "other blocks", "all over"],
)
def test_every_step_is_told_what_the_model_says_without_a_cache(loaded, schedule):
    kind, model = loaded
    tokens = torch.randint(5, 16, (4, LENGTH), generator=torch.Generator().manual_seed(0))
    masked = torch.arange(LENGTH) >= torch.tensor([1, 5, 8, 3])[:, None]
    sampler = Sampler(model.predictor, schedule)
    state = sampler.init(tokens, masked, rng=range(4))
    for after, step in sampler.steps(state):
        with torch.no_grad():
            logits = full(kind, model.module, state.tokens).flatten(0, 1)[step.rows]
        logits[:, [MASK, UNK]] = -torch.inf  # neither is ever drawn
        said = torch.log_softmax(logits, dim=-1).gather(1, step.tokens[:, None])[:, 0]
        assert torch.allclose(said.double(), step.log_probability, atol=1e-5)
        state = after
    assert not bool(state.masked.any())


def test_a_step_runs_a_block_or_two(loaded, monkeypatch):
    kind, model = loaded
    network, runs = inner(model).network, []
    run = type(network).run

    def counted(self, tokens, start, join):
        runs.append((start, tokens.shape[1]))
        return run(self, tokens, start, join)

    monkeypatch.setattr(type(network), "run", counted)
    Sampler(model.predictor, BLOCKED).run((1, 12), rng=[0])
    if kind == "BD3-LM":  # one block at a time
        assert runs == [(0, 4), (0, 4), (0, 4), (4, 4), (4, 4), (4, 4), (8, 4), (8, 4)]
    else:
        assert [length for _, length in runs] == [4, 4, 8, 4, 8, 4]


def test_lengths_and_prompts_share_a_batch_and_replay_agrees(loaded):
    _, model = loaded
    rows = [[5, 6, *[7] * 9], [8, 9, 10], [5, *[6] * 6]]
    hidden = [[False, False, *[True] * 9], [False, True, True], [False, *[True] * 6]]
    texts = Sequences.of(rows, hidden)
    trace = Sampler(model.predictor, BLOCKED).fill(texts, rng=range(3))
    for number, (row, open_) in enumerate(zip(rows, hidden, strict=True)):
        alone = Sampler(model.predictor, BLOCKED).run(torch.tensor([row]), torch.tensor([open_]), rng=[number])
        assert torch.equal(alone.tokens[0], trace.tokens[number, : len(row)])
        assert torch.allclose(alone.log_probability[0], trace.log_probability[number, : len(row)], atol=1e-5)
        again = replay(model.predictor, BLOCKED, alone.tokens, masked=torch.tensor([open_]), rng=[number])
        assert float(again.nll[0]) == pytest.approx(float(alone.nll[0]), abs=1e-5)


def test_what_is_known_of_a_model_is_read_from_it(loaded):
    kind, model = loaded
    assert model.about["family"] == kind
    assert inner(model).network.block == BLOCK
    assert inner(model).mask == MASK
    assert inner(model).vocab == 16
    assert model.module in networks_of(model.predictor)
    assert device_of(model.predictor) == torch.device("cpu")
    assert (inner(model).network.head is None) == (kind == "BD3-LM")
    assert len(model.texts(Sampler(model.predictor, BLOCKED).run((1, 8), rng=[0]))) == 1


def test_the_mask_and_the_blocks_may_be_those_of_the_models_own_loop(tmp_path):
    saved(tmp_path, "LLaDA 2", mask_token_id=None)
    described = json.loads((tmp_path / "config.json").read_text())
    del described["mask_token_id"]
    (tmp_path / "config.json").write_text(json.dumps(described))
    kept = {"eos_token": "[SEP]", "additional_special_tokens": ["[MASK]"]}
    tiny.tokenizer(tmp_path, framed=False, mask_token=None, sep_token=None, cls_token=None, **kept)
    model = models.load(f"hf:{tmp_path}", trust_remote_code=True)
    assert (inner(model).mask, inner(model).network.block) == (4, 4)


@pytest.mark.parametrize(
    ("kind", "change", "words"),
    [
        ("SDAR", {"block_size": None}, "say how many positions its blocks have"),
        ("BD3-LM", {"time_conditioning": True}, "without time conditioning"),
        ("BD3-LM", {"causal": True}, "be a BD3-LM with blocks"),
    ],
)
def test_what_cannot_be_used_is_refused_in_a_sentence(tmp_path, kind, change, words):
    saved(tmp_path, kind, **change)
    with pytest.raises(InputError, match=words):
        models.load(f"hf:{tmp_path}", trust_remote_code=True)


@pytest.mark.parametrize("kind", KINDS)
def test_a_tokenizer_that_puts_tokens_around_a_text_is_refused(tmp_path, kind):
    """They would shift the text against the blocks of the model."""
    saved(tmp_path, kind)
    tiny.tokenizer(tmp_path, [*tiny.WORDS, "more"], eos_token="[SEP]")
    with pytest.raises(InputError, match=r"adds nothing around a text, because the blocks of '.*' are counted from"):
        models.load(f"hf:{tmp_path}", trust_remote_code=True)


def stored_as(folder, dtype, times=1):
    """The weights of a folder in another type, and larger."""
    values = load_file(folder / "model.safetensors")
    values = {name: (times * value).to(dtype) for name, value in values.items()}
    save_file(values, folder / "model.safetensors", metadata={"format": "pt"})


DTYPES = [torch.float32, torch.float16, torch.bfloat16]


@pytest.mark.parametrize("dtype", DTYPES)
def test_a_model_that_does_not_look_at_its_mask_is_refused(tmp_path, dtype):
    code = KINDS["SDAR"][0].replace("attention_mask.bool()", "torch.tensor(True)")
    saved(tmp_path, "SDAR", code)
    stored_as(tmp_path, dtype)
    with pytest.raises(InputError, match="be block-causal"):
        models.load(f"hf:{tmp_path}", trust_remote_code=True)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "BD3-LM"])
def test_a_block_causal_model_is_taken_with_weights_of_any_type(tmp_path, kind, dtype):
    saved(tmp_path, kind)
    stored_as(tmp_path, dtype)
    model = models.load(f"hf:{tmp_path}", trust_remote_code=True)
    assert next(model.module.parameters()).dtype == dtype
    assert inner(model).network.head is not None


def test_what_blocks_at_once_are_told_may_differ_by_the_rounding_of_a_deep_network(tmp_path):
    rounded = "1 + 0.01 * (input_ids.shape[1] > 4)"
    saved(tmp_path, "SDAR", KINDS["SDAR"][0].replace("logits=self.head(", f"logits=({rounded}) * self.head("))
    with pytest.raises(InputError, match="be block-causal"):
        models.load(f"hf:{tmp_path}", trust_remote_code=True)
    stored_as(tmp_path, torch.bfloat16, times=20)
    assert models.load(f"hf:{tmp_path}", trust_remote_code=True).about["family"] == "SDAR"


@pytest.mark.parametrize("dtype", DTYPES)
def test_an_output_layer_after_which_something_follows_is_not_taken_apart(tmp_path, dtype):
    code = KINDS["SDAR"][0].replace("logits=self.head(", "logits=0.2 + self.head(")
    saved(tmp_path, "SDAR", code)
    stored_as(tmp_path, dtype, times=20)
    assert inner(models.load(f"hf:{tmp_path}", trust_remote_code=True)).network.head is None


def test_the_code_of_a_model_runs_only_if_it_is_allowed(tmp_path):
    saved(tmp_path, "SDAR")
    with pytest.raises(InputError, match="comes with its own Python code"):
        models.load(f"hf:{tmp_path}")
    assert not (tmp_path / "ran").exists()


def test_every_family_in_blocks_has_a_way_to_be_called():
    kinds = {each.name: each.blocks for each in hf.FAMILIES if each.blocks is not None}
    assert kinds == {
        "LLaDA 2": stretches.Added,
        "SDAR": stretches.Stored,
        "Fast-dLLM v2": stretches.Updated,
        "BD3-LM": stretches.Windowed,
    }

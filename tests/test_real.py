"""Engines that only a repository has: our adapters inside their own code, where there is a checkout of it.

UNMASK_DLLM=…/dllm UNMASK_LLADA=…/LLaDA pytest tests/test_real.py

Without these the tests are skipped. Dream's modeling code is in a wheel too, which `make test` downloads. The result
of every release stands in docs/integrations.md; CONTRIBUTING says how to get it.
"""

import ast
import contextlib
import importlib.util
import io
import re
import sys
from functools import partial
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers", reason="models of Hugging Face need transformers")

import real  # noqa: E402
import standins  # noqa: E402
from test_integrations import section  # noqa: E402
from toy import table_model  # noqa: E402
from unmask import models, order, size  # noqa: E402
from unmask._check import InputError  # noqa: E402
from unmask.adapters.dream import TokensHook  # noqa: E402
from unmask.adapters.llada import transfer_counts  # noqa: E402
from unmask.predict import Counted, Headed, Logits  # noqa: E402
from unmask.sample import Sampler  # noqa: E402
from unmask.sample.draw import Categorical, Greedy  # noqa: E402
from unmask.schedule import Schedule  # noqa: E402

END, MASK = real.END, real.MASK
FOUR = int(transformers.__version__.split(".")[0]) == 4
SCHEDULES = [
    Schedule(size.Even(4), order.Comb()),
    Schedule(size.TC(4), order.Random()),
    Schedule(size.Threshold(0.5), order.Confidence()),
    Schedule(size.Even(2), order.Blocks(order.Entropy(), 4)),
]
needs_four = pytest.mark.skipif(not FOUR, reason="LLaDA's and Dream's code is for transformers 4: 'transformers<5'")
WHEEL = Path(sys.prefix) / "wheels" / "xlm_core-0.3.1-py3-none-any.whl"


def parts(source):
    """The classes and functions of a file by name; what is in a class as `Class.name`."""
    found = {}
    for node in ast.parse(source).body:
        if isinstance(node, ast.ClassDef | ast.FunctionDef):
            found[node.name] = node
            for inner in node.body if isinstance(node, ast.ClassDef) else ():
                if isinstance(inner, ast.FunctionDef):
                    found[f"{node.name}.{inner.name}"] = inner
                elif isinstance(inner, ast.AnnAssign):
                    found[f"{node.name}.{inner.target.id}"] = inner
    return found


def takes(function):
    return [each.arg for each in (*function.args.args, *function.args.kwonlyargs)]


@pytest.fixture(scope="session")
def dllm():
    return real.checkout("UNMASK_DLLM", "dllm")


@pytest.fixture(scope="session")
def generate():
    """LLaDA's generate.py."""
    return real.checkout("UNMASK_LLADA", "LLaDA's loop") / "generate.py"


@pytest.fixture(scope="session")
def folders(dllm, tmp_path_factory):
    made = {}
    for kind in ("llada", "dream"):
        folder = tmp_path_factory.mktemp("real") / kind
        folder.mkdir()
        made[kind] = folder, getattr(real, kind)(folder, dllm)
    return made


@pytest.fixture
def loaded(folders):
    return {kind: models.load(f"hf:{folder}", trust_remote_code=True) for kind, (folder, _) in folders.items()}


# The wheel of xlm-core: Dream's modeling code, in CI


@pytest.fixture
def wheel(tmp_path):
    if not WHEEL.exists():
        pytest.skip("the wheel of xlm-core is not there: pip download --no-deps xlm-core==0.3.1 into .venv/wheels")
    (tmp_path / "dream").mkdir()
    return tmp_path / "dream", real.wheel(tmp_path / "dream", WHEEL)


def test_dream_s_modeling_code_is_what_the_stand_in_says(wheel):
    found = parts((wheel[0] / "modeling_dream.py").read_text())
    assert takes(found["DreamModel.forward"])[1:3] == ["input_ids", "attention_mask"]
    assert "DreamModel.get_output_embeddings" in found
    config = ast.unparse(parts((wheel[0] / "configuration_dream.py").read_text())["DreamConfig"])
    assert "model_type = 'Dream'" in config
    assert "self.mask_token_id = mask_token_id" in config


def test_dream_s_modeling_code_loads_or_says_which_transformers_it_needs(wheel):
    check_loading(*wheel, "Dream")


def check_loading(folder, network, family):
    """Under transformers 4 the predictions are the network's own; under 5 a sentence says what to install."""
    if not FOUR:
        with pytest.raises(InputError) as caught:
            models.load(f"hf:{folder}", trust_remote_code=True)
        said = f"comes with code that was written for transformers 4.46.3 and fails under {transformers.__version__}: "
        assert said in str(caught.value)
        assert str(caught.value).endswith("Run: pip install 'transformers<5'")
        return
    model = models.load(f"hf:{folder}", trust_remote_code=True)
    assert model.about["family"] == family
    tokens = torch.tensor([[5, 6, MASK, 9, MASK, 7]])
    with torch.no_grad():
        logits = network(input_ids=tokens).logits[0]
        got = model.predictor(tokens, tokens == MASK, torch.tensor([2, 4])).logits()
    wanted = logits[[1, 3]] if family == "Dream" else logits[[2, 4]]
    drawn = torch.isfinite(got)
    assert drawn.any(dim=0).sum() > 10
    assert torch.allclose(got[drawn], wanted[drawn], atol=1e-5)
    assert not drawn[:, MASK].any()
    assert not drawn[:, len(real.WORDS) :].any()  # the last outputs are no tokens


# dllm


def test_dllm_s_classes_are_those_of_the_stand_in(dllm):
    found = parts((dllm / "dllm" / "core" / "samplers" / "base.py").read_text())
    for ours in (standins.BaseSampler, standins.BaseSamplerConfig, standins.BaseSamplerOutput):
        for field in ours.__dataclass_fields__:
            assert f"{ours.__name__}.{field}" in found, "dllm's classes have changed"
    for name in ("sample", "infill"):
        assert takes(found[f"BaseSampler.{name}"])[2:] == ["config"]
    harness = (dllm / "dllm" / "core" / "eval" / "base.py").read_text()
    for call in ("sampler_cls(model=self.model, tokenizer=self.tokenizer)", "inputs=prompts", "return_dict=False"):
        assert call in harness, "dllm's evaluation makes its sampler in another way"


@pytest.fixture
def module(dllm, monkeypatch):
    """Our adapter, imported with the engine itself."""
    monkeypatch.syspath_prepend(str(dllm))
    return importlib.import_module("unmask.adapters.dllm")


@pytest.fixture
def sampler(module, folders, loaded):
    folder, network = folders["llada"]
    return module.UnmaskSampler(model=network, tokenizer=transformers.AutoTokenizer.from_pretrained(folder))


@needs_four
@pytest.mark.parametrize("schedule", SCHEDULES, ids=repr)
def test_dllm_s_sampler_writes_what_our_own_writes(sampler, folders, schedule):
    """Without padding: prompts of one length. The outputs that are no tokens are never drawn by either."""
    from unmask.predict import Suppressed

    network = folders["llada"][1]
    predictor = Suppressed(Logits(network, real.PADDED, MASK), list(range(len(sampler.tokenizer), real.PADDED)))
    start = torch.nn.functional.pad(torch.tensor([[5, 6, 7], [8, 9, 10]]), (0, 12), value=MASK)
    wanted = Sampler(predictor, schedule).run(start, rng=[3, 4]).tokens
    found = sampler.sample([[5, 6, 7], [8, 9, 10]], schedule=schedule, rng=[3, 4], max_new_tokens=12)
    assert torch.equal(found, wanted)
    output = sampler.infill(start.tolist(), schedule=schedule, rng=[3, 4], return_dict=True)
    assert torch.equal(output.sequences, wanted)
    assert torch.equal(output.histories[-1], wanted)


@needs_four
def test_dllm_s_documented_example_runs(sampler):
    block, expected = section("dllm")
    output = io.StringIO()
    with contextlib.redirect_stdout(output):
        exec(compile(block, "dllm", "exec"), {"model": sampler.model, "tokenizer": sampler.tokenizer})
    assert output.getvalue().splitlines() == expected


@needs_four
def test_dllm_s_sampler_answers_mistakes_in_one_sentence(sampler):
    for options, message in (
        ({"rng": 0}, "Argument 'schedule' must be set in the configuration."),
        ({"rng": 0, "schedule": "comb"}, "Argument 'schedule' must be the name of a schedule, or a file, not 'comb'."),
        ({"steps": 4}, "Argument 'config' must be a known name, not 'steps'."),
    ):
        with pytest.raises(InputError) as caught:
            sampler.sample([[5]], **options)
        assert str(caught.value).startswith(message)


@needs_four
def test_dllm_s_evaluation_runs_with_our_sampler_and_words(module, folders, monkeypatch):
    from lm_eval.api.instance import Instance

    modeling = importlib.import_module("dllm.pipelines.llada.models.modeling_llada")
    made = modeling.LLaDAModel.__init__

    def here(self, config, init_params=True):
        config.init_device = "cpu"  # the engine makes its models on a GPU
        made(self, config, init_params)

    monkeypatch.setattr(modeling.LLaDAModel, "__init__", here)
    harness = importlib.import_module("dllm.core.eval.mdlm").MDLMEvalHarness
    lm = harness(
        sampler_cls=module.UnmaskSampler, sampler_config=module.UnmaskSamplerConfig(rng=0), device="cpu",
        pretrained=str(folders["llada"][0]), dtype="float32", schedule="comb/even:4", max_new_tokens=8, batch_size=2,
    )  # fmt: skip
    assert lm.sampler_config.schedule == "comb/even:4"
    requests = [Instance("generate_until", {}, (text, {"until": ["."]}), 0) for text in ("the cat", "a dog sat")]
    answers = lm.generate_until(requests)
    assert len(answers) == 2
    assert all(isinstance(each, str) for each in answers)
    wanted = lm.sampler.sample(
        [torch.tensor(lm.tokenizer(text)["input_ids"]) for text in ("the cat", "a dog sat")],
        schedule=SCHEDULES[0], rng=0, max_new_tokens=8,
    )  # fmt: skip
    ends = [row[: row.index(END)] if END in row else row for row in (wanted[0, 2:10].tolist(), wanted[1, 3:].tolist())]
    for answer, row in zip(answers, ends, strict=True):
        assert answer == lm.tokenizer.decode(row, skip_special_tokens=True).split(".")[0]


# hf: and model.generate(custom_generate=…)


@pytest.mark.parametrize(("kind", "family"), [("llada", "LLaDA"), ("dream", "Dream")])
def test_the_real_code_loads_or_says_which_transformers_it_needs(folders, kind, family):
    check_loading(*folders[kind], family)


@needs_four
@pytest.mark.parametrize("kind", ["llada", "dream"])
def test_the_real_code_runs_its_output_layer_where_it_is_needed(loaded, kind):
    inner = loaded[kind].predictor
    while not isinstance(inner, Headed):
        inner = inner.predictor
    assert isinstance(inner.head, torch.nn.Linear)


@needs_four
@pytest.mark.parametrize("kind", ["llada", "dream"])
def test_a_checkpoint_of_the_real_code_that_lacks_a_weight_is_refused(folders, tmp_path, kind):
    import shutil

    from safetensors.torch import load_file, save_file

    folder = tmp_path / kind
    shutil.copytree(folders[kind][0], folder)
    values = load_file(folder / "model.safetensors")
    last = list(values)[-1]
    save_file({key: value for key, value in values.items() if key != last}, folder / "model.safetensors")
    with pytest.raises(InputError, match=f"lacks 1 of them, such as '{last}'"):
        models.load(f"hf:{folder}", trust_remote_code=True)


@needs_four
@pytest.mark.parametrize("schedule", SCHEDULES, ids=repr)
def test_llada_s_generate_with_ours_writes_what_our_sampler_writes(folders, loaded, schedule):
    from unmask.adapters.transformers import Generate

    folder, _ = folders["llada"]
    model = transformers.AutoModelForCausalLM.from_pretrained(folder, trust_remote_code=True).eval()
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    prompts = tokenizer(["the cat sat", "a dog on"], return_tensors="pt")["input_ids"]
    start = torch.nn.functional.pad(prompts, (0, 12), value=MASK)
    wanted = Sampler(loaded["llada"].predictor, schedule).run(start, rng=[3, 4]).tokens
    generate = Generate(schedule, rng=[3, 4], vocab=len(tokenizer))
    options = {"max_new_tokens": 12, "do_sample": True, "top_k": 0, "suppress_tokens": [1, 2]}
    found = model.generate(prompts, custom_generate=generate, eos_token_id=None, **options)
    assert torch.equal(found, wanted)
    ended = model.generate(prompts, custom_generate=generate, eos_token_id=END, pad_token_id=END, **options)
    for row, whole in zip(ended.tolist(), wanted.tolist(), strict=True):
        stop = whole.index(END, 3) if END in whole[3:] else len(whole)
        assert row == whole[:stop] + [END] * (len(whole) - stop)


@needs_four
def test_padding_on_the_left_is_hidden_from_llada(folders):
    from unmask.adapters.transformers import Generate

    folder, _ = folders["llada"]
    model = transformers.AutoModelForCausalLM.from_pretrained(folder, trust_remote_code=True).eval()
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder, padding_side="left")
    generate = Generate(Schedule(size.Even(4), order.Confidence()), rng=0, vocab=len(tokenizer))
    options = {"max_new_tokens": 8, "custom_generate": generate, "eos_token_id": None}
    both = tokenizer(["the cat sat on", "a dog"], padding=True, return_tensors="pt")
    mask = both["attention_mask"]
    assert mask.tolist() == [[1, 1, 1, 1], [0, 0, 1, 1]]
    found = model.generate(both["input_ids"], attention_mask=mask, **options)
    alone = model.generate(tokenizer("a dog", return_tensors="pt")["input_ids"], **options)
    assert torch.equal(found[1, 2:], alone[0])


# Dream's hook


def test_dream_s_loop_calls_its_hook_as_the_stand_in_does(dllm):
    found = parts((dllm / "dllm" / "pipelines" / "dream" / "models" / "generation_utils.py").read_text())
    loop = ast.unparse(found["DreamGenerationMixin._sample"])
    before, after = loop.split("for i in range(steps):")
    assert "x = generation_tokens_hook_func(None, x, None)" in before
    assert "x = generation_tokens_hook_func(i, x, logits)" in after
    assert "torch.cat([logits[:, :1], logits[:, :-1]], dim=1)" in after


@needs_four
@pytest.mark.parametrize("schedule", SCHEDULES, ids=repr)
@pytest.mark.parametrize("draw", [Categorical(), Greedy()], ids=repr)
def test_dream_with_our_hook_writes_what_our_sampler_writes(folders, loaded, schedule, draw):
    network = folders["dream"][1]
    prompts = torch.tensor([[5, 6, 7], [8, 9, 10]])
    start = torch.nn.functional.pad(prompts, (0, 12), value=MASK)
    from unmask.predict import Shifted

    counted = Counted(Shifted(Logits(network, len(real.WORDS), MASK)))
    wanted = Sampler(counted, schedule, draw).run(start, rng=[3, 4]).tokens
    hook = TokensHook(schedule, MASK, [3, 4], draw)
    calls = []
    watch = network.register_forward_hook(lambda *values: calls.append(1))
    try:
        config = type(loaded["dream"].module.generation_config)(mask_token_id=MASK, pad_token_id=END)
        found = network.diffusion_generate(
            prompts, generation_config=config, max_new_tokens=12, steps=hook.steps(12),
            generation_tokens_hook_func=hook,
        )  # fmt: skip
    finally:
        watch.remove()
    assert torch.equal(found, wanted)
    assert len(calls) == hook.steps(12)


@needs_four
def test_dream_s_documented_example_runs(folders, loaded):
    block, expected = section("Dream")
    network = loaded["dream"].module
    output = io.StringIO()
    with contextlib.redirect_stdout(output):
        exec(compile(block, "Dream", "exec"), {"model": network, "prompt": torch.tensor([[5, 6, 7]])})
    assert output.getvalue().splitlines() == expected


# LLaDA's loop


@pytest.fixture
def loop(generate):
    spec = importlib.util.spec_from_file_location("llada_generate", generate)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


class Table(torch.nn.Module):
    """A table of logits as LLaDA's loop calls a model."""

    device = torch.device("cpu")

    def __init__(self, length):
        super().__init__()
        self.table, self.calls = table_model(6, length, 3, torch.float64), 0

    def forward(self, tokens, attention_mask=None):
        from types import SimpleNamespace

        self.calls += 1
        return SimpleNamespace(logits=self.table(tokens))


def test_llada_s_loop_asks_for_its_counts_as_the_stand_in_does(generate):
    found = parts(generate.read_text())
    assert takes(found["get_num_transfer_tokens"]) == ["mask_index", "steps"]
    named = ["model", "prompt", "steps", "gen_length", "block_length", "temperature", "remasking", "mask_id"]
    assert set(named) <= set(takes(found["generate"]))
    body = ast.unparse(found["generate"])
    assert "get_num_transfer_tokens(block_mask_index, steps)" in body
    assert re.search(r"for i in range\(steps\):", body)
    assert "k=num_transfer_tokens[j, i]" in body


def test_even_counts_are_llada_s_own(loop):
    mask_index = torch.arange(40) < torch.tensor([0, 1, 5, 16, 33, 40])[:, None]
    for steps in (1, 3, 7, 16, 40, 64):
        assert torch.equal(
            transfer_counts(mask_index, steps, size.Even), loop.get_num_transfer_tokens(mask_index, steps)
        )


@pytest.mark.parametrize("remasking", ["low_confidence", "random"])
@pytest.mark.parametrize("family", [size.Even, size.Cosine, size.LogLinear, size.TC, size.ChenDTC, size.Universal])
def test_llada_s_loop_runs_to_its_end_with_our_counts(loop, family, remasking):
    loop.get_num_transfer_tokens = partial(transfer_counts, size=family, generator=torch.Generator().manual_seed(0))
    model, prompt = Table(11), torch.tensor([[1, 2, 3], [4, 5, 0]])
    options = {"steps": 12, "gen_length": 8, "block_length": 4, "mask_id": 6, "remasking": remasking}
    tokens = loop.generate(model, prompt, **options)
    assert model.calls == 12
    assert not (tokens == 6).any()


@pytest.mark.parametrize("chosen", [size.Cosine, size.Even, size.Ceil])
def test_llada_s_loop_with_our_counts_is_our_sampler(loop, chosen):
    """And the stand-in in the other tests is this loop."""
    loop.get_num_transfer_tokens = partial(transfer_counts, size=chosen)
    model, prompt = Table(11), torch.tensor([[1, 2, 3], [4, 5, 0]])
    found = loop.generate(model, prompt, steps=6, gen_length=8, block_length=4, mask_id=6)
    schedule = Schedule(chosen(3), order.Blocks(order.Confidence(), 4))
    start = torch.nn.functional.pad(prompt, (0, 8), value=6)
    assert torch.equal(found, Sampler(Logits(model, 6, 6), schedule, Greedy()).run(start, rng=[1, 2]).tokens)
    counts = partial(transfer_counts, size=chosen)
    options = {"steps": 6, "gen_length": 8, "block_length": 4, "mask": 6}
    assert torch.equal(found, standins.llada_generate(model.table, prompt, counts, **options)[0])

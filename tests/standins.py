"""Stand-ins for engines that cannot be installed everywhere, written from their contracts.

`sglang`: `DllmAlgorithm` with its two loops (all blocks of a batch together; or each handed back as soon as it is
done), what it is made from and given, and the registry of algorithms, as in SGLang 0.5.23; `real_sglang` compares
names and signatures with the engine's own. `Dream`: its loop around a model. `llada_generate`: LLaDA's. `dllm`: the
three classes that a sampler is made of, under the names they have had since February 2026. `tests/test_real.py` holds
the last three to the engines themselves, where there is a checkout of them.
"""

import dataclasses
import importlib
import sys
import types
from abc import ABC, abstractmethod

import pytest

torch = pytest.importorskip("torch")


@dataclasses.dataclass
class DllmConfig:
    algorithm: str
    algorithm_config: dict
    block_size: int
    mask_id: int
    max_running_requests: int
    first_done_first_out_mode: bool = False


@dataclasses.dataclass
class ForwardBatch:
    forward_mode: object
    batch_size: int
    input_ids: object
    req_pool_indices: object
    seq_lens: object
    out_cache_loc: object
    seq_lens_sum: int
    sampling_info: object = None
    dllm_prompt_mask: object = None


class DllmAlgorithm:
    def __init__(self, config):
        self.block_size, self.mask_id, self.fdfo = config.block_size, config.mask_id, config.first_done_first_out_mode

    def init_step_state(self, forward_batch):
        return [None] * forward_batch.batch_size

    @classmethod
    def validate_request(cls, req):
        return None

    def max_steps(self, block_size):
        return block_size + 1

    def step(self, forward_batch, full_logits, states):
        raise NotImplementedError

    def run(self, model_runner, forward_batch, algo_states=None):
        """One round: until all blocks are done, or with `fdfo` a single step.

        Answers the last output, the tokens (of the answer; of the whole block with `fdfo`), and with `fdfo` how many of
        them stay and the states to carry on with.
        """
        out, rows = None, forward_batch.batch_size
        tokens = forward_batch.input_ids.view(rows, self.block_size)
        if not self.fdfo:
            starts = (tokens != self.mask_id).sum(dim=1).tolist()
            states = self.init_step_state(forward_batch)
            out = model_runner.forward(forward_batch, pp_proxy_tensors=None)
            for _ in range(self.max_steps(self.block_size)):
                if all(self.step(forward_batch, out.logits_output.full_logits, states)):
                    break
                out = model_runner.forward(forward_batch, pp_proxy_tensors=None)
            answers = [row[start:] for row, start in zip(tokens, starts, strict=True)]
            return out.logits_output, answers, None, None, out.can_run_graph
        states = [None] * rows if algo_states is None else algo_states
        fresh = self.init_step_state(forward_batch) if None in states else []
        states = [fresh[i] if state is None else state for i, state in enumerate(states)]
        out = model_runner.forward(forward_batch, pp_proxy_tensors=None)
        done = self.step(forward_batch, out.logits_output.full_logits, states)
        left = [None if ended else state for ended, state in zip(done, states, strict=True)]
        kept = [self.block_size if ended else 0 for ended in done]
        return out.logits_output, tokens.tolist(), kept, left, out.can_run_graph


def get_algorithm(config):
    return sys.modules["sglang.srt.dllm.algorithm"].algo_name_to_cls[config.algorithm](config)


@dataclasses.dataclass
class BaseSamplerConfig:
    return_dict: bool = False


@dataclasses.dataclass
class BaseSamplerOutput:
    sequences: object
    histories: object = None


@dataclasses.dataclass
class BaseSampler(ABC):
    model: object
    tokenizer: object
    scheduler: object = None

    @abstractmethod
    def sample(self, prompts, config=None, **kwargs): ...

    @abstractmethod
    def infill(self, inputs, config=None, **kwargs): ...


class Dream:
    """A model with Dream's loop: the hook first, then at each step the model, its own reveal in place, and the hook."""

    def __init__(self, model, mask):
        self.model, self.config, self.evaluations = model, types.SimpleNamespace(mask_token_id=mask), 0
        self.generation_config = None

    def diffusion_generate(self, prompt, generation_config=None, *, max_new_tokens, steps, generation_tokens_hook_func):
        mask = self.config.mask_token_id
        x = torch.nn.functional.pad(prompt, (0, max_new_tokens), value=mask)
        x = generation_tokens_hook_func(None, x, None)
        for step in range(steps):
            masked = x == mask
            logits = self.model(x)
            self.evaluations += 1
            logits = torch.cat([logits[:, :1], logits[:, :-1]], dim=1)
            x[masked] = torch.where(torch.arange(int(masked.sum())) % 2 == 0, logits[masked].argmax(dim=-1), mask)
            x = generation_tokens_hook_func(step, x, logits)
        return x


def llada_generate(
    model, prompt, counts, *, steps, gen_length, block_length, mask, remasking="low_confidence", rng=None
):
    """LLaDA's loop at temperature 0: block by block, in each `steps / blocks` evaluations, whatever `counts` answers.

    `counts` stands for its `get_num_transfer_tokens`. Answers the tokens and how many evaluations it took.
    """
    x = torch.nn.functional.pad(prompt, (0, gen_length), value=mask)
    starts = range(prompt.shape[1], x.shape[1], block_length)
    each, evaluations = steps // len(starts), 0
    for start in starts:
        table = counts(x[:, start : start + block_length] == mask, each)
        for i in range(each):
            logits = model(x)
            evaluations += 1
            best = logits.argmax(dim=-1)
            if remasking == "random":
                score = torch.rand(x.shape, generator=rng, dtype=logits.dtype)
            else:
                score = torch.softmax(logits, dim=-1).gather(-1, best[..., None])[..., 0]
            score[:, start + block_length :] = -torch.inf
            score = torch.where(x == mask, score, -torch.inf)
            for row in range(len(x)):
                where = score[row].topk(int(table[row, i])).indices
                x[row, where] = best[row, where]
    return x, evaluations


CONTENTS = {
    "sglang.srt.dllm.algorithm": {"algo_name_to_cls": {}, "get_algorithm": get_algorithm},
    "sglang.srt.dllm.algorithm.base": {"DllmAlgorithm": DllmAlgorithm},
    "sglang.srt.dllm.config": {"DllmConfig": DllmConfig},
    "sglang.srt.model_executor.forward_batch_info": {"ForwardBatch": ForwardBatch},
    "dllm.core.samplers.base": {
        "BaseSampler": BaseSampler, "BaseSamplerConfig": BaseSamplerConfig, "BaseSamplerOutput": BaseSamplerOutput
    },
}  # fmt: skip


def adapter(monkeypatch, engine):
    """The adapter of an engine, imported with the stand-in in its place, and forgotten afterwards."""
    for path, contents in CONTENTS.items():
        if path.split(".")[0] != engine:
            continue
        parts = path.split(".")
        for end in range(1, len(parts) + 1):
            module = sys.modules.get(".".join(parts[:end]))
            if module is None or not hasattr(module, "standin"):
                module = types.ModuleType(".".join(parts[:end]))
                module.__path__, module.standin = [], True
                monkeypatch.setitem(sys.modules, module.__name__, module)
            if end > 1:
                setattr(sys.modules[".".join(parts[: end - 1])], parts[end - 1], module)
        vars(module).update({key: dict(value) if isinstance(value, dict) else value for key, value in contents.items()})
    name = f"unmask.adapters.{engine}"
    monkeypatch.delitem(sys.modules, name, raising=False)
    module = importlib.import_module(name)
    monkeypatch.setitem(sys.modules, name, module)
    return module

# pyright: basic
"""SGLang: a `DllmAlgorithm` that reveals by any schedule.

SGLang serves block diffusion models, 4 or 32 tokens at a time, and asks its algorithm after each evaluation of a
block to advance `input_ids` in place and to say which blocks are done. It finds this one through the plugin `unmask`
in the group `sglang.srt.plugins`, which this package declares:

    python -m sglang.launch_server --model-path … --dllm-algorithm Unmask --dllm-algorithm-config unmask.yaml

The configuration is a mapping:

    schedule       what `Schedule.to_json` gives, a file that `Schedule.save` wrote, or words such as 'comb/even:4'
    temperature    1 by default, the predicted law; 0 is greedy
    top_p, top_k   as usual
    seed           0 by default; the seeds of all blocks come from it
    end            the token id that ends an answer, for the counts alone; without it all tokens count

The schedule starts anew in every block and counts the block's masked tokens. Each block has a seed of its own, so
what it becomes does not depend on the others in its batch.

**Requests.** The temperature, top-p and top-k of a request are followed. Where it has the engine's defaults (1, 1 and
all tokens), which is how a request looks that says nothing, the configuration's hold. What cannot be followed is
refused before the request begins: a seed, top-p and top-k at once, min-p, penalties, biases, grammars and
log-probabilities.

**Counts.** `counts` holds valid tokens, evaluations and seconds of all blocks that were finished, and is written to
the log every 1,024 blocks. The evaluation that only stores a finished block is one of them: the engine runs it.
"""

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from time import perf_counter
from typing import Any

from unmask import _check as check
from unmask._packages import Package
from unmask._torch import Tensor, torch
from unmask.adapters.hosted import Hosted
from unmask.sample import Counts, State, seeds_of
from unmask.sample.draw import Draw, draw_for
from unmask.words.given import schedule_given

with Package("SGLang", "sglang", 'Run: pip install "unmask[sglang]"', "0.5.21 to 0.5.23"):
    from sglang.srt.dllm import algorithm as registry  # pyright: ignore[reportMissingImports]
    from sglang.srt.dllm.algorithm.base import DllmAlgorithm  # pyright: ignore[reportMissingImports]

NAME = "Unmask"
SETTINGS = ("schedule", "temperature", "top_p", "top_k", "seed", "end", "block_size", "capture_input_preparation")
ALL = 1 << 30  # the engine's top-k for the whole vocabulary
TOLD = 1024  # finished blocks between two lines in the log
# What a request may ask for that no step here does, with the value that asks for nothing.
REFUSED = {
    "sampling_seed": None,
    "min_p": 0.0,
    "frequency_penalty": 0.0,
    "presence_penalty": 0.0,
    "repetition_penalty": 1.0,
    "min_new_tokens": 0,
    "logit_bias": None,
    "json_schema": None,
    "regex": None,
    "ebnf": None,
    "structural_tag": None,
}
log = logging.getLogger(__name__)


@dataclass(eq=False)
class Started:
    """Blocks that began together and are drawn alike: what draws them, their seeds, and how far they are."""

    hosted: Hosted
    seeds: Sequence[int]
    state: State | None = None
    counted: bool = False


class Unmask(DllmAlgorithm):
    """Reveals the tokens of a block by a schedule.

    Attributes:
        counts: Valid tokens, evaluations and seconds of the blocks finished so far.
    """

    def __init__(self, config: Any):
        super().__init__(config)
        settings = dict(config.algorithm_config or {})
        for name in settings:
            check.known("dllm-algorithm-config", str(name), SETTINGS)
        self.draw = draw_for(settings.get("temperature", 1.0), top_p=settings.get("top_p"), top_k=settings.get("top_k"))
        schedule = schedule_given(settings.get("schedule"), self.block_size)
        self.hosted = Hosted(schedule, self.mask_id, self.draw)
        self.rng = torch.Generator().manual_seed(check.integer("seed", settings.get("seed", 0), least=0))
        self.end = None if settings.get("end") is None else check.integer("end", settings["end"], least=0)
        self.counts, self._blocks, self._since = Counts(), 0, None

    @classmethod
    def validate_request(cls, req: Any) -> str | None:
        """One sentence for a request that asks for what is not followed; None for any other."""
        asked = req.sampling_params
        named = [name for name, nothing in REFUSED.items() if getattr(asked, name, nothing) not in (nothing, {})]
        named += [name for name in ("return_logprob", "custom_logit_processor") if getattr(req, name, None)]
        if named:
            listed, them = ", ".join(f"'{name}'" for name in named), "it" if len(named) == 1 else "them"
            return f"The algorithm {NAME} does not follow {listed} of a request: leave {them} out, or use another one."
        if asked.top_p < 1 and 1 < asked.top_k < ALL:
            return f"The algorithm {NAME} follows either 'top_p' or 'top_k' of a request: give one of them."
        return None

    def init_step_state(self, forward_batch: Any) -> list[Started]:
        """One entry for each block. Blocks that the engine may finish one by one are kept apart."""
        seeds = seeds_of(self.rng, forward_batch.batch_size)
        self._since = perf_counter() if self._since is None else self._since
        begun: list[Started] = []
        for draw, group in groupby(range(len(seeds)), key=self._draws(forward_batch).__getitem__):
            rows, hosted = list(group), Hosted(self.hosted.schedule, self.mask_id, draw)
            if self.fdfo:
                begun += [Started(hosted, [seeds[row]]) for row in rows]
            else:
                begun += [Started(hosted, [seeds[row] for row in rows])] * len(rows)
        return begun

    def _draws(self, forward_batch: Any) -> list[Draw]:
        """How the tokens of each block are drawn: as its request says, or as configured."""
        info = getattr(forward_batch, "sampling_info", None)
        if info is None:
            return [self.draw] * forward_batch.batch_size
        columns = (part.flatten().tolist() for part in (info.temperatures, info.top_ps, info.top_ks))
        return [self._draw(*asked) for asked in zip(*columns, strict=True)]

    def _draw(self, temperature: float, top_p: float, top_k: int) -> Draw:
        if (temperature, top_p, top_k) == (1.0, 1.0, ALL):
            return self.draw
        # The engine's way to say temperature 0. Its numbers are of single precision: six digits are the request's own.
        temperature = 0.0 if top_k == 1 else round(temperature, 6)
        top_p = round(top_p, 6)
        return draw_for(temperature, top_p=top_p if top_p < 1 else None, top_k=top_k if top_k < ALL else None)

    def step(self, forward_batch: Any, full_logits: Tensor, states: list[Started]) -> list[bool]:
        """Reveal the next tokens of every block, in place.

        A block is done when it had nothing masked before this step: only then has an evaluation seen its last tokens.
        """
        shape = forward_batch.batch_size, self.block_size
        logits, tokens = full_logits.view(*shape, -1), forward_batch.input_ids.view(shape)
        masked = tokens == self.mask_id
        prompt = getattr(forward_batch, "dllm_prompt_mask", None)
        masked = masked if prompt is None else masked & ~prompt
        done = (~masked.any(dim=1)).tolist()
        result = tokens.clone()
        for started, rows in _together(states):
            if all(done[row] for row in rows):
                self._count(started)
                continue
            mine = slice(rows[0], rows[-1] + 1)
            if started.state is None:
                vocab = logits.shape[-1]
                started.state = started.hosted.begin(tokens[mine], masked[mine], vocab=vocab, rng=started.seeds)
            reveal = started.hosted.step(started.state, tokens[mine], logits[mine])
            started.state, result[mine] = reveal.state, reveal.tokens
        # In place: the engine's captured graphs hold on to this tensor.
        forward_batch.input_ids.copy_(result.view(-1))
        self._clock(all(done))
        return done

    def _count(self, started: Started) -> None:
        """Add up blocks that are done, once, with the evaluation that stored each of them."""
        if started.state is None or started.counted:
            return
        started.counted = True
        before, blocks = self._blocks // TOLD, len(started.seeds)
        self.counts += started.state.trace().until(self.end).counts + Counts(0, blocks)
        self._blocks += blocks
        if self._blocks // TOLD > before:
            log.info("%s: %s.", NAME, self.counts)

    def _clock(self, idle: bool) -> None:
        """Seconds between the start of blocks and their end, the engine's part included; idle time is not counted."""
        now = perf_counter()
        self.counts += Counts(seconds=now - (now if self._since is None else self._since))
        self._since = None if idle else now


def register() -> None:
    """Make the algorithm known to SGLang; the entry point of the plugin."""
    registry.algo_name_to_cls[NAME] = Unmask


def _together(states: list[Started]) -> list[tuple[Started, list[int]]]:
    """The rows of each entry; rows that began together are next to each other."""
    groups: dict[int, tuple[Started, list[int]]] = {}
    for row, started in enumerate(states):
        groups.setdefault(id(started), (started, []))[1].append(row)
    return list(groups.values())

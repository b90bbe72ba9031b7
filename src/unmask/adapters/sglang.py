# pyright: basic
"""SGLang: a `DllmAlgorithm` that reveals by any schedule.

SGLang serves block diffusion models, 4 or 32 tokens at a time, and asks its algorithm after each evaluation of a
block to advance `input_ids` in place and to say which blocks are done. It finds this one through the plugin `unmask`
in the group `sglang.srt.plugins`, which this package declares:

    python -m sglang.launch_server --model-path … --dllm-algorithm Unmask --dllm-algorithm-config unmask.yaml

The configuration is a mapping:

    schedule       what `Schedule.to_json` gives, or the name of a file that `Schedule.save` wrote
    temperature    1 by default, the predicted law; 0 is greedy
    top_p, top_k   as usual
    seed           0 by default; the seeds of all blocks come from it

The schedule starts anew in every block and counts the block's masked tokens. Each block has a seed of its own, so
what it becomes does not depend on the others in its batch.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from unmask import _check as check
from unmask._packages import Package
from unmask._torch import Tensor, torch
from unmask.adapters.hosted import Hosted
from unmask.sample import State, seeds_of
from unmask.sample.draw import draw_for
from unmask.schedule import Schedule

with Package("SGLang", "sglang", 'Run: pip install "unmask[sglang]"', "0.5.18 to 0.5.23"):
    from sglang.srt.dllm import algorithm as registry  # pyright: ignore[reportMissingImports]
    from sglang.srt.dllm.algorithm.base import DllmAlgorithm  # pyright: ignore[reportMissingImports]

NAME = "Unmask"
SETTINGS = ("schedule", "temperature", "top_p", "top_k", "seed", "block_size", "capture_input_preparation")


@dataclass(eq=False)
class Started:
    """Blocks that began together: their seeds, and how far they are."""

    seeds: Sequence[int]
    state: State | None = None


class Unmask(DllmAlgorithm):
    """Reveals the tokens of a block by a schedule."""

    def __init__(self, config: Any):
        super().__init__(config)
        settings = dict(config.algorithm_config or {})
        for name in settings:
            check.known("dllm-algorithm-config", str(name), SETTINGS)
        draw = draw_for(settings.get("temperature", 1.0), top_p=settings.get("top_p"), top_k=settings.get("top_k"))
        self.hosted = Hosted(schedule_of(settings.get("schedule")), self.mask_id, draw)
        self.rng = torch.Generator().manual_seed(check.integer("seed", settings.get("seed", 0), least=0))

    def init_step_state(self, forward_batch: Any) -> list[Started]:
        """One entry for each block. Blocks that the engine may finish one by one are kept apart."""
        seeds = seeds_of(self.rng, forward_batch.batch_size)
        if self.fdfo:
            return [Started([seed]) for seed in seeds]
        return [Started(seeds)] * forward_batch.batch_size

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
                continue
            mine = slice(rows[0], rows[-1] + 1)
            if started.state is None:
                started.state = self.hosted.begin(tokens[mine], masked[mine], vocab=logits.shape[-1], rng=started.seeds)
            reveal = self.hosted.step(started.state, tokens[mine], logits[mine])
            started.state, result[mine] = reveal.state, reveal.tokens
        # In place: the engine's captured graphs hold on to this tensor.
        forward_batch.input_ids.copy_(result.view(-1))
        return done


def register() -> None:
    """Make the algorithm known to SGLang; the entry point of the plugin."""
    registry.algo_name_to_cls[NAME] = Unmask


def schedule_of(given: Any) -> Schedule:
    """The schedule of a configuration: an object, or the name of a file."""
    if given is None:
        raise check.InputError("schedule", "be given in the algorithm's configuration: an object, or a file name")
    if isinstance(given, str):
        if not Path(given).is_file():
            raise check.InputError("schedule", "name a file to read", detail=f"which '{given}' is not")
        return Schedule.load(given)
    return Schedule.from_json(given)


def _together(states: list[Started]) -> list[tuple[Started, list[int]]]:
    """The rows of each entry; rows that began together are next to each other."""
    groups: dict[int, tuple[Started, list[int]]] = {}
    for row, started in enumerate(states):
        groups.setdefault(id(started), (started, []))[1].append(row)
    return list(groups.values())

# pyright: basic
"""dllm (ZHZisZZ/dllm): a `BaseSampler` that fills by any schedule.

It has the engine's two methods, `sample` (continue prompts) and `infill` (fill the masks of given sequences), takes
and returns what they do, and works with the engine's models: prompts of different lengths are padded at the end with
the end token and an attention mask. Each sequence has its own masks, steps and seed; its randomness also depends on
the width of the batch. Outputs of a model that are no token of its tokenizer, with which many fill up their last layer,
are never drawn.

The engine's evaluation makes its sampler and its configuration itself, from a class and from strings: so the schedule
can be words or a file, and `rng` a number:

    LLaDAEvalHarness(sampler_cls=UnmaskSampler, sampler_config=UnmaskSamplerConfig(rng=0),
                     pretrained=…, schedule="comb/even:16", max_new_tokens=128)
"""

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from time import perf_counter
from typing import Any

from unmask import _check as check
from unmask._packages import Package
from unmask._torch import Tensor, torch
from unmask.adapters.hosted import predictor_of
from unmask.sample import Counts, Sampler, State, Step
from unmask.sample.draw import draw_for
from unmask.schedule import Schedule
from unmask.words.given import schedule_given

_REMEDY = "It is not on PyPI: install it from its repository, ZHZisZZ/dllm on GitHub."
with Package("dllm", "dllm", _REMEDY, "0.1.0, as of April 2026"):
    from dllm.core.samplers.base import BaseSampler  # pyright: ignore[reportMissingImports]

    try:  # what they were called until February 2026
        from dllm.core.samplers.base import (  # pyright: ignore[reportMissingImports]
            SamplerConfig as BaseSamplerConfig,
        )
        from dllm.core.samplers.base import (  # pyright: ignore[reportMissingImports]
            SamplerOutput as BaseSamplerOutput,
        )
    except ImportError:
        from dllm.core.samplers.base import (  # pyright: ignore[reportMissingImports]
            BaseSamplerConfig,
            BaseSamplerOutput,
        )


@dataclass
class UnmaskSamplerConfig(BaseSamplerConfig):
    """How to sample.

    Arguments:
        schedule: How many positions and which: a schedule, a file that holds one, or words such as 'comb/even:16'.
        rng: Source of one seed for each sequence, or the seeds; a single number is a source that starts anew with
            every call.
        max_new_tokens: Tokens to add to each prompt.
        temperature, top_p, top_k: How tokens are drawn; a temperature of 0 is greedy.
        suppress_tokens: Token ids that may not be drawn.
        right_shift_logits: True for models whose output at a position predicts the next one (Dream).
    """

    schedule: Schedule | str | Path | None = None
    rng: torch.Generator | Sequence[int] | int | None = None
    max_new_tokens: int = 128
    temperature: float = 1.0
    top_p: float | None = None
    top_k: int | None = None
    suppress_tokens: list[int] | None = None
    right_shift_logits: bool = False


@dataclass
class UnmaskSampler(BaseSampler):
    """Samples by a schedule. Made like any sampler of the engine, from a model and its tokenizer.

    Attributes:
        counts: Valid tokens, evaluations and seconds of the last call.
    """

    @torch.no_grad()
    def sample(self, inputs: list[Any], config: UnmaskSamplerConfig | None = None, **kwargs: Any) -> Any:
        """Continue prompts by `max_new_tokens` tokens each.

        Arguments:
            inputs: Token ids of each prompt.
            config: How to sample. kwargs: What to change of it.

        Returns:
            Token ids, padded at the end; with `return_dict`, an output that has them after every step as well.
        """
        config = _changed(config, kwargs)
        new = check.integer("max_new_tokens", config.max_new_tokens, least=1)
        prompts = self._tensors(inputs)
        tail = torch.full((new,), self._special("mask"), device=self.model.device)
        return self._fill([torch.cat([p, tail]) for p in prompts], [p.shape[0] for p in prompts], config)

    @torch.no_grad()
    def infill(self, inputs: list[Any], config: UnmaskSamplerConfig | None = None, **kwargs: Any) -> Any:
        """Fill the masks of sequences; what is not masked stays.

        Arguments:
            inputs: Token ids of each sequence, masks included.
            config, kwargs: As for `sample`.
        """
        rows = self._tensors(inputs)
        return self._fill(rows, [0] * len(rows), _changed(config, kwargs))

    def _tensors(self, inputs: list[Any]) -> list[Tensor]:
        if not isinstance(inputs, Sequence) or isinstance(inputs, str) or not inputs:
            raise check.InputError("inputs", "be a list of at least one sequence of token ids")
        try:
            rows = [torch.as_tensor(row, dtype=torch.int64, device=self.model.device) for row in inputs]
        except (TypeError, ValueError):
            raise check.InputError("inputs", "be a list of at least one sequence of token ids") from None
        if any(row.ndim != 1 for row in rows):
            raise check.InputError("inputs", "hold sequences of token ids, each of one dimension")
        return rows

    def _special(self, which: str) -> int:
        """The token id that the tokenizer has for the mask or for the end."""
        found = getattr(self.tokenizer, f"{which}_token_id", None)
        if found is None:
            raise check.InputError("tokenizer", f"have a token id in its attribute '{which}_token_id'")
        return check.integer(f"{which}_token_id", found, least=0)

    def _fill(self, rows: list[Tensor], starts: list[int], config: UnmaskSamplerConfig) -> Any:
        """Fill the masks of each row from its start on."""
        if config.schedule is None or config.rng is None:
            name = "schedule" if config.schedule is None else "rng"
            raise check.InputError(name, "be set in the configuration")
        mask, end = self._special("mask"), self._special("eos")
        lengths = torch.tensor([row.shape[0] for row in rows], device=self.model.device)
        tokens = torch.nn.utils.rnn.pad_sequence(rows, batch_first=True, padding_value=end)
        place = torch.arange(tokens.shape[1], device=tokens.device)
        inside = place < lengths[:, None]
        masked = inside & (tokens == mask)
        masked &= place >= torch.tensor(starts, device=tokens.device)[:, None]
        schedule = schedule_given(config.schedule, max(1, int(masked.sum(dim=1).max())))
        draw = draw_for(config.temperature, top_p=config.top_p, top_k=config.top_k)

        def network(tokens: Tensor, inside: Any) -> Any:
            return self.model(tokens, attention_mask=inside.long())

        predictor = predictor_of(
            network, tokens, inside, mask,
            known=len(self.tokenizer), never=config.suppress_tokens or (), shifted=config.right_shift_logits,
        )  # fmt: skip
        sampler = Sampler(predictor, schedule, draw)
        histories = [tokens]

        def watch(state: State, step: Step) -> None:
            histories.append(state.tokens)

        begun = perf_counter()
        trace = sampler.run(tokens, masked, rng=config.rng, watch=watch if config.return_dict else None)
        spent = Counts(seconds=perf_counter() - begun)
        # The engine's result may be a bare tensor: what was counted stays here.
        self.counts = trace.until(end).counts + spent
        sequences = trace.tokens.to(tokens.device)
        return BaseSamplerOutput(sequences=sequences, histories=histories) if config.return_dict else sequences


def _changed(config: UnmaskSamplerConfig | None, changes: dict[str, Any]) -> UnmaskSamplerConfig:
    config = UnmaskSamplerConfig() if config is None else config
    for name in changes:
        check.known("config", name, [part.name for part in fields(config)])
    return replace(config, **changes)

# pyright: basic
"""diffusers: a scheduler that drives `LLaDA2Pipeline` with any schedule.

The pipeline fills one block after the other. In a block it runs the model and asks its scheduler to `step`; the
scheduler of this module answers with the schedule's own step for the masked tokens of the block. The schedule starts
anew in every block, and says itself how many steps there are: the pipeline's `num_inference_steps`, `threshold` and
`minimal_topk` decide nothing. Its `temperature`, `top_p`, `top_k`, `sampling_method` and `generator` do: a
temperature of 0, the pipeline's default, is greedy. Tokens once revealed stay: the pipeline's `editing_threshold` has
no effect.

Without a `generator` seeds are drawn from torch's own, as everywhere in diffusers.

The pipeline's result has no place for counts; after a call the scheduler's `counts` has them. The end token is known
where the pipeline looks for it itself, that is unless `eos_early_stop` is off.
"""

from dataclasses import dataclass, replace
from pathlib import Path
from time import perf_counter
from typing import Any

from unmask import _check as check
from unmask._packages import Package
from unmask._torch import Tensor, torch
from unmask.adapters.hosted import Hosted, closed
from unmask.sample import Counts, State
from unmask.sample.draw import Draw, Greedy, draw_for
from unmask.schedule import Schedule
from unmask.size.base import Blind
from unmask.words.given import schedule_given

with Package("diffusers", "diffusers", 'Run: pip install "unmask[diffusers]"', "0.38.0 to 0.42.1"):
    # The names must be attributes of this module: a pipeline that loads a scheduler looks for them here.
    from diffusers import (  # pyright: ignore[reportMissingImports]
        BlockRefinementScheduler,  # pyright: ignore[reportPrivateImportUsage]
        ConfigMixin,  # pyright: ignore[reportPrivateImportUsage]
        SchedulerMixin,  # pyright: ignore[reportPrivateImportUsage]
    )
    from diffusers.utils import BaseOutput  # pyright: ignore[reportMissingImports, reportPrivateImportUsage]


@dataclass
class UnmaskingSchedulerOutput(BaseOutput):
    """What a step answers.

    Attributes:
        prev_sample: Tokens of the block after the step, shape `(batch, block)`.
        transfer_index: Booleans: what was revealed.
        editing_transfer_index: Booleans, all false: nothing is edited.
        sampled_tokens: As `prev_sample`.
        sampled_probs: Predicted probabilities of the tokens revealed, 0 elsewhere.
        pred_logits: The logits given.
    """

    prev_sample: Tensor
    transfer_index: Tensor
    editing_transfer_index: Tensor
    sampled_tokens: Tensor
    sampled_probs: Tensor
    pred_logits: Tensor


class UnmaskingScheduler(SchedulerMixin, ConfigMixin):
    """A schedule as a diffusers scheduler.

    Arguments:
        schedule: The schedule, what its `to_json` gives, a file that holds it, or words such as 'comb/even:4'.
        block_length: Length of a block where the pipeline is given none.
    """

    order = 1

    def __init__(self, schedule: Schedule | dict[str, Any] | str | Path, block_length: int = 32):
        # Steps are not compared with the length of a block: a call may give another one.
        self.schedule = schedule_given(schedule)
        check.integer("block_length", block_length, least=1)
        # By hand, not by decorator: what is saved is the schedule's JSON, not the object.
        self.register_to_config(schedule=self.schedule.to_json(), block_length=block_length)
        self.set_timesteps()

    def set_timesteps(
        self,
        num_inference_steps: int | None = None,
        device: str | torch.device | None = None,
        block_length: int | None = None,
    ) -> None:
        """Forget the last generation. The schedule says itself how many steps a block takes; at most one per token."""
        size = self.schedule.size
        block_length = self.config["block_length"] if block_length is None else block_length
        length = check.integer("block_length", block_length, least=1)
        self.num_inference_steps = min(size.steps, length) if isinstance(size, Blind) else length
        self.timesteps = torch.arange(self.num_inference_steps - 1, -1, -1, device=device)
        self._state: State | None = None
        self._blocks: list[State] = []
        self._ended: Tensor | None = None
        self._end: int | None = None
        self._begun, self._seconds = perf_counter(), 0.0

    @property
    def counts(self) -> Counts:
        """Valid tokens, evaluations and seconds since the last generation began.

        Evaluations are those that revealed something of a sequence, as for our own sampler; what the pipeline evaluates
        once more for a sequence that has ended reveals nothing of it.
        """
        if self._state is None:
            return Counts()
        traces = [state.trace() for state in (*self._blocks, self._state)]
        # Side by side: an end in one block ends those after it, whether the pipeline stopped there or not.
        tokens, revealed, score = (
            torch.cat([getattr(trace, part) for trace in traces], dim=1)
            for part in ("tokens", "revealed", "log_probability")
        )
        evaluations = sum(trace.evaluations for trace in traces)
        whole = replace(
            traces[0], tokens=tokens, revealed=revealed, log_probability=score, evaluations=evaluations, end=self._end
        )
        return whole.counts + Counts(seconds=self._seconds)

    def step(
        self,
        model_output: Tensor,
        timestep: int | Tensor,
        sample: Tensor,
        *,
        mask_token_id: int | None = None,
        temperature: float = 0.0,
        top_p: float | None = None,
        top_k: int | None = None,
        sampling_method: str = "auto",
        prompt_mask: Tensor | None = None,
        generator: torch.Generator | None = None,
        return_dict: bool = True,
        **unused: Any,
    ) -> "UnmaskingSchedulerOutput | tuple[Tensor, ...]":
        """Reveal the next tokens of a block.

        Arguments:
            model_output: Logits of the block, shape `(batch, block, vocab)`.
            timestep: Number of the step in the block; 0 begins one.
            sample: Tokens of the block, shape `(batch, block)`.
            mask_token_id: Token id of the mask.
            temperature, top_p, top_k, sampling_method: How tokens are drawn; 0 and 'greedy' take the most likely.
            prompt_mask: Booleans, shape `(block,)`: positions of the prompt.
            generator: Source of the rows' seeds.
            return_dict: Whether to answer with an object or with a tuple.
            unused: Other options of the pipeline.
        """
        if mask_token_id is None:
            raise check.InputError(
                "mask_token_id",
                "be a token id",
                found="None",
                remedy="Pass the token id of the model's mask token to the pipeline.",
            )
        hosted = Hosted(self.schedule, mask_token_id, _draw(sampling_method, temperature, top_p, top_k))
        if int(timestep) == 0 or self._state is None or self._state.tokens.shape != sample.shape:
            masked = sample == mask_token_id
            masked = masked if prompt_mask is None else masked & ~prompt_mask
            if self._state is not None:
                self._blocks.append(self._state)
            rng = torch.default_generator if generator is None else generator
            self._state = hosted.begin(sample, masked, vocab=model_output.shape[-1], rng=rng)
        if self._ended is not None and bool(self._ended.any()):
            # The pipeline writes nothing more into a sequence that has ended: nothing of it is revealed.
            self._state = closed(self._state, self._ended[:, None].expand_as(sample))
        reveal = hosted.step(self._state, sample, model_output)
        self._state = reveal.state
        self._seconds = perf_counter() - self._begun
        answer = UnmaskingSchedulerOutput(
            prev_sample=reveal.tokens,
            transfer_index=reveal.chosen,
            editing_transfer_index=torch.zeros_like(reveal.chosen),
            sampled_tokens=reveal.tokens,
            sampled_probs=reveal.probability,
            pred_logits=model_output,
        )
        return answer if return_dict else tuple(answer.values())

    def check_block_should_continue(self, *, finished: Tensor, **unused: Any) -> bool:
        """True while anything of the block is left to reveal in a sequence that has not ended."""
        if self._state is None or not bool(self._state.masked.any()):
            return False
        return bool((self._state.masked.any(dim=1) & ~finished).any())

    def check_eos_finished(self, *, eos_token_id: int, **given: Any) -> Tensor:
        """Which sequences have ended: the engine's own question and answer, which is kept."""
        ended = BlockRefinementScheduler.check_eos_finished(eos_token_id=eos_token_id, **given)
        self._end, self._ended = eos_token_id, ended.clone()
        return ended


def _draw(sampling_method: str, temperature: float, top_p: float | None, top_k: int | None) -> Draw:
    """The pipeline's own words for draws."""
    if check.known("sampling_method", sampling_method, ("auto", "greedy", "multinomial")) == "greedy":
        return Greedy()
    return draw_for(temperature, top_p=top_p, top_k=top_k)

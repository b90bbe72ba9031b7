# pyright: basic
"""transformers: `model.generate(…, custom_generate=Generate(schedule, rng))`.

`generate` prepares what it always does (padding, attention mask, several answers to a prompt, the options of
generation) and then hands over to a callable, if it is given one. `Generate` is that callable: it puts masks after each
prompt and fills them by the schedule. So a masked diffusion model with transformers' `generate`, such as LLaDA,
answers like any other model:

    generate = Generate("comb/even:16", rng=0, vocab=len(tokenizer))
    tokens = model.generate(**tokenizer(prompts, return_tensors="pt"), max_new_tokens=64, custom_generate=generate)

Followed are `max_new_tokens` and `max_length`, `do_sample` with `temperature`, `top_k` and `top_p`, `eos_token_id`,
`pad_token_id`, `suppress_tokens`, `num_return_sequences` and `return_dict_in_generate`. Without `do_sample` draws are
greedy, and with it `top_k` is 50 unless it is given: `do_sample=True, top_k=0` is the model's own law, of which the
guarantees of `unmask.bounds` speak. What cannot be followed, such as beams and penalties, is refused.

The output is what other ways of `generate` give: the prompts as they came, then the new tokens; after the end of an
answer stands padding. Masks in a prompt are filled too. Each sequence has its own seed. After a call `counts` of the
callable has valid tokens, evaluations and seconds.
"""

import inspect
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from time import perf_counter
from typing import Any, final

from unmask import _check as check
from unmask._packages import Package
from unmask._torch import Tensor, torch
from unmask.adapters.hosted import predictor_of
from unmask.sample import Counts, Sampler, Seeds, Trace
from unmask.sample.draw import Draw, Greedy, draw_for
from unmask.sample.seeds import check_seeds
from unmask.schedule import Schedule
from unmask.words.given import schedule_given

with Package("transformers", "transformers", 'Run: pip install "unmask[hf]"', "4.57 to 5.22"):
    from transformers.generation.utils import GenerateDecoderOnlyOutput

# What is followed here by other means.
_FOLLOWED = ("TemperatureLogitsWarper", "TopKLogitsWarper", "TopPLogitsWarper", "SuppressTokensLogitsProcessor")
_ENDS = ("MaxLengthCriteria", "EosTokenCriteria")


@final
@dataclass(eq=False)
class Generate:
    """A schedule as a way of `generate`.

    Arguments:
        schedule: How many positions and which: a schedule, a file that holds one, or words such as 'comb/even:16'.
        rng: A seed, which starts anew with every call; a generator, which goes on; or a list of the sequences' seeds.
        mask: Token id of the mask; by default `mask_token_id` of the model's configuration.
        vocab: Number of tokens of the tokenizer, `len(tokenizer)`: outputs beyond it, with which many models fill up
            their last layer, are never drawn. By default all outputs are tokens.
        shifted: True for models whose output at a position predicts the next one.

    Attributes:
        counts: Valid tokens, evaluations and seconds of the last call.
    """

    schedule: Schedule | str | Path
    rng: Seeds
    mask: int | None = None
    vocab: int | None = None
    shifted: bool = False
    # What `generate` returns has no place for it.
    counts: Counts = field(default_factory=Counts, init=False)

    def __post_init__(self):
        schedule_given(self.schedule)
        check_seeds(self.rng)
        if self.mask is not None:
            check.integer("mask", self.mask, least=0)
        if self.vocab is not None:
            check.integer("vocab", self.vocab, least=1)
        check.instance("shifted", self.shifted, bool, "be True or False")

    @torch.no_grad()
    def __call__(  # the names are those of `GenerationMixin._sample`: any other would be taken out of the options
        self,
        model: Any,
        input_ids: Tensor,
        logits_processor: Any = None,
        stopping_criteria: Any = None,
        generation_config: Any = None,
        **model_kwargs: Any,
    ) -> Any:
        """What `generate` calls."""
        if generation_config is None:
            raise check.InputError(
                "", "Pass this object as custom_generate to model.generate, which prepares the input"
            )
        _check_followed(model, generation_config, logits_processor, stopping_criteria)
        given = generation_config.max_length
        new = check.integer("max_new_tokens", (given or 0) - input_ids.shape[1], least=1)
        mask = self._mask(model)
        tokens = torch.nn.functional.pad(input_ids.to(model.device), (0, new), value=mask)
        visible = _visible(model_kwargs.get("attention_mask"), tokens)
        masked = tokens == mask if visible is None else (tokens == mask) & visible
        schedule = schedule_given(self.schedule, int(masked.sum(dim=1).max()))
        predictor = predictor_of(
            partial(_output, model), tokens, visible, mask,
            known=self.vocab, never=_ids(generation_config.suppress_tokens), shifted=self.shifted,
        )  # fmt: skip
        begun = perf_counter()
        trace = Sampler(predictor, schedule, _draw(generation_config)).run(tokens, masked, rng=self.rng)
        self.counts = _counts(trace, _ids(generation_config.eos_token_id)) + Counts(seconds=perf_counter() - begun)
        sequences = _ended(trace.tokens.to(input_ids.device), input_ids.shape[1], generation_config)
        if generation_config.return_dict_in_generate:
            return GenerateDecoderOnlyOutput(sequences=sequences.long())  # pyright: ignore[reportArgumentType]
        return sequences

    def _mask(self, model: Any) -> int:
        found = getattr(model.config, "mask_token_id", None) if self.mask is None else self.mask
        if found is None:
            raise check.InputError("mask", "be given", remedy="The model's configuration has no 'mask_token_id'.")
        return check.integer("mask", found, least=0)


def _output(model: Any, tokens: Tensor, visible: Tensor | None) -> Any:
    """What the model says, with padding hidden from it if there is any."""
    if visible is None:
        return model(input_ids=tokens)
    options: dict[str, Any] = {"attention_mask": visible.long()}
    if "position_ids" in inspect.signature(model.forward).parameters:
        # As everywhere in the library: positions are counted from the first token that is no padding.
        options["position_ids"] = (visible.long().cumsum(dim=1) - 1).clamp(min=0)
    return model(input_ids=tokens, **options)


def _visible(attention: Tensor | None, tokens: Tensor) -> Tensor | None:
    """Which tokens are no padding; None if all are."""
    if attention is None or bool((attention != 0).all()):
        return None
    if bool((attention[:, -1] == 0).any()):
        raise check.InputError("attention_mask", "end with ones", remedy="Padding must be on the left.")
    seen = attention.to(tokens.device) != 0
    return torch.nn.functional.pad(seen, (0, tokens.shape[1] - seen.shape[1]), value=True)


def _check_followed(model: Any, config: Any, processors: Any, criteria: Any) -> None:
    """Refuse, before any work, what was asked for and cannot be done."""
    if getattr(model.config, "is_encoder_decoder", False):
        raise check.InputError("model", "be a model without a separate decoder", found=check.type_of(model))
    if (config.num_beams or 1) > 1:
        raise check.InputError(
            "num_beams", "be 1", found=f"{config.num_beams}", remedy="A schedule cannot be combined with beam search."
        )
    for name, parts, known in (
        ("logits_processor", processors, _FOLLOWED),
        ("stopping_criteria", criteria, _ENDS),
    ):
        for part in parts or ():
            if type(part).__name__ not in known:
                raise check.InputError(name, "contain only parts that a schedule supports", found=check.type_of(part))


def _draw(config: Any) -> Draw:
    """How the options of generation say that tokens are drawn."""
    if not config.do_sample:
        return Greedy()
    top_p = None if config.top_p in (None, 1.0) else config.top_p
    top_k = config.top_k or None
    if top_p is not None and top_k is not None:
        remedy = "Give only one of them."
        if top_k == 50:
            remedy = "To turn off {top_k}, which is 50 by default in transformers, pass top_k=0."
        raise check.InputError("top_p", "not be used with {top_k}", remedy=remedy)
    return draw_for(1.0 if config.temperature is None else config.temperature, top_p=top_p, top_k=top_k)


def _counts(trace: Trace, ends: list[int]) -> Counts:
    """What counts of the answers, each up to the first of several ends."""
    if not ends:
        return trace.counts
    ended = torch.isin(trace.tokens, torch.tensor(ends))
    return replace(trace, tokens=trace.tokens.masked_fill(ended, ends[0])).until(ends[0]).counts


def _ended(sequences: Tensor, start: int, config: Any) -> Tensor:
    """The sequences with padding after the end of each answer."""
    ends = _ids(config.eos_token_id)
    if not ends:
        return sequences
    pad = ends[0] if config.pad_token_id is None else config.pad_token_id
    ended = torch.isin(sequences[:, start:], torch.tensor(ends, device=sequences.device)).long()
    after = ended.cumsum(dim=1) - ended > 0
    return torch.cat([sequences[:, :start], sequences[:, start:].masked_fill(after, int(pad))], dim=1)


def _ids(given: Any) -> list[int]:
    """Token ids, however many were given."""
    if given is None:
        return []
    return [int(each) for each in given] if isinstance(given, list | tuple) else [int(given)]

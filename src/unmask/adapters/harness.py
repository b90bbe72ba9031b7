# pyright: basic
"""lm-evaluation-harness: the usual benchmarks with any schedule.

Importing this module registers the model `unmask`. The harness has no way to find models of other packages by itself,
so its command is offered once more, with ours registered; everything else is the harness's own:

    unmask-lm-eval --model unmask --model_args model=builtin,steps=16,order=comb,size=even --tasks …

What it asks of a model is answered by the sampler:

    generate_until           the tokens after the prompt are masked and filled; the text is cut at the first stop
    loglikelihood            exact, by replay: the continuation is masked and its own tokens take the place of draws, so
                             the number is the log-probability that this schedule writes it, given how its steps fell
    loglikelihood_rolling    the same for windows of the model's length; the last one sees what comes before it

Both kinds are counted as everywhere (`unmask.sample.trace`): valid tokens, evaluations, tokens per evaluation as the
ratio of their sums, and the sampler's seconds. The harness's results hold them under `config`, as `generated` and
`scored`; and each answer to a list of requests ends with a line in the log. A stop of a task is an end too: what is
written after it does not count. `unmask.adapters.compare` makes a table of them for several schedules.

Each request has a seed of its own, made from the model's seed, the request's text and how often it came before. So
results depend on neither the batch size nor the other requests, up to the rounding of the model.
"""

import hashlib
import logging
from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter
from typing import Any

from unmask import _check as check
from unmask import models
from unmask._packages import Package
from unmask._torch import Tensor, torch
from unmask.sample import Counts, Sampler
from unmask.sample.draw import Draw, Greedy, Replay, draw_for
from unmask.schedule import Schedule
from unmask.words.given import schedule_given
from unmask.words.models import device_named
from unmask.words.schedules import FREE_SIZES, build, check_size

with Package("lm-evaluation-harness", "lm_eval", 'Run: pip install "unmask[harness]"', "0.4.10 to 0.4.13", "lm-eval"):
    from lm_eval.api.model import LM  # pyright: ignore[reportMissingImports]
    from lm_eval.api.registry import register_model  # pyright: ignore[reportMissingImports]
    from tqdm import tqdm  # pyright: ignore[reportMissingImports, reportMissingModuleSource]

BATCH = 64
OPTIONS = ("until", "max_gen_toks", "do_sample", "temperature", "top_p", "top_k")
log = logging.getLogger(__name__)


@dataclass(frozen=True, eq=False)
class _Row:
    """A sequence to score or fill: its tokens, from where on, and its seed."""

    tokens: list[int]
    start: int
    seed: int


class UnmaskLM(LM):
    """A model of `unmask.models` under a schedule.

    Arguments:
        model: "builtin", a model file or folder, or a model already loaded.
        steps: Number of steps; 16 by default.
        order: The order in the words of the command line; comb by default.
        size: The size likewise; even by default.
        schedule: The schedule itself, a file that holds it, or words such as 'comb/even:16', in place of these three.
        seed: From which all seeds are made.
        length: Tokens of a sequence; all that the model takes by default, but no more than 256 for one of Hugging Face.
        max_gen_toks: Tokens to generate where a task does not say; half of that length by default.
        trust_remote_code: As for `unmask.models.load`.
        allow_pickle: Likewise.
        batch_size: Sequences evaluated at once; 64 by default and for "auto".
        max_batch_size: Not used.
        device: cpu, cuda …; a GPU where there is one by default.

    Attributes:
        generated: Valid tokens, evaluations and seconds of all that was generated so far.
        scored: The same of what was scored.
    """

    def __init__(
        self,
        model: str | models.Model = models.BUILTIN,
        steps: int | None = None,
        order: str | None = None,
        size: str | None = None,
        schedule: Schedule | str | Path | None = None,
        seed: int = 0,
        length: int | None = None,
        max_gen_toks: int | None = None,
        trust_remote_code: bool = False,
        allow_pickle: bool = False,
        batch_size: int | str | None = None,
        max_batch_size: int | None = None,
        device: str | None = None,
    ):
        super().__init__()
        place = _place(device)
        if not isinstance(model, models.Model):
            allowed = {"trust_remote_code": bool(trust_remote_code), "allow_pickle": bool(allow_pickle)}
            model = models.load(str(model), device=place, **allowed)
        self.model = model.cut(length)
        self.schedule = _schedule(schedule, steps, order, size, self.model.length)
        self.seed = check.integer("seed", seed, least=0)
        most = self.model.length
        new = max(1, most // 2) if max_gen_toks is None else max_gen_toks
        self.new = check.integer("max_gen_toks", new, least=1, most=most)
        self.batch = _batch(batch_size)
        self._device = self.model.device
        self.generated, self.scored = Counts(), Counts()

    def get_model_info(self) -> dict[str, Any]:
        """What stands in the harness's results: the model's fingerprint, the schedule, and what was counted."""
        return {
            "fingerprint": self.model.fingerprint,
            "schedule": self.schedule.to_json(),
            "seed": self.seed,
            "generated": self.generated.to_json(),
            "scored": self.scored.to_json(),
        }

    def loglikelihood(self, requests: list[Any], disable_tqdm: bool = False) -> list[tuple[float, bool]]:
        """Log-probability of each continuation given its context, and whether greedy draws would write it."""
        seeds = self._seeds(request.args for request in requests)
        rows = []
        for request, seed in zip(requests, seeds, strict=True):
            context, continuation = self._split(*request.args)
            if len(continuation) > self.model.length:
                raise check.InputError(
                    "continuation", f"have at most {self.model.length} tokens", found=f"{len(continuation)}"
                )
            rows.append(self._row(context, continuation, seed))
        answers = self._scores(rows, disable_tqdm)
        for request, answer in zip(requests, answers, strict=True):
            self.cache_hook.add_partial("loglikelihood", request.args, answer)
        return answers

    def loglikelihood_rolling(self, requests: list[Any], disable_tqdm: bool = False) -> list[float]:
        """Log-probability of each text, in windows of the model's length."""
        seeds = self._seeds(request.args for request in requests)
        rows, owner = [], []
        for number, (request, seed) in enumerate(zip(requests, seeds, strict=True)):
            tokens = self.model.codec.encode(request.args[0]).tolist()
            for start in range(0, len(tokens), self.model.length):
                end = min(start + self.model.length, len(tokens))
                rows.append(self._row(tokens[:start], tokens[start:end], seed + start))
                owner.append(number)
        answers = [0.0] * len(requests)
        for number, (score, _) in zip(owner, self._scores(rows, disable_tqdm), strict=True):
            answers[number] += score
        for request, answer in zip(requests, answers, strict=True):
            self.cache_hook.add_partial("loglikelihood_rolling", request.args, answer)
        return answers

    def generate_until(self, requests: list[Any], disable_tqdm: bool = False) -> list[str]:
        """What the sampler writes after each prompt, up to the first stop."""
        seeds = self._seeds((request.args[0],) for request in requests)
        options = [self._options(request.args[1]) for request in requests]
        rows, cut = [], 0
        for request, (new, _, _), seed in zip(requests, options, seeds, strict=True):
            prompt = self.model.codec.encode(request.args[0]).tolist()
            cut += len(prompt) > self.model.length - new
            rows.append(self._row(prompt, [0] * new, seed))
        if cut:
            log.warning("%d of %d prompts were longer than the model allows and lost their beginning.", cut, len(rows))
        answers, counts = [""] * len(rows), [Counts()]

        def fill(numbers: list[int], tokens: Tensor, masked: Tensor, seeds: list[int]) -> None:
            sampler = Sampler(self.model.predictor, self.schedule, options[numbers[0]][1], self.model.stop)
            begun = perf_counter()
            trace = sampler.run(tokens, masked, rng=seeds)  # its record is on the CPU: nothing is left to wait for
            counts.append(Counts(seconds=perf_counter() - begun))
            # Rows of a batch have their prompts in the same places.
            written = trace.written(rows[numbers[0]].start)
            for number, found, spent in zip(numbers, written, trace.evaluations.tolist(), strict=True):
                until = options[number][2]
                answers[number] = _stopped(self.model.codec.decode(found), until)
                counts.append(Counts(_valid(found, until, self.model.codec.decode), spent))

        keys = [(len(row.tokens), row.start, option[1]) for row, option in zip(rows, options, strict=True)]
        self._batches(rows, keys, fill, "Generating", disable_tqdm)
        self.generated += _told("Generated", counts)
        for request, answer in zip(requests, answers, strict=True):
            self.cache_hook.add_partial("generate_until", request.args, answer)
        return answers

    def _split(self, context: str, continuation: str) -> tuple[list[int], list[int]]:
        """Token ids of both. Spaces between them belong to the continuation, as the harness has it."""
        bare = context.rstrip()
        whole = self.model.codec.encode(context + continuation).tolist()
        known = len(self.model.codec.encode(bare))
        return whole[:known], whole[known:]

    def _row(self, context: list[int], rest: list[int], seed: int) -> _Row:
        """As much of the end of the context as the model has room for, and the rest."""
        room = self.model.length - len(rest)
        kept = context[max(0, len(context) - room) :]
        return _Row(kept + rest, len(kept), seed)

    def _options(self, given: dict[str, Any]) -> tuple[int, Draw, list[str]]:
        """New tokens, draw and stops of a generation; greedy without 'do_sample', as everywhere in the harness."""
        if unknown := sorted(set(given) - set(OPTIONS)):
            log.warning("These generation options have no effect here: %s.", ", ".join(unknown))
        new = check.integer("max_gen_toks", given.get("max_gen_toks", self.new), least=1, most=self.model.length)
        until = given.get("until") or []
        draw: Draw = Greedy()
        if given.get("do_sample"):
            draw = draw_for(given.get("temperature", 1.0), top_p=given.get("top_p"), top_k=given.get("top_k"))
        return new, draw, [until] if isinstance(until, str) else list(until)

    def _seeds(self, texts: Iterable[tuple[str, ...]]) -> list[int]:
        """A seed for each request, from its text and how often the same text came before."""
        met: Counter[tuple[str, ...]] = Counter()
        seeds = []
        for text in texts:
            key = repr((self.seed, *text, met[text])).encode()
            seeds.append(int.from_bytes(hashlib.sha256(key).digest()[:7], "big"))
            met[text] += 1
        return seeds

    def _scores(self, rows: list[_Row], disable_tqdm: bool) -> list[tuple[float, bool]]:
        """Exact log-probabilities by replay, and whether each token was the most likely one."""
        answers: list[tuple[float, bool]] = [(0.0, True)] * len(rows)
        counts = [Counts()]

        def score(numbers: list[int], tokens: Tensor, masked: Tensor, seeds: list[int]) -> None:
            draw = Judged(Replay(tokens), torch.zeros(tokens.numel(), dtype=torch.bool, device=tokens.device))
            begun = perf_counter()
            trace = Sampler(self.model.predictor, self.schedule, draw).run(tokens, masked, rng=seeds)
            counts.extend([trace.counts, Counts(seconds=perf_counter() - begun)])
            greedy = ~draw.other.view_as(tokens).any(dim=1)
            for number, nll, best in zip(numbers, trace.nll.tolist(), greedy.tolist(), strict=True):
                answers[number] = -nll, best

        self._batches(rows, [len(row.tokens) for row in rows], score, "Scoring", disable_tqdm)
        self.scored += _told("Scored", counts)
        return answers

    def _batches(
        self,
        rows: list[_Row],
        keys: Sequence[Any],
        work: Callable[[list[int], Tensor, Tensor, list[int]], None],
        title: str,
        disable_tqdm: bool,
    ) -> None:
        """Do the work on batches of rows with equal keys: rows of one length need no padding."""
        groups = defaultdict(list)
        for number, key in enumerate(keys):
            groups[key].append(number)
        with tqdm(total=len(rows), desc=title, disable=disable_tqdm) as bar:
            for group in groups.values():
                for first in range(0, len(group), self.batch):
                    numbers = group[first : first + self.batch]
                    some = [rows[number] for number in numbers]
                    tokens = torch.tensor([row.tokens for row in some], dtype=torch.int64, device=self.model.device)
                    starts = torch.tensor([row.start for row in some], device=tokens.device)[:, None]
                    masked = torch.arange(tokens.shape[1], device=tokens.device) >= starts
                    work(numbers, tokens, masked, [row.seed for row in some])
                    bar.update(len(numbers))


register_model("unmask")(UnmaskLM)  # not above the class: a type checker would take it for any model


@dataclass(frozen=True, eq=False)
class Judged(Draw):
    """Replays given tokens and marks, in `other`, where another token was more likely."""

    replay: Replay
    other: Tensor

    def __call__(self, log_probabilities: Tensor, uniform: Tensor, rows: Tensor) -> Tensor:
        token = self.replay(log_probabilities, uniform, rows)
        self.other[rows] = log_probabilities.argmax(dim=-1) != token
        return token


def _schedule(given: object, steps: int | None, order: str | None, size: str | None, length: int) -> Schedule:
    """The schedule that was asked for, as a whole or by its parts."""
    parts = {"steps": steps, "order": order, "size": size}
    if given is not None:
        if named := [name for name, value in parts.items() if value is not None]:
            raise check.InputError(
                "schedule", f"not be used with '{named[0]}'", remedy="Give either a schedule or its parts."
            )
        return schedule_given(given, length)
    size = "even" if size is None else str(size)
    check_size(size, FREE_SIZES)
    if steps is not None and ":" in size:
        raise check.InputError(
            "steps", f"not be used with the size '{size}'", remedy="This size chooses the number of steps itself."
        )
    order = "comb" if order is None else order
    return build(order, size, min(16, length) if steps is None else steps, length).schedule


def _place(given: str | None) -> torch.device:
    """The device asked for. The harness's command asks for cuda:0 unless told otherwise, GPU or not."""
    if given is not None and str(given).startswith("cuda") and not torch.cuda.is_available():
        log.warning("This machine has no '%s': the model runs on the CPU.", given)
        return torch.device("cpu")
    return device_named("auto" if given is None else str(given))


def _batch(given: int | str | None) -> int:
    """Sequences evaluated at once; the harness hands on what its command line was given."""
    if given is None or str(given).startswith("auto"):
        return BATCH
    return check.integer("batch_size", int(given) if str(given).isdigit() else given, least=1)


def _stopped(text: str, until: list[str]) -> str:
    """The text up to the first of the stops."""
    return text[: min((text.index(stop) for stop in until if stop and stop in text), default=len(text))]


def _valid(tokens: list[int], until: list[str], decode: Callable[[list[int]], str]) -> int:
    """How many tokens of an answer count: those that write no more than its text up to the first stop."""
    text = decode(tokens)
    kept = len(_stopped(text, until))
    if kept == len(text):
        return len(tokens)
    return bisect_left(range(1, len(tokens) + 1), True, key=lambda count: len(decode(tokens[:count])) > kept)


def _told(what: str, counts: list[Counts]) -> Counts:
    """The sum, after a line in the log for each list of requests."""
    total = Counts.total(counts)
    log.info("%s %s.", what, total)
    return total

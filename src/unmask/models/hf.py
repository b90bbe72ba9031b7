"""Models from Hugging Face: `hf:NAME` or `hf:FOLDER`.

Any masked language model of `transformers` that comes with a tokenizer is a mask predictor: the tokenizer says which
token is the mask, and which special tokens stand around a text. These are fixed, and none is ever drawn.
Diffusion language models have conventions of their own, known by the configuration's `model_type` or `architectures`:

    LLaDA     mask from the configuration; ends, padding and turns are drawn like any token, beginnings are not
    Dream     the same, and the output at position `i` predicts `i+1`

and block-causal ones, whose finished blocks are kept: LLaDA 2.x, SDAR, Fast-dLLM v2, BD3-LM
(`unmask.models.stretches`).

Weights are read from safetensors, not from pickle files, and a model's own Python code does not run: either must be
asked for.
"""

from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from logging import getLogger
from pathlib import Path
from typing import Any, final

from unmask import _check as check
from unmask._memory import exhausted
from unmask._packages import Package
from unmask._torch import torch
from unmask.models import split, stretches
from unmask.models._buffers import made_again
from unmask.models.base import Model
from unmask.models.folder import check_weights, lacking, pickled
from unmask.models.tokenizer import Pretrained, first_sentence
from unmask.predict import Framed, MaskPredictor, Shifted, Suppressed

PREFIX = "hf:"
_WINDOW = 256  # tokens of a sequence where nobody says how many: contexts can be far longer than anyone would wait for
_CONTEXT = 512  # where neither model nor tokenizer know a longest sequence


def _foreign(name: str) -> check.InputError:
    remedy = "If you have read it and trust it, add {trust_remote_code}."
    return check.InputError("", f"The model {check.shown(name)} comes with its own Python code", remedy=remedy)


@final
@dataclass(frozen=True)
class Family:
    """The conventions of some models.

    Attributes:
        name: What they are called.
        loader: The class of transformers that loads them.
        types: What `model_type` is in their configurations, without regard to case.
        architectures: What is among the `architectures` there, likewise.
        shifted: Whether the output at position `i` predicts `i+1`.
        ended: Whether the end of a text is drawn like any token.
        blocks: How they are called if they are block-causal; None if they are not.
    """

    name: str
    loader: str
    types: tuple[str, ...] = ()
    architectures: tuple[str, ...] = ()
    shifted: bool = False
    ended: bool = False
    blocks: type[stretches.Foreign] | None = None


MASKED = Family("masked language model", "AutoModelForMaskedLM")
FAMILIES = (
    Family("LLaDA", "AutoModel", ("llada",), ("lladamodellm", "lladamoemodellm"), ended=True),
    Family("Dream", "AutoModel", ("dream",), ("dreammodel",), shifted=True, ended=True),
    Family(
        "LLaDA 2", "AutoModelForCausalLM", ("llada2_moe",), ("llada2moemodellm",), ended=True, blocks=stretches.Added
    ),
    Family(
        "SDAR", "AutoModelForCausalLM", ("sdar", "sdar_moe"), ("sdarforcausallm", "sdarmoeforcausallm"),
        ended=True, blocks=stretches.Stored,
    ),
    Family(
        "Fast-dLLM v2", "AutoModelForCausalLM", ("fast_dllm_qwen",), ("fast_dllm_qwenforcausallm",),
        ended=True, blocks=stretches.Updated,
    ),
    Family("BD3-LM", "AutoModelForMaskedLM", ("bd3lm",), ("bd3lm",), ended=True, blocks=stretches.Windowed),
)  # fmt: skip


def family_of(config: dict[str, Any]) -> Family:
    """The family that a configuration belongs to; masked language models by default."""
    kind = str(config.get("model_type", "")).lower()
    built = {str(name).lower() for name in _listed(config.get("architectures"))}
    known = (each for each in FAMILIES if kind in each.types or built & set(each.architectures))
    return next(known, MASKED)


def _listed(value: object) -> list[object]:
    return list(value) if isinstance(value, list | tuple) else []  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType]


def load(
    name: str, *, device: str | torch.device = "cpu", trust_remote_code: bool = False, allow_pickle: bool = False
) -> Model:
    """Load a model with its tokenizer.

    Arguments:
        name: A folder, or a name on the hub.
        device: Where to put it.
        trust_remote_code: Run Python code that comes with the model.
        allow_pickle: Read weights from pickle files where there are no safetensors.

    Raises:
        InputError: if there is no such model, or it lacks its tokenizer, a mask token or some weights, or needs what
            was not allowed.
    """
    transformers = _library()
    # A name on the hub is an owner and a word: anything else can only be a folder.
    if (Path(name).is_absolute() or name.startswith((".", "~")) or name.count("/") > 1) and not Path(name).is_dir():
        raise check.InputError("model", "be the name of an existing folder", found=f"'{name}'")
    with _quiet(transformers):
        config = _config(transformers, name)
        family = family_of(config)
        kind = str(config.get("model_type"))
        known = kind in transformers.CONFIG_MAPPING
        foreign = bool(config.get("auto_map")) and not known
        if foreign and not trust_remote_code:
            raise _foreign(name)
        if known:  # perhaps only to this program: dllm makes its own classes for LLaDA and Dream known to the library
            foreign = not transformers.CONFIG_MAPPING[kind].__module__.startswith("transformers.")
        if Path(name).is_dir():
            check_weights(Path(name), config, allow_pickle=allow_pickle)
        code = config if foreign else {}
        with _of_its_time(transformers, name, code):
            tokenizer = _tokenizer(transformers, name, trust_remote_code)
            network = _network(transformers, name, family, trust_remote_code, allow_pickle, foreign)
            _check_buffers(transformers, name, code, network)
            network = network.eval().to(device)
            try:
                return _assembled(name, family, network, tokenizer)
            except (AttributeError, IndexError, KeyError, OverflowError, RuntimeError, TypeError, ValueError) as error:
                if isinstance(error, check.InputError) or exhausted(error):
                    raise
                detail = f"but those of {check.shown(name)} do not: {first_sentence(error)}"
                raise check.InputError("model", "be one whose parts fit together", detail=detail) from error


def _assembled(name: str, family: Family, network: Any, tokenizer: Any) -> Model:
    mask = _mask(family, network, tokenizer)
    if mask is None:
        raise check.InputError("model", "have a mask token", detail=f"but neither '{name}' nor its tokenizer names one")
    word = tokenizer.convert_ids_to_tokens(mask)
    probe = [] if word is None else list(tokenizer(word)["input_ids"])
    if word is None and family.blocks is not None:
        probe = [mask]  # one beyond the tokenizer's own, which no text holds
    if probe.count(mask) != 1:
        detail = f"but the tokenizer of '{name}' does not"
        raise check.InputError("model", "have a tokenizer that reads its mask token as one token", detail=detail)
    before, after = probe[: probe.index(mask)], probe[probe.index(mask) + 1 :]
    if family.blocks is not None and (before or after):
        # They would shift the text against its blocks, and what is finished could not be kept.
        detail = f"because the blocks of '{name}' are counted from the beginning of a text"
        remedy = "Save its tokenizer without the tokens that it adds."
        raise check.InputError(
            "model", "have a tokenizer that adds nothing around a text", detail=detail, remedy=remedy
        )
    # Where padding is written as the end of a text, or is a token like others, it cannot be told from it.
    pad = tokenizer.pad_token_id
    pad = None if family.ended or pad in (None, mask, tokenizer.eos_token_id) else pad
    if family.blocks is not None:
        longest = _context(network, tokenizer)
        predictor: MaskPredictor = stretches.predictor(family.blocks, network, name, mask, longest)
    else:
        predictor = split.predictor(network, mask, pad, probe + list(range(min(8, len(tokenizer)))))
    unused = range(len(tokenizer), predictor.vocab)
    special = set(tokenizer.all_special_ids)
    if family.ended:
        # Its texts end, are filled up and change turns with special tokens; none begins or is unknown in the middle.
        starts = {tokenizer.bos_token_id, tokenizer.cls_token_id, tokenizer.unk_token_id}
        special = starts - {None, tokenizer.eos_token_id, tokenizer.pad_token_id}
    never = {*unused, *special} - {mask}
    if never := sorted(token for token in never if token < predictor.vocab):
        predictor = Suppressed(predictor, never)
    if family.shifted:
        predictor = Shifted(predictor)
    if before or after:
        predictor = Framed(predictor, before, after)
    codec = Pretrained(tokenizer, predictor.vocab, mask, tokenizer.eos_token_id if family.ended else None, before)
    length = _context(network, tokenizer) - len(before) - len(after)
    about = {"family": family.name, "architecture": type(network).__name__}
    return Model(PREFIX + name, network, predictor, codec, length, about, window=min(length, _WINDOW))


def _mask(family: Family, network: Any, tokenizer: Any) -> int | None:
    """The id of the mask: where the family says it, or the other way round."""
    places = (getattr(network.config, "mask_token_id", None), tokenizer.mask_token_id)
    known = [found for found in (places if family.ended else places[::-1]) if type(found) is int]
    if not known and family.blocks is stretches.Windowed:
        known = [network.config.vocab_size - 1]
    if not known and family.blocks is not None:
        known = [found for found in [stretches.default_of(network, ("mask_id",))] if found is not None]
    return known[0] if known else None


def _library() -> Any:
    package = Package("transformers", "transformers", 'Run: pip install "unmask[hf]"', "4.46 to 5.22")
    return package.load("CONFIG_MAPPING", "AutoModel", MASKED.loader, "AutoTokenizer", "PretrainedConfig")


@contextmanager
def _quiet(transformers: Any) -> Generator[None]:
    """No bars and notes while loading: what is wrong is said in a sentence of our own."""
    logging = transformers.utils.logging
    level, bars = logging.get_verbosity(), logging.is_progress_bar_enabled()
    hub = getLogger("huggingface_hub")  # it tells of every try to reach the hub
    before = hub.level
    hub.setLevel("ERROR")
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        logging.set_verbosity(level)
        hub.setLevel(before)
        if bars:
            logging.enable_progress_bar()


def _config(transformers: Any, name: str) -> dict[str, Any]:
    """The configuration as it is written; nothing of it runs."""
    try:
        found, _ = transformers.PretrainedConfig.get_config_dict(name)
    except Exception as error:  # the library raises whatever its parts do
        raise _unreadable(name, error) from None
    if not found:
        raise check.InputError("model", "have a configuration", detail=f"but '{name}' has no config.json")
    if not isinstance(found, dict):
        raise check.InputError(
            "model", "have a configuration", detail=f"but the config.json of '{name}' is not a JSON object"
        )
    return found  # pyright: ignore[reportUnknownVariableType]


def _unreadable(name: str, error: Exception) -> check.InputError:
    detail = f"but {check.shown(name)} is not: {first_sentence(error)}"
    return check.InputError("model", "be one that transformers can read", detail=detail)


def _tokenizer(transformers: Any, name: str, trust_remote_code: bool) -> Any:
    try:
        found = transformers.AutoTokenizer.from_pretrained(name, trust_remote_code=trust_remote_code)
    except Exception as error:  # the library raises whatever its parts do
        if "trust_remote_code" in str(error):
            raise _foreign(name) from None
        detail = f"but {check.shown(name)} does not: {first_sentence(error)}"
        raise check.InputError("model", "come with its tokenizer", detail=detail) from error
    # Without its files the library makes up a tokenizer that knows the special tokens and nothing else.
    if len(found) <= len(set(found.all_special_ids)):
        raise check.InputError("model", "come with its tokenizer", detail=f"but '{name}' has no vocabulary")
    return found


def _network(
    transformers: Any, name: str, family: Family, trust_remote_code: bool, allow_pickle: bool, foreign: bool
) -> Any:
    options = {"trust_remote_code": trust_remote_code, _dtype(transformers): "auto"}
    if not allow_pickle:
        options["use_safetensors"] = True
    try:
        loader = getattr(transformers, family.loader)
        if foreign:  # a class of its own may not answer what is asked for beside the network: Dream's does not
            network = loader.from_pretrained(name, **options)
            missing = lacking(network, name, lambda file: _found(transformers, name, file))
        else:
            network, info = loader.from_pretrained(name, **options, output_loading_info=True)
            missing = sorted(info["missing_keys"])
    except check.InputError:
        raise
    except ImportError as error:
        raise check.InputError(
            "", f"The model '{name}' needs packages that are not installed: {first_sentence(error)}"
        ) from error
    except Exception as error:  # the library raises whatever its parts do
        if not allow_pickle and isinstance(error, OSError) and "safetensors" in str(error):
            raise pickled(name) from None
        if "Unrecognized configuration class" in str(error):
            *others, last = [MASKED.name, *(each.name for each in FAMILIES)]
            must = f"be a {', '.join(others)} or {last}"
            raise check.InputError("model", must, detail=f"but '{name}' is none of these") from None
        raise _unreadable(name, error) from error
    if missing:
        raise check.InputError(
            "model", "have all its weights", detail=f"but '{name}' lacks {len(missing)} of them, such as '{missing[0]}'"
        )
    return network


def _found(transformers: Any, name: str, file: str) -> str | None:
    """Where a file of a model is; None if it has no such file."""
    options = {"_raise_exceptions_for_missing_entries": False, "_raise_exceptions_for_connection_errors": False}
    return transformers.utils.cached_file(name, file, **options)


@contextmanager
def _of_its_time(transformers: Any, name: str, config: dict[str, Any]) -> Generator[None]:
    """Let code that came with a model and fails under a later major version of the library ask for the one it is for.

    LLaDA's and Dream's were written for transformers 4, and use what is not in 5 any more.

    Arguments:
        transformers: The library.
        name: The model.
        config: Its configuration; empty if it has no code of its own.
    """
    try:
        yield
    except check.InputError as error:
        # Without a cause nothing failed: something was refused.
        if error.__cause__ is None or not _outdated(transformers, config):
            raise error from None
        raise _outlived(transformers, name, config, first_sentence(error.__cause__)) from None


def _outdated(transformers: Any, config: dict[str, Any]) -> bool:
    """Whether code that came with a model was written for an earlier major version of the library."""
    major = _written(config).split(".")[0]
    return bool(config) and major.isdigit() and int(major) < int(transformers.__version__.split(".")[0])


def _written(config: dict[str, Any]) -> str:
    return str(config.get("transformers_version") or "4")


def _outlived(transformers: Any, name: str, config: dict[str, Any], why: str) -> check.InputError:
    written, here = _written(config), transformers.__version__
    return check.InputError(
        "",
        f"The model '{name}' comes with code that was written for transformers {written} and fails under {here}: {why}",
        remedy=f"Run: pip install 'transformers<{int(written.split('.')[0]) + 1}'",
    )


def _check_buffers(transformers: Any, name: str, config: dict[str, Any], network: Any) -> None:
    """Refuse what would run with numbers that nobody wrote.

    Transformers 5 makes every network without memory, and then only fills what the checkpoint has. What code of a
    model computes when it is made and does not save, such as the frequencies of Dream's positions, is lost, unless it
    is written for that. A configuration says under which version a model was saved last, which need not be the one
    that its code was written for: so the numbers are compared with those of a network that is made as ever.
    """
    saved = network.state_dict()
    lost = {key: value for key, value in network.named_buffers() if key not in saved}
    if not config or not lost or int(transformers.__version__.split(".")[0]) < 5:
        return
    if _outdated(transformers, config):
        why = f"'{next(iter(lost))}', which the model computes when it is created, is lost"
        raise _outlived(transformers, name, config, why)
    made = made_again(network)
    for key, value in lost.items():
        if key not in made or not torch.equal(made[key].to(value.dtype), value):
            raise check.InputError(
                "",
                f"The model '{name}' comes with code that transformers {transformers.__version__} does not load "
                f"correctly: '{key}', which the model computes when it is created, is lost",
                remedy="Run: pip install 'transformers<5'",
            )


def _dtype(transformers: Any) -> str:
    """What the library calls the type of the weights; it was renamed."""
    major, minor = (int(part) for part in transformers.__version__.split(".")[:2])
    return "dtype" if (major, minor) >= (4, 56) else "torch_dtype"


def _context(network: Any, tokenizer: Any) -> int:
    """Longest sequence, special tokens included."""
    config = network.config
    limits = [
        getattr(config, key, None)
        for key in ("max_position_embeddings", "max_sequence_length", "n_positions", "model_length")
    ]
    limits.append(tokenizer.model_max_length)
    for part in network.modules():
        rows = getattr(part, "position_embeddings", None)
        if isinstance(rows, torch.nn.Embedding):
            # Some count positions from the one after that of padding.
            limits.append(rows.num_embeddings - (0 if rows.padding_idx is None else rows.padding_idx + 1))
    known = [int(limit) for limit in limits if isinstance(limit, int) and 0 < limit < 1 << 40]
    return min(known, default=_CONTEXT)

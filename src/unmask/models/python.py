"""Models of your own, made by a function in Python: `py:FILE.py:FUNCTION` or `py:package.module:function`.

The function is called without arguments, or with `device=` if it takes that, and returns one of two things:

    Model     all that this library needs: a mask predictor, the network behind it, a codec, the longest sequence
    Bare      a network that maps token ids `(batch, length)` to logits, and what else must be known about it

**Code from a file runs because you named it, and for no other reason**: whatever the file does when it is imported
happens, as with `python FILE`. Its folder, or for a module the current one, can be imported from while it is loaded,
and what it prints goes to standard error.
"""

import importlib
import importlib.util
import inspect
import os
import sys
import traceback
from collections.abc import Callable, Generator
from contextlib import contextmanager, redirect_stdout
from dataclasses import dataclass, replace
from pathlib import Path
from types import ModuleType
from typing import Any, final

from unmask import _check as check
from unmask._files import check_file
from unmask._memory import exhausted
from unmask._torch import Tensor, torch
from unmask.engine.base import BROUGHT
from unmask.models.base import Model
from unmask.models.text import Alphabet, Codec, Tokenizer
from unmask.models.tokenizer import Pretrained
from unmask.predict import Logits, MaskPredictor, Prediction, Suppressed, Wrapper, device_of, evaluating

PREFIX = "py:"
_FORM = "be a function, written as py:FILE.py:FUNCTION or py:package.module:function"
_FEW = 16  # tokens of a sequence on which a network is tried
_BESIDE: dict[str, Path] = {}  # modules that were imported from beside a file, and its folder


@final
@dataclass(frozen=True, eq=False)
class Bare:
    """A network, and what must be known to use it as a model.

    Arguments:
        module: Maps token ids, shape `(batch, length)`, to logits `(batch, length, vocab)` or an object with `.logits`.
        vocab: Number of logits of a position.
        mask: Token id that stands at masked positions; it is never drawn.
        tokenizer: Maps text to token ids: the characters of an alphabet in the order of their ids, a
            `unmask.models.text.Codec`, a `tokenizers.Tokenizer`, or a tokenizer of transformers.
        length: Longest sequence.
    """

    module: torch.nn.Module
    vocab: int
    mask: int
    tokenizer: Any
    length: int

    def model(self, name: str) -> Model:
        """This as a model.

        Arguments:
            name: What it is called.

        Raises:
            InputError: if its parts do not go together, or the network does not give logits.
        """
        check.instance("module", self.module, torch.nn.Module, "be a torch.nn.Module")
        vocab = check.integer("vocab", self.vocab, least=1, most=check.EXACT)
        mask = check.integer("mask", self.mask, least=0, most=check.EXACT)
        length = check.integer("length", self.length, least=1, most=check.LONGEST)
        codec, count, exact = _codec(self.tokenizer, vocab, mask)
        # The mask is no token of a text: either may count it, if it comes last.
        ours, theirs = vocab - (mask == vocab - 1), count - (mask == count - 1)
        if theirs > ours or (exact and theirs != ours):
            least = "" if exact else "at least "
            must = f"be {least}the number of tokens of the tokenizer, {theirs} without the mask"
            raise check.InputError("vocab", must, found=f"{ours}")
        predictor: MaskPredictor = Logits(self.module, vocab, mask, length=length)
        _try(self.module, predictor, length)
        if unused := [token for token in range(count, vocab) if token != mask]:
            predictor = Suppressed(predictor, unused)
        about = {"architecture": type(self.module).__name__}
        return Model(name, self.module, predictor, codec, length, about)


def load(name: str, *, device: str | torch.device = "cpu") -> Model:
    """Load the model that a function makes.

    Arguments:
        name: The function: "FILE.py:FUNCTION" or "package.module:function".
        device: Where to put it. The function is told if it takes an argument of that name.

    Raises:
        InputError: if there is no such function, or it fails, or what it gives is no model.
    """
    where, colon, function = name.rpartition(":")
    if not colon or not where or not function.isidentifier():
        raise check.InputError("model", _FORM, found=check.shown(PREFIX + name))
    path = Path(os.path.expanduser(where)) if where.endswith(".py") or os.sep in where else None
    if path is None and not all(part.isidentifier() for part in where.split(".")):
        raise check.InputError("model", _FORM, found=check.shown(PREFIX + name))
    place = torch.device(device)
    with _importable(path), redirect_stdout(sys.stderr):
        made = _made(_of_name(where) if path is None else _of_file(path), where, function, place)
        if not isinstance(made, Model | Bare):
            raise check.InputError(
                "model",
                "be a function that returns an unmask.models.Model or unmask.models.Bare",
                detail=f"but {check.shown(function)} returns {check.shown(made)}",
            )
        with check.blamed("model", "be a model that can be used", PREFIX + name):
            return _placed(made, PREFIX + name, place)


def _placed(made: Model | Bare, name: str, device: torch.device) -> Model:
    """What a function made as a model of that name, in evaluation mode, on the device."""
    check.instance("module", made.module, torch.nn.Module, "be a torch.nn.Module")
    with _said("module", f"move to {device}"):
        made.module.to(device).eval()
    if isinstance(made, Bare):
        made = made.model(name)
    check.instance("predictor", made.predictor, MaskPredictor, "be a mask predictor")
    check.instance("codec", made.codec, Codec, "be a Codec")
    check.instance("about", made.about, dict, "be a dictionary")
    check.integer("length", made.length, least=1, most=check.LONGEST)
    if made.window is not None:
        check.integer("window", made.window, least=1, most=made.length)
    return replace(made, name=name, predictor=_Own(made.predictor))


@final
@dataclass(frozen=True, eq=False)
class _Own(Wrapper):
    """A predictor of someone's own code, which may fail at anything: then that is said in one sentence."""

    predictor: MaskPredictor

    def __call__(self, tokens: Tensor, masked: Tensor, rows: Tensor | None = None) -> Prediction:
        batch, length = tokens.shape[0], tokens.shape[-1]
        with _said("model", f"predict {batch} sequence{'' if batch == 1 else 's'} of {length} tokens"):
            return self.predictor(tokens, masked, rows)


def _codec(tokenizer: Any, vocab: int, mask: int) -> tuple[Codec, int, bool]:
    """The tokenizer as a codec, the number of its tokens, and whether a model of it can have no others."""
    if isinstance(tokenizer, str):
        with check.renamed("characters", "tokenizer"):
            tokenizer = Alphabet(tokenizer)
    if isinstance(tokenizer, Codec):
        return tokenizer, tokenizer.vocab, True
    # Known by where their classes come from: neither library need be there.
    kinds = {kind.__module__.split(".")[0] for kind in type(tokenizer).__mro__}
    if "transformers" in kinds and hasattr(tokenizer, "all_special_ids"):
        return Pretrained(tokenizer, vocab, mask), len(tokenizer), False
    if "tokenizers" in kinds and hasattr(tokenizer, "get_vocab_size"):
        return Tokenizer(tokenizer), int(tokenizer.get_vocab_size()), False
    raise check.InputError(
        "tokenizer",
        "be an alphabet, a Codec, a tokenizers.Tokenizer or a tokenizer of transformers",
        found=check.shown(tokenizer),
    )


@torch.no_grad()
def _try(module: torch.nn.Module, predictor: MaskPredictor, length: int) -> None:
    """Refuse a network that cannot be called, before anything is done with it."""
    device = device_of(module)
    few = min(length, _FEW)
    with evaluating(predictor):
        # Some take sequences of one length alone.
        if few < length and not _works(module, torch.zeros((1, few), dtype=torch.int64, device=device)):
            few = length
        tokens = torch.zeros((1, few), dtype=torch.int64, device=device)
        with _said("module", "map token ids to logits"):
            predictor(tokens, torch.zeros_like(tokens, dtype=torch.bool)).logits()
        with _said("mask", "be a token id that the module takes", subject="the module", found=f"{predictor.mask}"):
            predictor(torch.full_like(tokens, predictor.mask), torch.ones_like(tokens, dtype=torch.bool)).logits()


def _works(module: torch.nn.Module, tokens: Tensor) -> bool:
    try:
        module(tokens)
    except Exception:  # why, is said when it is tried again
        return False
    return True


def _made(module: ModuleType, where: str, function: str, device: torch.device) -> object:
    """What the function returns."""
    if not hasattr(module, function):
        known = [name for name, value in vars(module).items() if inspect.isroutine(value) and name[0] != "_"]
        hint = f"It has {', '.join(sorted(known)[:8])}." if known else ""
        detail = f"but {check.shown(where)} has no {check.shown(function)}"
        raise check.InputError("model", "be an existing function", detail=detail, remedy=hint)
    maker: Any = getattr(module, function)
    if not callable(maker):
        detail = f"but {check.shown(function)} of {check.shown(where)} is not one"
        raise check.InputError("model", "be a function", detail=detail)
    told = {"device": device} if _takes_device(maker, function) else {}
    with _said("model", "be a function that makes a model", subject=check.shown(function)):
        return maker(**told)


def _takes_device(maker: Callable[..., object], function: str) -> bool:
    try:
        wanted = inspect.signature(maker).parameters.values()
    except (TypeError, ValueError):  # not everything that can be called says how
        return False
    optional = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    positional = (inspect.Parameter.POSITIONAL_ONLY, *optional)
    takes = any(each.name == "device" and each.kind not in positional for each in wanted)
    missing = [each.name for each in wanted if each.default is each.empty and each.kind not in optional]
    if wants := [name for name in missing if name != "device" or not takes]:
        raise check.InputError(
            "model",
            "be a function that takes no arguments, or only device",
            detail=f"but {check.shown(function)} needs {', '.join(wants)}",
        )
    return takes


def _of_file(path: Path) -> ModuleType:
    """The module that a file holds, run anew."""
    check_file(path, "model")
    # Under a name that nothing else has: a file may be called as a library is.
    name = "unmask_py_" + "".join(letter if letter.isalnum() else "_" for letter in path.stem)
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise check.InputError("model", "be a Python file", detail=f"but '{path}' is not")
    module = importlib.util.module_from_spec(spec)
    before = sys.modules.get(name)
    sys.modules[name] = module  # where dataclasses and pickles look for it
    try:
        with _said("model", "be a Python file that can be run", subject=f"'{path}'"):
            spec.loader.exec_module(module)
    except BaseException:
        _forget(name)
        if before is not None:
            sys.modules[name] = before
        raise
    BROUGHT.add(name)
    return module


def _of_name(name: str) -> ModuleType:
    """The module of that name."""
    with _said("model", "be a Python module that can be imported", subject=f"'{name}'"):
        return importlib.import_module(name)


@contextmanager
def _importable(path: Path | None) -> Generator[None]:
    """Let modules beside a file be imported, or those of the current folder; they travel with the model.

    What was imported from beside another file is forgotten: modules there may have the same names.
    """
    folder = Path.cwd() if path is None else Path(os.path.abspath(path)).parent
    for name in [name for name, other in _BESIDE.items() if path is not None and other != folder]:
        _forget(name)
    place, before = str(folder), set(sys.modules)
    sys.path.insert(0, place)
    importlib.invalidate_caches()
    try:
        yield
    finally:
        if place in sys.path:
            sys.path.remove(place)
        for name in set(sys.modules) - before:
            if _lies_in(folder, name):
                BROUGHT.add(name)
                if path is not None:
                    _BESIDE[name] = folder


def _lies_in(folder: Path, name: str) -> bool:
    """Whether a module was found because its folder was looked into."""
    first = name.partition(".")[0]
    origin = getattr(sys.modules.get(first), "__file__", None)
    return first != "unmask" and origin in (str(folder / f"{first}.py"), str(folder / first / "__init__.py"))


def _forget(name: str) -> None:
    sys.modules.pop(name, None)
    _BESIDE.pop(name, None)
    BROUGHT.discard(name)


@contextmanager
def _said(argument: str, must: str, *, subject: str = "it", found: str = "") -> Generator[None]:
    """Whatever foreign code raises, in one sentence."""
    try:
        yield
    except (check.InputError, KeyboardInterrupt, GeneratorExit):
        raise
    except BaseException as error:  # a file that exits, too
        if isinstance(error, Exception) and exhausted(error):
            raise
        why = f"{'because' if found else 'but'} {subject} fails{_line(error)}: {_reason(error)}"
        raise check.InputError(argument, must, found=found, detail=why) from error


def _reason(error: BaseException) -> str:
    words = " ".join(str(error).split())
    return f"{type(error).__name__}: {words}".removesuffix(": ").removesuffix(".")


def _line(error: BaseException) -> str:
    """Where in someone's own code it happened: the last line of the traceback that is not of a library."""
    if isinstance(error, SyntaxError):
        return ""  # which says it itself
    own = Path(__file__).parent.parent
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if _foreign(frame.filename, own)]
    return f" at line {frames[-1].lineno} of {Path(frames[-1].filename).name}" if frames else ""


def _foreign(file: str, own: Path) -> bool:
    library = os.path.dirname(os.__file__)
    return not file.startswith(("<", library)) and "site-packages" not in file and own not in Path(file).parents

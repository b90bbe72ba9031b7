"""What a run of `unmask calibrate` has to do, given what earlier ones did.

A first answer comes from few texts. Once the file has all that is wanted, another run takes twice as many, and what was
found stays in its place until they are measured.
"""

import shlex
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, final

from unmask import _check as check
from unmask import order
from unmask._atomic import locked
from unmask.calibration import Calibration, one_by_one
from unmask.schedule import Schedule
from unmask.words.inputs import check_calibration, read_calibration
from unmask.words.rules import PLANNED, inside_blocks, rules_named
from unmask.words.schedules import check_combs, fits, measurable
from unmask.words.texts import Texts

if TYPE_CHECKING:
    from unmask.data import Collected
    from unmask.models import Model

_WINDOWS, _ROWS = 6, 32  # texts of a first answer, which takes the built-in model about 20 seconds


def usual(
    model: "Model", orders: list[str], rules: list[str], *, said: bool, blocks: int | None = None
) -> tuple[list[str], list[str]]:
    """What is measured of a model: orders and rules, or of one that remembers rules alone, planned ones.

    Arguments:
        model: The model.
        orders: Names of orders.
        rules: Names of rules.
        said: Whether the orders were asked for.
        blocks: Tokens of a block, if it is to fill one after the other: then orders inside blocks are measured as
            rules, and those of the whole text only if they were asked for. Those of a block-causal model are counted
            from the beginning of the text, as its own are.

    Raises:
        InputError: if orders of a model that remembers were asked for.
    """
    if blocks is not None:
        orders, rules = orders if said else [], [*rules, inside_blocks(blocks, whole=_block_causal(model))]
    if not model.predictor.remembers:
        return orders, rules
    if said and orders:
        raise check.InputError(
            "orders",
            "be left out",
            detail="because this model is causal in the schedule and an order alone does not determine its losses",
            remedy="Name planned schedules with {rules}, such as whole-comb/even:16.",
        )
    return [], rules or [PLANNED]


def _block_causal(model: "Model") -> bool:
    """Whether what is inside all wrappers of a model's predictor is a block-causal network."""
    from unmask.predict import Blockwise
    from unmask.predict.wrappers import Wrapper

    found = model.predictor
    while isinstance(found, Wrapper):
        found = found.predictor
    return isinstance(found, Blockwise)


@final
@dataclass(frozen=True)
class Begun:
    """What is to be measured, and what of it is known.

    Attributes:
        taken: The texts.
        orders: Orders to measure.
        rules: Rules to measure.
        kept: What is known of these texts.
        place: Where it is kept until all is measured.
        note: A sentence for people if the run uses more texts than the last one without being told to.
    """

    taken: "Collected"
    orders: dict[str, order.BlindOrder]
    rules: dict[str, Schedule]
    kept: Calibration
    place: Path
    note: str = ""

    def save(self, found: Calibration) -> Calibration:
        """Keep what is known, with what another process has found out meanwhile."""
        with locked(self.place, "output", "written", wait=True):
            if self.place.exists():
                found = found.merged(Calibration.load(self.place))
            found.save(self.place)
            return Calibration.load(self.place)  # as whoever reads it will find it: a file keeps seven digits


def begin(
    output: Path, model: "Model", texts: Texts, seed: int, orders: list[str], rules: list[str], *, strict: bool
) -> Begun:
    """What a run has to do.

    Arguments:
        output: Where the calibration is, or is to be.
        model: The model.
        texts: What was said of the texts.
        seed: Draws rows, and the orders.
        orders: Names of the orders to measure.
        rules: Names of rules to measure.
        strict: Whether an order that does not fit the texts is a mistake; otherwise it is left out.

    Raises:
        InputError: if the file holds something else, or was made for another model, length, text or seed.
    """
    from unmask.calibration.series import blank

    def named(taken: "Collected") -> tuple[dict[str, order.BlindOrder], dict[str, Schedule]]:
        most = int(taken.sequences.counts.max())
        if strict:
            with check.renamed("order", "orders"):
                check_combs(orders, most)
        with check.renamed("rule", "rules"):
            return wanted_orders(orders, most), rules_named(rules, most)

    # One pass for each schedule leaves time for more.
    first = _WINDOWS if texts.text is not None and not model.predictor.remembers else _ROWS
    if not output.exists():
        taken = texts.collected(model, seed, first)
        return Begun(taken, *named(taken), blank(model.fingerprint, taken.sequences, seed), output)
    try:
        with check.renamed("calibration", "output"):
            found = read_calibration(output)
    except check.InputError as error:
        # What is wrong with the file may say to run `unmask calibrate`, which would end here again.
        cause = None if error.cause is None else error.cause.changed(remedy="")
        remedy = error.remedy or "That file already exists. Choose another {output}."
        raise error.changed(cause=cause, remedy=remedy) from None
    length = None if texts.text is None else model.length
    check_calibration(found, output, length, model.fingerprint, "Choose another {output} for this model.")
    taken = replace(texts, count=None).collected(model, seed, found.texts)
    if found.source != blank(model.fingerprint, taken.sequences, seed).source:
        same = "{data}" if length is None else "{text}"
        raise check.InputError(
            "",
            f"The calibration '{output}' was made with other texts or another seed",
            remedy=f"Choose another {{output}}, or give the same {same} and {{seed}} to continue it.",
        )
    wanted, schedules = named(taken)
    if texts.count is not None and texts.count < found.texts:
        detail = f"because '{output}' was made with {found.texts}"
        remedy = "To use fewer, choose another {output}."
        raise check.InputError(
            "texts", f"be at least {found.texts}", found=f"{texts.count}", detail=detail, remedy=remedy
        )
    missing = (wanted.keys() - found.losses.keys()) | (schedules.keys() - found.rules.keys())
    if texts.count == found.texts or (texts.count is None and (missing or str(texts.data) == "-")):
        return Begun(taken, wanted, schedules, found, output)
    if str(texts.data) == "-":
        detail, remedy = (
            "since standard input can be read only once",
            "Put the rows into a file to continue with more of them.",
        )
        raise check.InputError("texts", f"be {found.texts}", found=f"{texts.count}", detail=detail, remedy=remedy)
    more = texts.collected(model, seed, 2 * found.texts)
    if len(more) == len(taken):  # there are no others
        return Begun(taken, wanted, schedules, found, output)
    wanted, schedules = named(more)
    wanted = {name: losses.order for name, losses in found.losses.items()} | wanted
    schedules = {name: rule.schedule for name, rule in found.rules.items()} | schedules
    place, fresh = output.with_name(f".{output.name}.part"), blank(model.fingerprint, more.sequences, seed)
    note = ""
    if texts.count is None:
        note = (
            f"'{output}' already has these measurements for {found.texts} texts: this run repeats them with "
            f"{len(more)}. To keep {found.texts}, set --texts {found.texts}."
        )
    return Begun(more, wanted, schedules, _continued(place, fresh), place, note)


def _continued(place: Path, fresh: Calibration) -> Calibration:
    """What an earlier run left at that place of the same texts; anything else there is of no use any more."""
    try:
        found = Calibration.load(place)
    except (check.InputError, OSError):
        found = None
    if found is not None and (found.model, found.source) == (fresh.model, fresh.source):
        return found
    place.unlink(missing_ok=True)
    return fresh


def following(found: Calibration, output: Path, model: str) -> str:
    """What to run after a calibration: the advice, or first what advice compares with.

    Arguments:
        found: The calibration.
        output: Where it is.
        model: The options that name the model.
    """
    try:
        one_by_one(found)
    except check.InputError:
        more = "--orders random" if found.losses else f"--rules left-to-right/even:{found.length}"
        return f"run this command again with {more}, because `unmask advise` needs the cost of one token at a time"
    return f"unmask advise {model} --calibration {shlex.quote(str(output))} --target 0.05"


def wanted_orders(names: list[str] | tuple[str, ...], length: int) -> dict[str, order.BlindOrder]:
    """The orders of those names that are at home in sequences of that length."""
    kinds = {name: measurable(name) for name in names}
    return {name: kind for name, kind in kinds.items() if fits(kind, length)}

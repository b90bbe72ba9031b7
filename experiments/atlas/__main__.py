"""The atlas: what schedules cost on one kind of data.

    python -m experiments.atlas KIND [--folder runs/atlas/KIND] [--shared ../shared] [--seconds 100]

Makes the data, trains the networks, calibrates the one called `both`, measures every rule on rows that nobody chose on,
writes texts, scores them, and puts the numbers into experiments/results/atlas-KIND*.csv. Each part is skipped where its
files are there and of the same network, so that a run can be stopped at any time, and a part be done on a machine with
a GPU. Tables are of what was recorded, and need no networks. With --tiny, everything runs in minutes on a CPU and means
nothing.
"""

import argparse
from collections.abc import Sequence
from pathlib import Path

import torch
from experiments import common
from experiments.atlas import kinds, networks
from experiments.atlas.kind import Kind, Settings
from experiments.atlas.mistakes import sentences
from experiments.atlas.parts import Atlas, Training
from experiments.atlas.tables import tables
from experiments.atlas.turns import Turns

PARTS = ("make", "train", "see", "measure", "whole", "write", "table")
TINY = {"width": 16, "updates": 8, "tokens": 2048, "rows": 4, "whole": 4}
FEW = Settings(divisors=(32, 8), thresholds=(0.9,), bounds=(1.0,))  # every rule, at few settings


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m experiments.atlas", description=__doc__.split("\n")[0])
    parser.add_argument("kind", choices=sorted(kinds.KINDS))
    parser.add_argument(
        "--folder",
        type=Path,
        help="where data, networks and costs are kept; runs/atlas/KIND by default, KIND-tiny with --tiny",
    )
    parser.add_argument("--shared", type=Path, help="where the texts lie that no package has")
    parser.add_argument("--results", type=Path, default=common.RESULTS, help="where the tables go")
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=PARTS, help="what to do; all of it by default")
    parser.add_argument("--networks", nargs="+", choices=networks.NETWORKS, help="all of the kind by default")
    parser.add_argument("--seconds", type=float, help="to train one network; the kind says how many by default")
    parser.add_argument("--updates", type=int, help="to train one network, in place of --seconds")
    parser.add_argument("--tokens", type=int, help="of an update; as many as fit a GPU by default")
    parser.add_argument("--width", type=int, help="of the networks; the kind says which by default")
    parser.add_argument("--compile", action="store_true", help="compile networks on a CPU too, which pays in long runs")
    parser.add_argument("--rows", type=int, help="test rows; half as many for validation")
    parser.add_argument("--batch", type=int, default=512, help="texts at once, where costs are measured")
    parser.add_argument("--turn", type=Path, help="a file that is locked by the process that may use the GPU")
    parser.add_argument("--until", type=float, help="when training must stop, in seconds since 1970")
    parser.add_argument("--partial", action="store_true", help="write tables although some rules are not measured")
    parser.add_argument("--tiny", action="store_true", help="try everything; the tables go into the folder")
    options = parser.parse_args(arguments)
    torch.backends.cuda.matmul.allow_tf32 = True  # several times faster, and what networks are trained with
    # What is tried has data and networks of its own: a run takes those that it finds for its own.
    own = f"{options.kind}-tiny" if options.tiny else options.kind
    folder = options.folder or Path("runs") / "atlas" / own
    kind, whole = kinds.KINDS[options.kind](), None
    if options.tiny:
        for name in ("width", "updates", "tokens", "rows"):
            if getattr(options, name) is None:
                setattr(options, name, TINY[name])
        kind.settings, whole, options.results = FEW, TINY["whole"], folder / "results"
    if options.width is not None:
        kind.width = options.width
    with sentences():
        work(options, kind, folder, whole)


def work(options: argparse.Namespace, kind: Kind, folder: Path, whole: int | None) -> None:
    """Do the parts; before any of them, the numbers are checked."""
    names = options.networks or kind.networks
    for name in names:
        networks.shape_of(kind, name)
    seconds = options.seconds
    if seconds is None and options.updates is None:  # what was counted ends when it is done
        seconds = kind.seconds
    turns = Turns(options.turn, options.until)
    how = Training(seconds, options.updates, options.tokens, turns, options.compile)
    atlas = Atlas(kind, folder, options.rows, options.batch)
    parts = {
        "make": lambda: atlas.make(options.shared),
        "train": lambda: atlas.train(names, how),
        "see": atlas.see,
        "measure": lambda: atlas.measure(names),
        "whole": lambda: atlas.whole(names, whole),
        "write": lambda: atlas.write(names),
        "table": lambda: tables(atlas, options.results, partial=options.partial),
    }
    for part in options.parts:
        parts[part]()


if __name__ == "__main__":
    main()

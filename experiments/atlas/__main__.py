"""The atlas: what schedules cost on one kind of data.

    python -m experiments.atlas KIND [--folder runs/atlas/KIND] [--shared ../shared] [--seconds 900]

Makes the data, trains the networks, calibrates one that looks both ways, measures every rule on rows that nobody chose
on, writes texts, scores them, and puts the numbers into experiments/results/atlas-KIND*.csv. Each part is skipped where
its files are there, so that a run can be stopped at any time, and a part be done on a machine with a GPU.
"""

import argparse
from collections.abc import Sequence
from pathlib import Path

from experiments.atlas import kinds, parts

PARTS = ("make", "train", "see", "measure", "write", "table")


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m experiments.atlas", description=__doc__.split("\n")[0])
    parser.add_argument("kind", choices=sorted(kinds.KINDS))
    parser.add_argument(
        "--folder", type=Path, help="where data, networks and costs are kept; runs/atlas/KIND by default"
    )
    parser.add_argument("--shared", type=Path, help="where the texts lie that no package has")
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=PARTS, help="what to do; all of it by default")
    parser.add_argument("--networks", nargs="+", choices=parts.NETWORKS, default=parts.NETWORKS[:3])
    parser.add_argument("--seconds", type=float, default=900, help="to train one network")
    parser.add_argument("--rows", type=int, help="test rows; half as many for validation")
    parser.add_argument("--batch", type=int, default=512, help="texts at once, where costs are measured")
    options = parser.parse_args(arguments)
    folder = options.folder or Path("runs") / "atlas" / options.kind
    atlas = parts.Atlas(kinds.KINDS[options.kind](), folder, options.rows, options.batch)
    work = {
        "make": lambda: atlas.make(options.shared),
        "train": lambda: atlas.train(options.networks, options.seconds),
        "see": atlas.see,
        "measure": lambda: atlas.measure(options.networks),
        "write": lambda: atlas.write(options.networks),
        "table": atlas.table,
    }
    for part in options.parts:
        work[part]()


if __name__ == "__main__":
    main()

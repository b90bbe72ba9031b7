"""Data: sequences in files, read one by one, and how a model reads them.

    streams       lines of a file, compressed or not, or of standard input
    formats       lines as rows: JSON lines, plain lines, FASTA, a column of a table
    files         rows of any such file
    encoding      a row as token ids, and which of them are to be filled
    collection    rows as `unmask.sequences.Sequences`; a sample of them; many of them, some at a time

Names load when they are first used: reading needs no torch.
"""

import lazy_loader

# lazy_loader has no types; those of the names are in the stub beside this file.
__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)  # pyright: ignore[reportUnknownVariableType]

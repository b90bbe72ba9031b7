"""How the site reads our docstrings: a section `Example:` holds doctests, as `Examples:` does for Griffe."""

import re

import griffe


class Ours(griffe.Extension):
    def on_object(self, *, obj: griffe.Object, **kwargs: object) -> None:
        if obj.docstring is not None:
            obj.docstring.value = re.sub(r"^Example:$", "Examples:", obj.docstring.value, flags=re.MULTILINE)

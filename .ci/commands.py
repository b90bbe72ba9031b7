"""Writes docs/reference/commands.md: the help of every command. A test compares the page with the commands.

python .ci/commands.py
"""

from pathlib import Path

from unmask._atomic import replacing
from unmask.cli import main

PAGE = Path(__file__).parent.parent / "docs" / "reference" / "commands.md"
WIDTH = 100
OPENING = """\
# Commands

This page shows the help of every command, as `--help` prints it (`python .ci/commands.py` writes the page). If you make
a mistake, the command prints one line to stderr and exits with code 2. To see where an error comes from, run
`unmask --traceback COMMAND …`.
"""


def page() -> str:
    """The page, as it should be."""
    parts = [OPENING]
    root = main.context_class(main, info_name="unmask", **main.context_settings)
    for name, summary in main.summaries.items():
        command = main.get_command(root, name)
        assert command is not None
        context = command.context_class(
            command, info_name=name, parent=root, terminal_width=WIDTH, max_content_width=WIDTH
        )
        parts.append(f"## unmask {name}\n\n{summary}\n\n```text\n{command.get_help(context).strip()}\n```\n")
    return "\n".join(parts)


if __name__ == "__main__":
    with replacing(PAGE) as path:
        path.write_text(page(), encoding="utf-8")

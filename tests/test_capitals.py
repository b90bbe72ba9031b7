"""Capitals, for models whose alphabet has none: read as small letters, and said so."""

import warnings

import pytest

from unmask import InputError, Note
from unmask.models.text import Alphabet


def test_capitals_are_read_as_small_letters_with_a_warning():
    codec = Alphabet("abc ")
    with pytest.warns(Note, match="^Capital letters are converted to lower case"):
        assert codec.encode("Ab CaB").tolist() == codec.encode("ab cab").tolist()
    with pytest.warns(Note):
        assert codec.prompt("A_C", 9) == [0, 9, 2]


def test_an_alphabet_with_capitals_keeps_them_and_nothing_is_said_of_small_letters():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert Alphabet("aA").encode("aAa").tolist() == [0, 1, 0]
        assert Alphabet("ab").encode("abba").tolist() == [0, 1, 1, 0]


@pytest.mark.parametrize(
    ("text", "character", "where"), [("Ab9", "9", 3), ("AÉ", "É", 2), ("AİK", "İ", 2), ("aZ", "Z", 2)]
)
def test_other_characters_are_still_refused_where_they_stand(text, character, where):
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # what is refused is not read in any way
        with pytest.raises(InputError, match=f"but it has '{character}' at character {where}"):
            Alphabet("abk").encode(text)


def test_a_prompt_with_capitals_is_the_prompt_without():
    """In Python, where the warning names the line of the caller."""
    torch = pytest.importorskip("torch")
    del torch
    import unmask

    with pytest.warns(Note) as caught:
        loud = unmask.generate("causal", "The ____ OF", steps=2)
    assert {warning.filename for warning in caught} == {__file__}
    assert loud == unmask.generate("causal", "the ____ of", steps=2)


@pytest.mark.parametrize("command", ["generate", "evaluate"])
def test_a_command_says_so_once_on_stderr(command, tmp_path):
    pytest.importorskip("torch")
    from click.testing import CliRunner

    from unmask.cli import main

    text = "What is measured is Read in small Letters too " * 12

    def said(words):
        (tmp_path / "text.txt").write_text(words)
        lines = {
            "generate": ["--prompt", words[:20] + "____", "--steps", "2"],
            "evaluate": [
                "--model",
                "causal",
                "--text",
                str(tmp_path / "text.txt"),
                "--texts",
                "2",
                "--order",
                "whole-comb",
                "--steps",
                "16",
            ],
        }
        result = CliRunner().invoke(main, [command, *lines[command]])
        assert result.exit_code == 0, result.output
        return result

    loud, quiet = said(text), said(text.lower())
    assert loud.stderr.count("Note: Capital letters are converted to lower case") == 1
    assert "Note" not in quiet.stderr
    if command == "generate":
        assert loud.stdout == quiet.stdout

"""Texts as token ids."""

import numpy as np
import pytest

from unmask.models.text import Alphabet, Bytes, Store, Tokenizer, printable


def test_alphabets_and_bytes_round_trip():
    assert Alphabet("ab ").decode(Alphabet("ab ").encode("a b")) == "a b"
    assert Bytes().decode(Bytes().encode("naïve").tolist()) == "naïve"


def test_foreign_characters_are_named_with_their_place():
    with pytest.raises(
        ValueError, match="must use only the 2 characters of the alphabet 'ab', but it has 'c' at character 3"
    ):
        Alphabet("ab").encode("abc")
    with pytest.raises(ValueError, match="a string of one or more different characters"):
        Alphabet("aa")


def test_a_store_is_mapped_and_gives_its_windows(tmp_path):
    store = Store.of("abcabcabc", Alphabet("abc"))
    store.save(tmp_path / "text.npy")
    mapped = Store.load(tmp_path / "text.npy")
    assert isinstance(mapped.tokens, np.memmap)
    assert mapped.tokens.dtype == np.uint8
    assert mapped.windows(3, np.array([0, 4])).tolist() == [[0, 1, 2], [1, 2, 0]]
    assert mapped.even_windows(3).tolist() == [[0, 1, 2]] * 3
    assert mapped.even_windows(4, 2).shape == (2, 4)
    windows = mapped.random_windows(5, 100, rng=np.random.default_rng(0))
    assert {int(row[0]) for row in windows} == {0, 1, 2}


def test_a_text_shorter_than_a_sequence_is_refused():
    with pytest.raises(ValueError, match="must have at least 5 tokens, not 3"):
        Store.of("abc", Alphabet("abc")).even_windows(5)


def test_tokenizer_files_work(tmp_path):
    tokenizers = pytest.importorskip("tokenizers")
    words = tokenizers.Tokenizer(tokenizers.models.WordLevel({"a": 0, "b": 1, "?": 2}, unk_token="?"))
    words.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    words.save(str(tmp_path / "words.json"))
    codec = Tokenizer.load(tmp_path / "words.json")
    assert codec.vocab == 3
    assert codec.encode("b a c").tolist() == [1, 0, 2]
    assert codec.decode([0, 1]) == "a b"


def test_marks_that_a_tokenizer_puts_around_texts_are_left_out():
    """A prompt is encoded part by part, and a window may begin anywhere."""
    tokenizers = pytest.importorskip("tokenizers")
    words = tokenizers.Tokenizer(tokenizers.models.WordLevel({"a": 0, "b": 1, "<": 2, ">": 3}, unk_token="a"))
    words.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    words.post_processor = tokenizers.processors.TemplateProcessing(
        single="< $A >", special_tokens=[("<", 2), (">", 3)]
    )
    codec = Tokenizer(words)
    assert codec.encode("a b").tolist() == [0, 1]
    assert codec.prompt("a _ b", 9) == [0, 9, 1]
    assert codec.prompt("", 9) == []


def test_a_wrong_character_of_a_prompt_is_found_where_it_stands():
    with pytest.raises(ValueError, match=r"Argument 'prompt' must use .* but it has 'Z' at character 4"):
        Alphabet("ab").prompt("a_bZ", 2)


def test_a_terminal_is_given_nothing_that_it_would_obey():
    """An alphabet is any list of characters, and what a model writes is printed."""
    alphabet = Alphabet("".join(map(chr, range(32))) + "\x7f\x9b\u202e\ud800é😀")
    shown = printable(alphabet.decode(range(alphabet.vocab)))
    assert len(shown) == alphabet.vocab
    assert {character for character in shown if not character.isprintable()} == {"\t", "\n"}
    assert shown.endswith("é😀")
    shown.encode()
    ordinary = "naïve 日本 👩\u200d💻\ttab\nline\u00a0space"
    assert printable(ordinary) == ordinary


def test_what_is_no_store_is_refused(tmp_path):
    for name, content in {"text": b"abc", "empty": b""}.items():
        (tmp_path / name).write_bytes(content)
        with pytest.raises(ValueError, match=r"Argument 'path' must be a file of tokens, but .* is not"):
            Store.load(tmp_path / name)
    for number, wrong in enumerate((np.zeros(3), np.zeros((2, 2), dtype=np.uint8), np.array([None]))):
        np.save(tmp_path / f"{number}.npy", wrong)
        with pytest.raises(ValueError, match="must be a file of tokens"):
            Store.load(tmp_path / f"{number}.npy")
    with pytest.raises(ValueError, match=r"must be the name of an existing file, not '.*'"):
        Store.load(tmp_path / "none")


def test_what_is_no_tokenizer_file_is_refused(tmp_path):
    pytest.importorskip("tokenizers")
    (tmp_path / "x").write_text("[]")
    with pytest.raises(ValueError, match=r"Argument 'path' must be a tokenizer file, but .* is not"):
        Tokenizer.load(tmp_path / "x")
    with pytest.raises(ValueError, match=r"must be a file, not the folder '.*'"):
        Tokenizer.load(tmp_path)

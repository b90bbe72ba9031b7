"""The data of the atlas, made small: nothing is fetched."""

import gzip
import io
import lzma
import subprocess
import sys
import tarfile
import zipfile
from hashlib import sha256
from pathlib import Path

import numpy as np
import pytest

from unmask import InputError

ROOT = Path(__file__).parent.parent


@pytest.fixture(autouse=True)
def _few_rows(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT))
    from experiments.atlas.kind import Kind

    monkeypatch.setattr(Kind, "rows", 4)


@pytest.fixture
def rng():
    return np.random.default_rng(0)


def fetched(folder, module, monkeypatch, content):
    """Put a made-up package where a kind looks for one that it fetched before."""
    (folder / "fetched").mkdir()
    (folder / "fetched" / module.PACKAGE).write_bytes(content)
    monkeypatch.setattr(module, "DIGEST", sha256(content).hexdigest())


def shared(folder, **texts):
    (folder / "data").mkdir(parents=True)
    for name, text in texts.items():
        with lzma.open(folder / "data" / name, "wb") as file:
            file.write(text)
    return folder


# Sudoku


def valid(boards):
    """Whether every row, column and box of each board has all digits."""
    grids = boards.reshape(-1, 9, 9)
    boxes = grids.reshape(-1, 3, 3, 3, 3).swapaxes(2, 3).reshape(-1, 9, 9)
    return all((np.sort(lines, axis=2) == np.arange(9)).all() for lines in (grids, grids.swapaxes(1, 2), boxes))


def box(cell):
    return cell // 27, cell % 9 // 3


PEERS = [
    [other for other in range(81) if other // 9 == cell // 9 or other % 9 == cell % 9 or box(other) == box(cell)]
    for cell in range(81)
]


def solutions(board):
    """All solutions of a board, by sets of digits and recursion: slow, and nothing in common with the kind's search."""
    possible = {cell: set(range(9)) - {board[other] for other in PEERS[cell]} for cell in range(81) if board[cell] < 0}
    if not possible:
        return [tuple(board)]
    cell = min(possible, key=lambda each: len(possible[each]))
    return [found for digit in possible[cell] for found in solutions([*board[:cell], digit, *board[cell + 1 :]])]


def test_boards_are_valid_before_and_after_symmetries(rng):
    from experiments.atlas import sudoku

    boards = sudoku.full(300, rng=rng)
    assert valid(boards)
    assert len(np.unique(boards, axis=0)) == 300
    turned = sudoku.turned(boards.astype(np.uint8), rng=rng)
    assert valid(turned)
    assert not (turned == boards).all(axis=1).any()


def test_the_search_counts_what_an_independent_one_finds(rng):
    from experiments.atlas import sudoku

    digits = np.tile(np.arange(9, dtype=np.int8), (81, 1))
    boards = sudoku.full(3, rng=rng)
    puzzles = sudoku.thinned(boards, rng=rng)
    for board, puzzle in zip(boards.tolist(), puzzles.tolist(), strict=True):
        assert solutions(puzzle) == [tuple(board)]
        # With one clue less there may be several solutions; the search counts them all, or up to a bound.
        puzzle[next(cell for cell in range(81) if puzzle[cell] >= 0)] = -1
        count = len(solutions(puzzle))
        fewer = np.array(puzzle, dtype=np.int8)
        assert sudoku.search(fewer.copy(), digits, 10**6) == count
        assert sudoku.search(fewer.copy(), digits, 1) == 1
        assert sudoku.search(fewer.copy(), digits, 2) == min(count, 2)
    wrong = np.full(81, -1, dtype=np.int8)
    wrong[[0, 8]] = 5
    assert sudoku.search(wrong, digits, 2) == 0


def test_sudoku_from_making_to_scores(tmp_path, monkeypatch, rng):
    from experiments.atlas.sudoku import Sudoku

    monkeypatch.setattr(Sudoku, "bases", 20)
    monkeypatch.setattr(Sudoku, "boards", 210)
    kind = Sudoku()
    kind.make(tmp_path, None)
    data = kind.read(tmp_path)
    assert data.train.shape == (210, 81)
    assert data.train.dtype == np.uint8
    assert valid(data.train)
    assert valid(data.valid.tokens)
    assert len(data.valid) == len(data.test) == 4
    given = np.unique(np.where(data.test.hidden, -1, data.test.tokens), axis=0)
    assert len(given) == 4
    clues = 81 - data.test.hidden.sum(axis=1)
    assert np.all((clues >= 26) & (clues <= 40))
    again = kind.read(tmp_path)
    assert np.array_equal(again.train, data.train)
    tokens = data.test.tokens.copy()
    first = np.flatnonzero(data.test.hidden[0])[0]
    tokens[0, first] = (tokens[0, first] + 1) % 9
    scores = kind.scores(tokens, data.test)
    assert scores["solved"].tolist() == [0, 1, 1, 1]
    assert scores["cells"].tolist() == [1 - 1 / data.test.hidden[0].sum(), 1, 1, 1]
    alike = kind.alike()
    related = [np.flatnonzero(alike[40] == number).size for number in np.unique(alike[40])]
    assert sorted(related) == [1, 2, 2, 4, 6, 6, 60]  # itself; row, column and rest of its box; row, column; others
    visible = kind.visible(4000, rng=rng)
    counts = visible.sum(axis=1)
    assert (counts.min(), counts.max()) == (17, 60)
    # The mean of a uniform number has a standard error of 0.2, the share of one cell one of 0.008: five of them.
    assert abs(counts.mean() - 38.5) < 1
    assert np.abs(visible.mean(axis=0) - 38.5 / 81).max() < 0.04


# Countdown


@pytest.mark.parametrize(
    ("answer", "right"),
    [
        ("44*15+49-30", True),
        ("49-(30-15*44)", True),
        ("(44*15+49-30)", True),
        ("44*15+49-30$1", True),  # after the end is no answer
        ("44*15+49", False),  # a number too few
        ("44*15+49-30-30", False),
        ("44*15+30-49", False),
        ("44*15+49-+30", False),
        ("44*15+49-030", False),
        ("-30+44*15+49", False),  # there are no signs
        ("(44*15+49-30", False),
        ("44*15)+49-30", False),
        ("", False),
        ("()", False),
        ("44/0", False),
        ("44:15=679", False),
    ],
)
def test_an_answer_is_right_if_it_is_an_expression_of_all_numbers(answer, right):
    from experiments.atlas import countdown

    assert countdown.right(countdown.written([44, 15, 30, 49], 679, answer)) is right


def test_a_division_must_leave_no_remainder():
    from experiments.atlas import countdown

    assert countdown.right(countdown.written([39, 2, 22, 15], 204, "22*15/2+39"))
    assert not countdown.right(countdown.written([39, 2, 22, 15], 204, "15/2*22+39"))


def test_answers_have_the_value_and_the_normal_form():
    from experiments.atlas import countdown

    texts = countdown.tasks(2000, seed=1)
    assert all(map(countdown.right, texts))
    assert {len(text) for text in texts} == {32}
    assert all(text.endswith("$") for text in texts)
    keys = {(text[12:15], *sorted(text[:11].split(","))) for text in texts}
    assert len(keys) == 2000
    for text in texts:
        answer = text[16:].rstrip("$")
        # Python's own parser agrees with ours on what the answers say; they were made here.
        assert eval(answer, {"__builtins__": {}}) == int(text[12:15])
    assert str(countdown.Node(7)) == "7"
    two, three, four, nine = map(countdown.Node, (2, 3, 4, 9))
    less = countdown.combined(three, two, 1)
    assert str(countdown.combined(less, nine, 1)) == "9+2-3"
    assert str(countdown.combined(countdown.combined(nine, three, 3), four, 2)) == "9*4/3"
    assert str(countdown.combined(countdown.combined(two, nine, 0), countdown.combined(four, three, 0), 2)) == (
        "(9+2)*(4+3)"
    )
    assert countdown.combined(nine, two, 3) is None
    assert countdown.combined(nine, nine, 1) is None


def test_the_scorer_of_reasoning_gym_accepts_the_answers():
    gym = pytest.importorskip("reasoning_gym")
    from experiments.atlas import countdown

    judge = gym.create_dataset("countdown", size=1, seed=0)
    for text in countdown.tasks(100, seed=2):
        metadata = {"numbers": [int(number) for number in text[:11].split(",")], "target": int(text[12:15])}
        assert judge.score_answer(text[16:].rstrip("$"), {"metadata": metadata}) == 1.0


def test_countdown_from_making_to_scores(tmp_path, monkeypatch, rng):
    from experiments.atlas.countdown import Countdown

    monkeypatch.setattr(Countdown, "answers", 50)
    kind = Countdown()
    kind.make(tmp_path, None)
    data = kind.read(tmp_path)
    assert data.train.shape == (50, 32)
    assert data.valid.hidden.sum(axis=1).tolist() == [16] * 4
    assert np.array_equal(kind.visible(4, rng=rng), ~data.test.hidden)
    tokens = data.test.tokens.copy()
    tokens[0, 16:] = kind.vocab - 1  # nothing but ends
    tokens[1, :16] = 0  # the prompt counts as it was given
    assert kind.scores(tokens, data.test)["right"].tolist() == [0, 1, 1, 1]
    assert "=" in kind.text(data.train[0])


# Texts


def test_characters_are_numbered_and_windowed_as_everywhere(tmp_path, monkeypatch, rng):
    pytest.importorskip("torch")
    from experiments.atlas.characters import LETTERS, Characters

    from unmask.models.text import Alphabet, Store

    alphabet = Alphabet(LETTERS)
    text = alphabet.decode(rng.integers(27, size=9000).tolist())
    place = shared(tmp_path / "shared", **{"text8-72m.xz": text.encode()})
    monkeypatch.setattr(Characters, "ends", (3000, 6000, 9000))
    kind = Characters()
    kind.make(tmp_path, place)
    data = kind.read(tmp_path)
    assert kind.text(data.train) == text[:3000]
    for rows, part in ((data.valid, text[3000:6000]), (data.test, text[6000:])):
        assert np.array_equal(rows.tokens, Store.of(part, alphabet).even_windows(256, 4))
        assert rows.hidden.all()


def test_pieces_of_books_give_the_text_back(tmp_path, monkeypatch, rng):
    pytest.importorskip("tokenizers")
    from experiments.atlas import books

    monkeypatch.setattr(books.Books, "vocab", 130)
    words = ["The ship", " sailed", " on,", " and", ' "Ahoy!"', " cried", " the", " mate;", "  two  spaces", "\n"]
    texts = {split: "".join(rng.choice(words, size=1500)) + "\n" for split in books.SPLITS}
    place = shared(tmp_path / "shared", **{f"books-{split}.txt.xz": text.encode() for split, text in texts.items()})
    kind = books.Books()
    kind.make(tmp_path, place)
    data = kind.read(tmp_path)
    assert data.train.dtype == np.uint16
    assert data.train.max() < 130
    assert kind.text(data.train) == texts["train"]
    shown = [kind.text(row) for row in data.test.tokens]
    assert all(text in texts["test"] for text in shown)
    assert kind.characters_per_token(tmp_path) == sum(map(len, shown)) / data.test.tokens.size
    tokenizer = books.library().Tokenizer.from_file(str(tmp_path / "tokenizer.json"))
    assert tokenizer.decode(data.train.tolist()) == texts["train"]
    compact = kind.alphabet(tmp_path)["tokenizer"]
    assert books.library().Tokenizer.from_str(compact).to_str() == tokenizer.to_str()
    assert "\n" not in compact
    assert tokenizer.get_vocab_size() == 130


# Molecules and digits


def test_molecules_from_a_package_to_scores(tmp_path, monkeypatch):
    from experiments.atlas import molecules

    train = ["CCO", "c1ccccc1", "CC(=O)Nc1ccc(O)cc1", "C" * 48, "CCl", "c1cc[nH]c1"]
    test = ["BrCCBr", "C#N", "OCC", "CN", "CF", "CS", "CCC", "O=C=O", "C" * 47]
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as archive:
        for split, texts in (("train", train), ("test", test)):
            table = gzip.compress("\n".join(["SMILES", *texts, ""]).encode())
            archive.writestr(f"moses/dataset/data/{split}.csv.gz", table)
    fetched(tmp_path, molecules, monkeypatch, content.getvalue())
    kind = molecules.Molecules()
    kind.make(tmp_path, None)
    assert not (tmp_path / "fetched").exists()
    data = kind.read(tmp_path)
    assert sorted(map(kind.text, data.train)) == sorted(each for each in train if len(each) < 48)
    held = {kind.text(row) for rows in (data.valid, data.test) for row in rows.tokens}
    assert len(held) == 8
    assert held < set(test)
    assert (data.train[:, -1] == kind.vocab - 1).all()
    assert kind.known(["CCO", "OCC", None, "[Na]", "CC", "c1cc[nH]c1"]).tolist() == [True, *[False] * 4, True]

    def row(text):
        return molecules.filled(molecules.encoded([text], 47), 48)[0].astype(np.int64)

    assert (row("BrCCl") < kind.vocab - 1).sum() == 3
    with pytest.raises(InputError, match="but one has 'X'"):
        row("CX")
    pytest.importorskip("rdkit")
    written = np.stack([row(text) for text in ("OCC", "C1CC", "CCN", "", "NCC", "CCO")])
    scores = kind.scores(written, molecules.Rows.blank(written))
    assert scores["valid"].tolist() == [1, 0, 1, 0, 1, 1]
    assert scores["unique"].tolist() == [1, 0, 1, 0, 0, 0]
    assert scores["new"].tolist() == [0, 0, 1, 0, 0, 0]
    assert kind.canonical(row("OCC")) == "CCO"


def test_without_rdkit_scores_say_what_is_missing(monkeypatch):
    from experiments.atlas import molecules

    monkeypatch.setitem(sys.modules, "rdkit", None)
    monkeypatch.setitem(sys.modules, "rdkit.Chem", None)
    with pytest.raises(ModuleNotFoundError, match=r"This needs RDKit, which is not installed. Run: pip install rdkit"):
        molecules.Molecules().canonical(np.zeros(48, dtype=np.int64))


def test_pixels_are_drawn_with_their_intensity(rng):
    """400,000 draws: a frequency is off by 0.005 with a probability below 1e-8."""
    from experiments.atlas import digits

    for intensity, chance in ((0, 0.0), (51, 0.2), (255, 1.0)):
        pixels = np.unpackbits(digits.drawn(np.full((500, 800), intensity, dtype=np.uint8), rng))
        assert abs(pixels.mean() - chance) < (0.005 if 0 < chance < 1 else 1e-12)


def test_digits_from_a_package(tmp_path, monkeypatch):
    from experiments.atlas import digits

    def images(count):
        """Some that are black or white as a whole, so that there is nothing to draw."""
        white = np.arange(count) % 3 == 0
        head = np.array([0x803, count, 28, 28], dtype=">i4").tobytes()
        return head + np.repeat(np.where(white, 255, 0).astype(np.uint8), 784).tobytes()

    content = io.BytesIO()
    with tarfile.open(fileobj=content, mode="w:gz") as archive:
        for name, count in (("train-images-idx3-ubyte", 30), ("t10k-images-idx3-ubyte", 8)):
            entry = tarfile.TarInfo(f"package/data/{name}")
            entry.size = len(images(count))
            archive.addfile(entry, io.BytesIO(images(count)))
    fetched(tmp_path, digits, monkeypatch, content.getvalue())
    monkeypatch.setattr(digits.Digits, "held", 10)
    kind = digits.Digits()
    kind.make(tmp_path, None)
    data = kind.read(tmp_path)
    assert data.train.shape == (20, 784)
    assert data.train[:, 0].tolist() == [int(number % 3 == 0) for number in range(20)]
    assert data.test.tokens[:, 783].tolist() == [1, 0, 0, 1]  # images 0, 2, 4, 6
    assert len(kind.whole(tmp_path)) == 8
    assert kind.text(data.test.tokens[0]).splitlines() == ["#" * 28] * 28


# All of them


def test_a_part_that_is_there_stays(tmp_path, capsys):
    from experiments.atlas import files

    files.keep(tmp_path, "part", lambda: np.arange(5, dtype=np.uint16))
    files.keep(tmp_path, "part", lambda: pytest.fail("it is there"))
    assert files.load(tmp_path, "part").tolist() == [0, 1, 2, 3, 4]
    assert "there already" in capsys.readouterr().out
    assert [path.name for path in tmp_path.iterdir()] == ["part.npy.bz2"]


def test_what_is_missing_is_one_sentence(tmp_path, monkeypatch):
    from experiments.atlas import digits, files
    from experiments.atlas.kinds import KINDS

    for kind in KINDS.values():
        with pytest.raises(InputError, match=r"must hold the data of the kind, but it has no '[\w.-]+'\. Make it"):
            kind().read(tmp_path)
    for name in ("books", "characters"):
        with pytest.raises(InputError, match=r"must be a folder with the file 'data/.*', but no folder was given"):
            KINDS[name]().make(tmp_path, None)
        with pytest.raises(InputError, match=f"but '{tmp_path}' does not have it"):
            KINDS[name]().make(tmp_path, tmp_path)
    with pytest.raises(InputError, match="must be one whose tools are installed, but 'no-such-tool' is not"):
        files.fetch(tmp_path, "package", "00", ["no-such-tool"])
    with pytest.raises(InputError, match="but package cannot: no network"):
        files.fetch(tmp_path, "package", "00", [sys.executable, "-c", "raise SystemExit('no network')"])
    (tmp_path / "part.npy.bz2").write_bytes(b"something else")
    with pytest.raises(InputError, match=r"must hold arrays, but .part\.npy\.bz2. is not one"):
        files.load(tmp_path, "part")
    fetched(tmp_path / "fetched", digits, monkeypatch, b"")  # a folder below, with a package of another content
    monkeypatch.setattr(digits, "DIGEST", "00")
    with pytest.raises(InputError, match=f"must hold the {digits.PACKAGE} that was published"):
        digits.Digits().make(tmp_path / "fetched", None)


def test_the_command_says_what_is_missing_and_writes_nothing(tmp_path):
    words = ["-m", "experiments.atlas.make", "characters", "--folder", str(tmp_path / "new")]
    done = subprocess.run([sys.executable, *words], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 2
    assert done.stderr == (
        "Error: --shared must be a folder with the file 'data/text8-72m.xz', but no folder was given.\n"
    )
    assert list((tmp_path / "new").iterdir()) == []

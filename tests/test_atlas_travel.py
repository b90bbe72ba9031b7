"""What travels to a machine with a GPU, what runs there and comes back, and what the page then says."""

import csv
import importlib.util
import json
import sys
import tarfile
import time
from pathlib import Path

import numpy as np
import pytest
from experiments.atlas import files, owners, pack, together
from experiments.atlas.kinds import KINDS

from unmask import InputError

ROOT = Path(__file__).parent.parent


@pytest.fixture
def base(tmp_path, monkeypatch):
    """A folder of two kinds as training leaves it; weights are words, which are their fingerprints."""
    monkeypatch.setattr(owners, "fingerprint", lambda path, argument="folder": path.read_text())
    monkeypatch.setattr(KINDS["digits"], "read", lambda kind, folder: None)
    monkeypatch.setattr(KINDS["sudoku"], "read", lambda kind, folder: None)
    folder = tmp_path / "runs"
    for kind, size in (("sudoku", 3000), ("digits", 2000)):
        (folder / kind / "both-run").mkdir(parents=True)
        (folder / kind / "train.npy.bz2").write_bytes(bytes(size))
        (folder / kind / "both.safetensors").write_bytes(bytes(5000))
        (folder / kind / "causal.safetensors").write_bytes(bytes(4000))
        (folder / kind / "costs-both.npz").write_bytes(bytes(10))
        (folder / kind / "both-run" / "checkpoint.pt").write_bytes(bytes(90_000))
        (folder / kind / "both-run" / "log.csv").write_text("step\n")
    (folder / "sudoku-both.log").write_text("said\n")
    return folder


def test_data_travel_without_runs_and_networks_only_if_asked_for(base, tmp_path, capsys):
    carried = tmp_path / "carried"
    assert pack.pack(["sudoku", "digits"], base, carried, networks=False) == 5000
    assert "sudoku: 0.00 MiB" in capsys.readouterr().out
    assert pack.pack(["digits"], base, carried, networks=True) == 11_010
    assert {path.name for path in carried.iterdir()} == {"digits", pack.MARK}  # what was packed before is gone
    there = tmp_path / "there"
    pack.unpack("digits", carried, there)
    assert {path.name for path in (there / "digits").iterdir()} == {
        "train.npy.bz2", "both.safetensors", "causal.safetensors", "costs-both.npz",
    }  # fmt: skip
    (there / "digits" / "costs-both.npz").write_bytes(b"newer")
    pack.unpack("digits", carried, there)
    pack.unpack("sudoku", carried, there)  # which did not travel this time
    assert (there / "digits" / "costs-both.npz").read_bytes() == b"newer"


@pytest.mark.parametrize("where", ["precious", "runs"])
def test_a_folder_that_was_not_packed_is_not_emptied(base, tmp_path, capsys, where):
    (tmp_path / "precious").mkdir()
    (tmp_path / "precious" / "thesis.tex").write_text("words")
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(SystemExit) as caught:
        pack.main(["digits", "--base", str(base), "--carried", str(tmp_path / where)])
    assert caught.value.code == 2
    said = f"Error: --carried must be a folder that is empty or was packed before, but '{tmp_path / where}' is neither."
    assert capsys.readouterr().err == f"{said} Name another one, or remove it yourself.\n"
    assert sorted(tmp_path.rglob("*")) == before


def test_only_what_was_packed_is_removed_when_a_folder_is_packed_again(base, tmp_path, capsys):
    carried = tmp_path / "carried"
    pack.pack(["sudoku", "digits"], base, carried, networks=True)
    (carried / "notes.txt").write_text("mine")
    (carried / "sudoku" / "notes.txt").write_text("mine")
    pack.pack(["digits"], base, carried, networks=False)
    assert {str(path.relative_to(carried)) for path in carried.rglob("*") if path.is_file()} == {
        pack.MARK, "notes.txt", "sudoku/notes.txt", "digits/train.npy.bz2",
    }  # fmt: skip
    (carried / "sudoku" / "train.npy.bz2").write_text("mine")
    with pytest.raises(SystemExit):
        pack.main(["sudoku", "--base", str(base), "--carried", str(carried)])
    foreign = carried / "sudoku" / "train.npy.bz2"
    said = f"Error: --carried must hold no other file that would be overwritten, but '{foreign}' would be."
    assert capsys.readouterr().err.startswith(said)
    assert (carried / "digits" / "train.npy.bz2").exists()


@pytest.mark.parametrize("mark", ["", '"words"', '["../runs/digits/train.npy.bz2", "digits/../../x", 3]'])
def test_a_mark_that_names_other_places_removes_nothing(base, tmp_path, mark):
    carried = tmp_path / "carried"
    (carried / "digits").mkdir(parents=True)
    (carried / pack.MARK).write_text(mark)
    (carried / "digits" / "notes.txt").write_text("mine")
    (tmp_path / "x").touch()
    before = set(tmp_path.rglob("*"))
    if mark.startswith("["):
        pack.pack(["digits"], base, carried, networks=False)
    else:  # as packs of old have it
        with pytest.raises(InputError, match="be a folder that is empty or was packed before"):
            pack.pack(["digits"], base, carried, networks=False)
    assert set(tmp_path.rglob("*")) >= before


def test_nothing_is_removed_if_data_are_missing(base, tmp_path, capsys):
    carried = tmp_path / "carried"
    pack.pack(["sudoku"], base, carried, networks=False)
    with pytest.raises(SystemExit) as caught:
        pack.main(["countdown", "--base", str(base), "--carried", str(carried)])
    assert caught.value.code == 2
    assert "Error: --base must hold the data of the kind, but it has no 'texts.npy.bz2'" in capsys.readouterr().err
    assert (carried / "sudoku" / "train.npy.bz2").exists()


def test_too_much_to_travel_is_an_error_before_anything_is_packed(base, tmp_path, capsys):
    carried = tmp_path / "carried"
    words = ["--base", str(base), "--carried", str(carried), "--most-mib", str(2999 / 2**20)]
    pack.main(["digits", *words])
    before = sorted(carried.rglob("*"))
    with pytest.raises(SystemExit) as caught:
        pack.main(["sudoku", *words])
    assert caught.value.code == 2
    said = (
        "Error: --most-mib must be enough for sudoku, but the files take 0.00 MiB. Pack fewer kinds, and leave the "
        "others for"
    )
    assert capsys.readouterr().err.startswith(said)
    assert sorted(carried.rglob("*")) == before
    pack.main(["sudoku", *words[:-2]])  # without a limit


def test_without_limits_everything_comes_back(base, tmp_path):
    assert together.packed(["sudoku", "digits"], base, tmp_path / "out") == []
    assert len(list((tmp_path / "out").iterdir())) == 5


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--files", "0"], "--files must be at least 1, not 0."),
        (["--file-mib", "-1"], "--file-mib must be greater than 0, not -1."),
        (["--all-mib", "0"], "--all-mib must be greater than 0, not 0."),
        (["--seconds", "0"], "--seconds must be greater than 20, not 0."),
    ],
)
def test_a_limit_that_means_nothing_is_one_sentence_before_any_work(base, tmp_path, capsys, monkeypatch, words, said):
    monkeypatch.setattr(together, "together", lambda *words: pytest.fail("something ran"))
    with pytest.raises(SystemExit) as caught:
        together.main(["sudoku", "--base", str(base), "--output", str(tmp_path / "out"), *words])
    assert caught.value.code == 2
    assert capsys.readouterr().err == f"Error: {said}\n"
    assert not (tmp_path / "out").exists()


def test_what_comes_back_keeps_the_limits_and_finds_its_place(base, tmp_path):
    output, home = tmp_path / "out", tmp_path / "home"
    stayed = together.packed(["sudoku", "digits"], base, output, ["sudoku-both"], together.Room(files=3))
    assert stayed == ["digits-causal"]
    assert {path.name for path in output.iterdir()} == {
        "measured.tar.xz", "sudoku-causal.safetensors", "digits-both.safetensors",
    }  # fmt: skip
    with tarfile.open(output / "measured.tar.xz") as archive:
        assert "sudoku/both-run/log.csv" in archive.getnames()
        assert not any("checkpoint" in name for name in archive.getnames())
    together.main(["sudoku", "--base", str(home), "--bring", str(output)])
    assert (home / "sudoku" / "causal.safetensors").stat().st_size == 4000
    assert (home / "digits" / "costs-both.npz").exists()
    for room in (together.Room(file_mib=4500 / 2**20), together.Room(all_mib=5000 / 2**20)):
        assert together.packed(["sudoku"], base, tmp_path / "small", room=room) == ["sudoku-both"]
    none = together.packed(["sudoku"], base, tmp_path / "small", room=together.Room(file_mib=10 / 2**20))
    assert none == ["measured.tar.xz", "sudoku-both", "sudoku-causal"]


def kept_of(folder: Path, owner: str, *names: str) -> None:
    """Results of a network that looks both ways, and whose they are; each file holds that too."""
    folder.mkdir(parents=True, exist_ok=True)
    for name in names:
        (folder / name).write_text(owner)
    (folder / "fingerprint-both.txt").write_text(owner)


def test_what_travels_does_not_join_the_results_of_another_network(base, tmp_path):
    """A file that is missing there is not filled up with one of another network, as texts beside costs."""
    kept_of(base / "digits", "new", "costs-both.npz", "texts-both.npz", "seen.json")
    pack.pack(["digits"], base, tmp_path / "carried", networks=True)
    kept_of(tmp_path / "other" / "digits", "old", "costs-both.npz")
    kept_of(tmp_path / "same" / "digits", "new", "costs-both.npz")
    for there in ("other", "same", "empty"):
        pack.unpack("digits", tmp_path / "carried", tmp_path / there)
    found = {path.name: path.read_text() for path in (tmp_path / "other" / "digits").glob("*-both.[nt]*")}
    assert found == {"costs-both.npz": "old", "fingerprint-both.txt": "old"}
    assert not (tmp_path / "other" / "digits" / "seen.json").exists()
    for there in ("same", "empty"):
        found = {path.name: path.read_text() for path in (tmp_path / there / "digits").glob("*-both.[nt]*")}
        assert found == dict.fromkeys(("costs-both.npz", "texts-both.npz", "fingerprint-both.txt"), "new")
        assert (tmp_path / there / "digits" / "seen.json").read_text() == "new"


def test_weights_do_not_join_the_results_of_other_weights(base, tmp_path):
    """These would be taken for theirs, and removed."""
    kept_of(base / "digits", "new", "costs-both.npz", "both.safetensors")
    pack.pack(["digits"], base, tmp_path / "carried", networks=True)
    kept_of(tmp_path / "there" / "digits", "old", "costs-both.npz")
    pack.unpack("digits", tmp_path / "carried", tmp_path / "there")
    assert not (tmp_path / "there" / "digits" / "both.safetensors").exists()


def test_whose_results_they_are_arrives_before_them(base, tmp_path, monkeypatch):
    """After a kill in between, nobody would know whose results they are."""
    kept_of(base / "digits", "new", "costs-both.npz", "advised-both.json")
    pack.pack(["digits"], base, tmp_path / "carried", networks=True)
    together.packed(["digits"], base, tmp_path / "out")
    came, copied, moved = [], files.copied, Path.replace
    monkeypatch.setattr(files, "copied", lambda source, target: came.append(target) or copied(source, target))
    monkeypatch.setattr(Path, "replace", lambda path, target: came.append(target) or moved(path, target))
    pack.unpack("digits", tmp_path / "carried", tmp_path / "there")
    together.brought(tmp_path / "out", tmp_path / "home")
    for place in ("there", "home"):
        names = [path.name for path in came if path.parent == tmp_path / place / "digits"]
        assert names[0] == "fingerprint-both.txt"
        assert {"costs-both.npz", "advised-both.json"} < set(names)


def test_weights_that_came_back_before_their_results_stay(base, tmp_path, capsys):
    """They were trained in one run, and measured in the next: nobody has recorded them here yet."""
    kept_of(base / "digits", "new", "costs-both.npz")
    together.packed(["digits"], base, tmp_path / "out", before=["digits-both"])
    for place, owner in (("same", "new"), ("other", "old")):
        weights = tmp_path / place / "digits" / "both.safetensors"
        weights.parent.mkdir(parents=True)
        weights.write_text(owner)
        together.brought(tmp_path / "out", tmp_path / place)
        assert weights.exists() == (owner == "new")
        aside = weights.parent / "set-aside" / "both-old"
        said = f"set aside in '{aside}', because other weights took their place: both.safetensors\n"
        assert (said in capsys.readouterr().out) == (owner == "old")
        assert not aside.exists() or (aside / "both.safetensors").read_text() == "old"
        assert (weights.parent / "costs-both.npz").read_text() == "new"


def test_weights_that_were_trained_since_are_not_lost_when_others_come_back(base, tmp_path):
    """Neither if the results of older ones come back, nor if their file does."""
    (base / "digits" / "costs-both.npz").unlink()
    (base / "digits" / "both.safetensors").write_text("old")
    together.packed(["digits"], base, tmp_path / "out")
    home = tmp_path / "home" / "digits"
    kept_of(home, "new", "costs-both.npz", "both.safetensors")
    for _ in range(2):
        together.brought(tmp_path / "out", tmp_path / "home")
        assert (home / "both.safetensors").read_text() == "old"
        assert (home / "set-aside" / "both-new" / "both.safetensors").read_text() == "new"
        assert (home / "costs-both.npz").read_text() == "new"  # until the others are measured


@pytest.mark.parametrize("where", ["here", "there", "unknown", "unrecorded"])
def test_what_is_strange_is_found_before_anything_is_changed(base, tmp_path, capsys, monkeypatch, where):
    """A damaged file of one kind, and results of other weights of another kind."""
    for kind in ("digits", "sudoku"):
        kept_of(base / kind, "new", "costs-both.npz", "both.safetensors")
        kept_of(tmp_path / "home" / kind, "old", "costs-both.npz", "both.safetensors")
    together.packed(["digits", "sudoku"], base, tmp_path / "out")
    home, path = tmp_path / "home", tmp_path / "out" / "sudoku-both.safetensors"
    if where == "here":
        path = home / "sudoku" / "both.safetensors"
    if where == "unknown":
        path = tmp_path / "out" / "thesis.safetensors"
    if where == "unrecorded":
        (home / "sudoku" / "fingerprint-both.txt").unlink()
    else:
        path.write_text("damaged")

    def fingerprint(path: Path, argument: str = "folder") -> str:
        if path.read_text() == "damaged":
            raise InputError(argument, "be a folder in which every network is intact", detail=f"but '{path}' is not")
        return path.read_text()

    monkeypatch.setattr(owners, "fingerprint", fingerprint)
    before = {path: path.read_bytes() for path in home.rglob("*.*") if path.is_file()}
    with pytest.raises(SystemExit) as caught:
        together.main(["digits", "--base", str(home), "--bring", str(tmp_path / "out")])
    assert caught.value.code == 2
    said = capsys.readouterr().err
    assert said.count("\n") == 1
    assert said.startswith(
        {
            "here": f"Error: --base must be a folder in which every network is intact, but '{path}' is not",
            "there": f"Error: --bring must be a folder in which every network is intact, but '{path}' is not",
            "unknown": f"Error: --bring must hold networks that are called KIND-NETWORK, but '{path}' is none of these",
            "unrecorded": "Error: --base must say which weights its results are from, but nothing in "
            f"'{home / 'sudoku'}' says so for",
        }[where]
    )
    assert {path: path.read_bytes() for path in home.rglob("*.*") if path.is_file()} == before


def test_weights_that_are_damaged_are_named_with_their_option(tmp_path, capsys):
    pytest.importorskip("torch")
    from experiments.atlas import ship

    path = tmp_path / "runs" / "digits" / "both.safetensors"
    kept_of(path.parent, "old", "costs-both.npz", "both.safetensors")
    kept_of(tmp_path / "carried" / "digits", "new", "costs-both.npz", "both.safetensors")
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "digits-both.safetensors").write_text("half")
    words = ["digits", "--base", str(tmp_path / "runs")]
    for command, option, where in (
        (lambda: together.main([*words, "--carried", str(tmp_path / "carried")]), "--carried", tmp_path / "carried"),
        (lambda: together.main([*words, "--bring", str(tmp_path / "out")]), "--bring", tmp_path / "out"),
        (lambda: ship.main([*words, "--models", str(tmp_path / "models")]), "--base", path),
    ):
        with pytest.raises(SystemExit) as caught:
            command()
        assert caught.value.code == 2
        said = capsys.readouterr().err
        assert said.startswith(f"Error: {option} must be a folder in which every network is intact, but '{where}")
        assert "both.safetensors' is not: " in said


def test_weights_join_their_results_before_anybody_records_them(base, tmp_path):
    """The results are there already, and the folder that travels has the weights alone."""
    (base / "digits" / "costs-both.npz").unlink()
    (base / "digits" / "both.safetensors").write_text("new")
    pack.pack(["digits"], base, tmp_path / "carried", networks=True)
    for place, owner in (("same", "new"), ("other", "old")):
        kept_of(tmp_path / place / "digits", owner, "costs-both.npz")
        pack.unpack("digits", tmp_path / "carried", tmp_path / place)
        assert (tmp_path / place / "digits" / "both.safetensors").exists() == (owner == "new")


def test_weights_that_are_newer_than_their_record_are_known_by_themselves(base, tmp_path):
    """They were trained again and not measured here: what comes back of the new ones replaces the old results alone."""
    kept_of(base / "digits", "new", "costs-both.npz")
    together.packed(["digits"], base, tmp_path / "out", before=["digits-both"])
    home = tmp_path / "home" / "digits"
    kept_of(home, "old", "costs-both.npz", "texts-both.npz")
    (home / "both.safetensors").write_text("new")
    together.brought(tmp_path / "out", tmp_path / "home")
    assert (home / "both.safetensors").exists()
    assert (home / "costs-both.npz").read_text() == "new"
    assert not (home / "texts-both.npz").exists()
    assert (home / "set-aside" / "both-old" / "texts-both.npz").read_text() == "old"


def test_what_comes_back_takes_the_place_of_all_results_of_another_network(base, tmp_path, capsys):
    kept_of(base / "digits", "new", "costs-both.npz")
    together.packed(["digits"], base, tmp_path / "out", before=["digits-both"])  # whose weights stay there
    for place, owner in (("other", "old"), ("same", "new")):
        home = tmp_path / place / "digits"
        kept_of(home, owner, "costs-both.npz", "texts-both.npz", "seen.json")
        (home / "costs-causal.npz").write_text("kept")
        (home / "both.safetensors").write_text(owner)
        together.brought(tmp_path / "out", tmp_path / place)
        assert (home / "costs-both.npz").read_text() == (home / "fingerprint-both.txt").read_text() == "new"
        assert (home / "costs-causal.npz").read_text() == "kept"
        for name in ("texts-both.npz", "seen.json", "both.safetensors"):
            assert (home / name).exists() == (owner == "new")
        aside = home / "set-aside" / "both-old"
        listed = "costs-both.npz, texts-both.npz, seen.json, both.safetensors"
        said = f"set aside in '{aside}', because other weights took their place: {listed}\n"
        assert (said in capsys.readouterr().out) == (owner == "old")
        if owner == "old":
            names = {*listed.split(", "), "fingerprint-both.txt"}
            assert {path.name: path.read_text() for path in aside.iterdir()} == dict.fromkeys(names, "old")
    assert {path.name for path in (tmp_path / "other").iterdir()} == {"digits", "sudoku-both.log"}


def test_a_copy_that_is_killed_half_way_leaves_nothing_that_is_taken_for_whole(base, tmp_path, monkeypatch):
    """Nor does what a kill left in the folder that travels trouble whoever unpacks it."""
    carried, output, home = tmp_path / "carried", tmp_path / "out", tmp_path / "home"

    def killed(source, target, **more):
        Path(target).write_bytes(Path(source).read_bytes()[:9])
        raise KeyboardInterrupt

    for work in (
        lambda: pack.pack(["digits"], base, carried, networks=True),
        lambda: pack.unpack("digits", carried, home),
        lambda: together.packed(["digits"], base, output),
        lambda: together.brought(output, tmp_path / "back"),
    ):
        with monkeypatch.context() as patch:
            patch.setattr("shutil.copyfile", killed)
            with pytest.raises(KeyboardInterrupt):
                work()
        assert not [path for path in tmp_path.rglob("*.*") if path.is_file() and path.stat().st_size == 9]
        work()
        (carried / "digits" / ".unmask-00000000-000000000000").mkdir(exist_ok=True)
    for folder in (home / "digits", tmp_path / "back" / "digits"):
        assert (folder / "both.safetensors").stat().st_size == 5000


@pytest.mark.parametrize("what", ["missing", "empty", "cut", "garbled", "no archive"])
def test_what_cannot_be_brought_is_one_sentence_and_changes_nothing(base, tmp_path, capsys, what):
    output, home = tmp_path / "out", tmp_path / "home"
    kept_of(home / "digits", "old", "costs-both.npz")
    if what != "missing":
        output.mkdir()
    if what not in ("missing", "empty"):
        kept_of(base / "digits", "new", "costs-both.npz")
        (base / "digits" / "texts-both.npz").write_bytes(np.random.default_rng(0).bytes(200_000))
        together.packed(["digits"], base, output)
        whole = (output / "measured.tar.xz").read_bytes()
        half = len(whole) // 2
        damaged = {"cut": whole[:half], "garbled": whole[:half] + b"no" + whole[half + 2 :], "no archive": b"words"}
        (output / "measured.tar.xz").write_bytes(damaged[what])
    before = {path: path.read_bytes() for path in home.rglob("*.*")}
    with pytest.raises(SystemExit) as caught:
        together.main(["digits", "--base", str(home), "--bring", str(output)])
    assert caught.value.code == 2
    said = capsys.readouterr().err
    intact = f"Error: --bring must hold an intact archive, but '{output / 'measured.tar.xz'}' is damaged."
    nothing = f"Error: --bring must be a folder that came back from another machine, but '{output}' has neither "
    assert said.startswith(nothing if what in ("missing", "empty") else intact)
    assert said.count("\n") == 1
    assert {path: path.read_bytes() for path in home.rglob("*.*")} == before


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--networks", "bth"], "invalid choice: 'bth'"),
        (["--base", "/dev/null/x"], "Error: Cannot use '/dev/null/x/digits': not a directory.\n"),
        (["--base", "/dev/null/x", "--bring", "{out}"], "Error: Cannot use '/dev/null/x': not a directory.\n"),
    ],
)
def test_a_mistake_in_the_words_is_told_before_anything_runs(base, tmp_path, capsys, monkeypatch, words, said):
    monkeypatch.setattr(together, "together", lambda *words: pytest.fail("something ran"))
    together.packed(["digits"], base, tmp_path / "out")
    with pytest.raises(SystemExit) as caught:
        together.main(["digits", *(word.format(out=tmp_path / "out") for word in words)])
    assert caught.value.code == 2
    assert said in capsys.readouterr().err


def test_an_archive_that_is_killed_half_way_is_not_there(base, tmp_path, monkeypatch):
    def killed(*words, **more):
        raise KeyboardInterrupt

    monkeypatch.setattr(tarfile.TarFile, "add", killed)
    with pytest.raises(KeyboardInterrupt):
        together.packed(["digits"], base, tmp_path / "out")
    assert not list((tmp_path / "out").iterdir())


def test_processes_run_beside_each_other_until_the_time_is_over(tmp_path, monkeypatch):
    monkeypatch.setattr(together, "_BESIDE", 2)
    monkeypatch.setattr(together, "_LAST", 0.2)
    python = [sys.executable, "-S", "-c"]
    quick = {"good": [*python, "print('done')"], "bad": [*python, "raise SystemExit(3)"]}
    begin = time.time()
    assert together.together(quick, tmp_path, begin + 60) == {"bad": "failed, see bad.log"}
    assert (tmp_path / "good.log").read_text() == "done\n"
    slow = {name: [*python, "import time; time.sleep(60)"] for name in ("one", "two", "three")}
    assert together.together(slow, tmp_path, time.time() + 3) == {
        "one": "was stopped", "two": "was stopped", "three": "was not begun",
    }  # fmt: skip
    assert time.time() - begin < 55


def test_only_what_is_missing_is_trained_and_only_what_is_trained_is_measured(base, tmp_path, monkeypatch):
    ran = []
    monkeypatch.setattr(together, "together", lambda jobs, logs, until: ran.append(jobs) or {})
    (base / "digits" / "both.safetensors").unlink()
    together.main(
        ["sudoku", "digits", "--base", str(base), "--output", str(tmp_path / "out"), "--more", "--width", "8"]
    )
    training, measuring = ran
    assert list(training) == [
        "sudoku-left-to-right", "sudoku-both-comb", "digits-both", "digits-left-to-right", "digits-both-comb",
    ]  # fmt: skip
    assert list(measuring) == ["sudoku-measure"]
    words = training["digits-both"]
    assert words[1:5] == ["-m", "experiments.atlas", "digits", "--folder"]
    assert "--turn" in words
    assert words[-2:] == ["--width", "8"]
    assert (tmp_path / "out" / "measured.tar.xz").exists()


# The page


@pytest.fixture
def section(tmp_path, monkeypatch):
    """The module that writes the section, over made-up results."""
    monkeypatch.syspath_prepend(str(ROOT / "experiments"))
    spec = importlib.util.spec_from_file_location("atlastables_tried", ROOT / "experiments" / "atlastables.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    monkeypatch.setattr(module.common, "RESULTS", tmp_path)
    return module


def table(path: Path, rows: list[dict[str, object]]) -> None:
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)


def test_one_token_at_a_time_is_not_guessed(section, tmp_path):
    """Without it, the last number of evaluations would be taken for it."""
    row = {"network": "both", "order": "random", "evaluations": 1, "passes": 1, "bits": 0.5, "error": 0.01}
    rows = [{**row, "size": f"even:{steps}", "over": 0, "over_error": 0.01} for steps in (2, 3, 7)]
    with pytest.raises(ValueError, match=r"was not measured one token at a time, only in \[2, 3, 7\] steps"):
        section.budgets(rows)


def test_tables_have_a_column_or_a_row_for_each_kind_that_was_measured(section, tmp_path):
    assert section.advice().count("\n") == 1  # the head alone: nothing was measured
    (tmp_path / "atlas-sudoku-seen.json").write_text(
        json.dumps({"title": "Sudoku", "tokens": 50, "tc": 0.5, "dtc": 0.25, "loss": [1.0], "updates": {"both": 1234}})
    )
    rng = np.random.default_rng(0)
    bits = {"random": 0.5, "comb": 0.6, "margin": 0.2, "left-to-right": 0.9}
    rows = [
        {
            "network": network, "order": name, "size": f"even:{steps}", "evaluations": steps, "passes": steps,
            "bits": value + rng.random() / 10000, "error": 0.01, "over": 0, "over_error": 0.01,
        }
        for network in ("both", "both-comb", "causal", "left-to-right")
        for name, value in bits.items()
        for steps in (2, 3, 6)
    ]  # fmt: skip
    rows.append({**rows[0], "order": "advised", "size": "3", "bits": 0.25})
    table(tmp_path / "atlas-sudoku.csv", rows)
    picks = [("2", "yes", 0.01), ("3", "no", 0.05)]
    table(
        tmp_path / "atlas-sudoku-advised.csv",
        [
            {
                "network": "both", "budget": budget, "evaluations": budget, "schedule": "margin, even", "bits": 0.2,
                "best": "margin/even:3", "over": over, "over_error": 0.01, "within": within,
            }
            for budget, within, over in picks
        ],
    )  # fmt: skip
    table(
        tmp_path / "atlas-sudoku-scores.csv",
        [
            {
                "network": "both", "rule": rule, "draw": draw, "evaluations": 50, "tokens_per_forward": 1.0,
                "solved": value, "solved_error": 0.01,
            }
            for draw in ("temperature 1", "greedy")
            for rule, value in (("random/even:50", 0.07), ("margin/even:50", 0.9))
        ],
    )  # fmt: skip
    assert "| Sudoku | 50 | 0.50 | 0.25 | 1,234 | – | – | – |" in section.networks()
    few = section.costs(1)
    assert few.splitlines()[0] == "| order, sizes | Sudoku |"
    assert "| *evaluations* | *3* |" in few
    assert "| margin, even | **0.200** |" in few
    assert "| advised | 0.250 |" in few
    assert "| spread, even | – |" in few
    picked = section.advice()
    assert "| Sudoku | 2 | margin, even | 0.200 | margin, even | +0.0100 ± 0.0100 |" in picked
    assert "| Sudoku | 3 | margin, even | 0.200 | margin, even | +0.0500 ± 0.0100 |" in picked
    said = section.scores("sudoku", "solved", [("both", "margin/even:50")], ("temperature 1", "greedy"))
    assert "| both ways: margin, even | 50 | 1.00 | 90.0 ± 1.0 | 50 | 1.00 | 90.0 ± 1.0 |" in said

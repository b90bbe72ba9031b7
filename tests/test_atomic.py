"""Files appear complete or not at all."""

import pytest

from unmask._atomic import replacing


def test_a_finished_file_takes_the_place_of_the_old_one(tmp_path):
    (tmp_path / "x").write_text("old")
    with replacing(tmp_path / "x") as file:
        file.write_text("new")
        assert (tmp_path / "x").read_text() == "old"
    assert (tmp_path / "x").read_text() == "new"
    assert [p.name for p in tmp_path.iterdir()] == ["x"]


def test_a_failure_leaves_the_old_file_and_nothing_else(tmp_path):
    def fail():
        with replacing(tmp_path / "x") as file:
            file.write_text("half")
            raise RuntimeError

    (tmp_path / "x").write_text("old")
    with pytest.raises(RuntimeError):
        fail()
    assert (tmp_path / "x").read_text() == "old"
    assert [p.name for p in tmp_path.iterdir()] == ["x"]

"""Files appear complete or not at all; what killed processes leave is removed, what live ones use is not."""

import os
import signal
import stat
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from unmask import _atomic
from unmask._atomic import locked, replacing, sweep, workplace
from unmask._check import InputError

needs_locks = pytest.mark.skipif(_atomic.fcntl is None, reason="this system has no flock")


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def test_a_finished_file_takes_the_place_of_the_old_one(tmp_path):
    (tmp_path / "x").write_text("old")
    with replacing(tmp_path / "x") as file:
        file.write_text("new")
        assert (tmp_path / "x").read_text() == "old"
    assert (tmp_path / "x").read_text() == "new"
    assert names(tmp_path) == ["x"]


def test_a_failure_leaves_the_old_file_and_nothing_else(tmp_path):
    def fail():
        with replacing(tmp_path / "x") as file:
            file.write_text("half")
            raise RuntimeError

    (tmp_path / "x").write_text("old")
    with pytest.raises(RuntimeError):
        fail()
    assert (tmp_path / "x").read_text() == "old"
    assert names(tmp_path) == ["x"]


def test_the_longest_name_can_be_written(tmp_path):
    with replacing(tmp_path / ("x" * 255)) as file:
        file.write_text("new")
    assert (tmp_path / ("x" * 255)).read_text() == "new"


# Links, pipes and devices


def test_a_link_stays_and_the_file_it_leads_to_is_replaced(tmp_path):
    for folder in ("here", "there"):
        (tmp_path / folder).mkdir()
    (tmp_path / "there" / "file").write_text("old")
    (tmp_path / "here" / "link").symlink_to("../there/file")
    (tmp_path / "here" / "chain").symlink_to("link")
    with replacing(tmp_path / "here" / "chain") as file:
        file.write_text("new")
        assert file.parent.parent == tmp_path / "there"
    assert (tmp_path / "there" / "file").read_text() == "new"
    assert all((tmp_path / "here" / name).is_symlink() for name in ("link", "chain"))
    assert names(tmp_path / "there") == ["file"]


def test_a_link_that_leads_to_nothing_yet_is_followed_and_one_that_leads_to_itself_is_refused(tmp_path):
    (tmp_path / "link").symlink_to("file")
    with replacing(tmp_path / "link") as file:
        file.write_text("new")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "file").read_text() == "new"
    (tmp_path / "round").symlink_to("round")
    with pytest.raises(OSError, match="symbolic links"), replacing(tmp_path / "round"):
        pass
    assert (tmp_path / "round").is_symlink()


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="this system has no pipes with names")
def test_a_pipe_is_written_into_when_everything_is_ready(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    received = []
    reader = threading.Thread(target=lambda: received.append((tmp_path / "pipe").read_text()), daemon=True)
    reader.start()
    with replacing(tmp_path / "pipe") as file:
        file.write_text("new" * 100_000)
        assert not received
    reader.join(timeout=30)
    assert received == ["new" * 100_000]
    assert stat.S_ISFIFO((tmp_path / "pipe").stat().st_mode)
    assert names(tmp_path) == ["pipe"]


@pytest.mark.skipif(not Path("/dev/null").is_char_device(), reason="this system has no /dev/null")
def test_a_device_is_never_replaced():
    """As root, `/dev/null` became a file."""
    before = os.stat("/dev/null")
    with replacing("/dev/null") as file:
        file.write_text("nothing")
        assert file.parent != Path("/dev")
    after = os.stat("/dev/null")
    assert stat.S_ISCHR(after.st_mode)
    assert (after.st_ino, after.st_rdev) == (before.st_ino, before.st_rdev)


@pytest.mark.skipif(not Path("/dev/stdout").exists(), reason="this system has no /dev/stdout")
def test_the_standard_output_keeps_what_else_is_printed(tmp_path):
    code = (
        "import sys\nfrom unmask._atomic import replacing\n"
        "print('before', flush=True)\n"
        "with replacing('/dev/stdout') as file: file.write_text('saved\\n')\n"
        "print('after', flush=True)"
    )
    with (tmp_path / "printed").open("wb") as file:
        subprocess.run([sys.executable, "-c", code], stdout=file, check=True)
    assert (tmp_path / "printed").read_text() == "before\nsaved\nafter\n"
    piped = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert piped.stdout == "before\nsaved\nafter\n"


def test_a_folder_is_refused_and_errors_name_what_the_caller_named(tmp_path):
    with pytest.raises(IsADirectoryError) as caught, replacing(tmp_path):
        pass
    assert caught.value.filename == str(tmp_path)
    with pytest.raises(FileNotFoundError) as caught, replacing(tmp_path / "none" / "x"):
        pass
    assert caught.value.filename == str(tmp_path / "none")
    with pytest.raises(FileNotFoundError) as caught, replacing(tmp_path / "x") as file:
        file.unlink()
    assert caught.value.filename == str(tmp_path / "x")


# What killed processes leave

WRITER = """
import sys, time
from unmask._atomic import replacing
with replacing(sys.argv[1]) as file:
    file.write_text("half")
    print("ready", flush=True)
    time.sleep(60)
"""


def writer(path):
    """A process in the midst of writing a file."""
    process = subprocess.Popen([sys.executable, "-c", WRITER, str(path)], stdout=subprocess.PIPE, text=True)
    assert process.stdout.readline() == "ready\n"
    return process


@needs_locks
def test_what_a_killed_process_left_is_removed_by_the_next_one_and_what_a_live_one_writes_is_not(tmp_path):
    killed, alive = writer(tmp_path / "a"), writer(tmp_path / "b")
    try:
        killed.send_signal(signal.SIGKILL)
        killed.wait()
        assert len(names(tmp_path)) == 2
        with replacing(tmp_path / "c") as file:
            file.write_text("new")
        (left,) = set(names(tmp_path)) - {"c"}
        assert (tmp_path / left / "b").read_text() == "half"
    finally:
        alive.kill()
        alive.wait()
    sweep(tmp_path)
    assert names(tmp_path) == ["c"]


@needs_locks
def test_a_process_killed_before_it_began_leaves_nothing_for_ever(tmp_path):
    (tmp_path / f".unmask-{_atomic._machine()}-0123456789ab").mkdir()
    sweep(tmp_path)
    assert names(tmp_path) == []


@needs_locks
def test_what_another_machine_left_is_removed_after_a_week(tmp_path):
    """Its locks may not be seen here, so that a live process cannot be told from a dead one."""
    other = tmp_path / ".unmask-00000000-0123456789ab"
    other.mkdir()
    (other / ".lock").touch()
    sweep(tmp_path)
    assert other.exists()
    old = time.time() - 8 * 24 * 3600
    os.utime(other, (old, old))
    sweep(tmp_path)
    assert not other.exists()


def test_nothing_else_is_ever_swept(tmp_path):
    kept = [".unmask-mine", f".unmask-{_atomic._machine()}-0123456789abc", "unmask", ".unmask"]
    for name in kept:
        (tmp_path / name).mkdir()
    sweep(tmp_path)
    assert names(tmp_path) == sorted(kept)
    sweep(tmp_path / "nowhere")


@needs_locks
def test_many_writers_and_sweepers_at_once_disturb_no_one(tmp_path):
    failures = []

    def work(number):
        try:
            for round_ in range(30):
                with replacing(tmp_path / f"{number}") as file:
                    file.write_text(f"{number} {round_}")
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures
    assert names(tmp_path) == ["0", "1", "2", "3"]
    assert (tmp_path / "3").read_text() == "3 29"


def test_a_workplace_is_gone_at_the_end(tmp_path):
    with workplace(tmp_path) as folder:
        (folder / "x").write_text("x")
        assert folder.parent == tmp_path
    assert names(tmp_path) == []


# Locks

HOLDER = """
import sys, time
from unmask._atomic import locked
with locked(sys.argv[1], "output", "written"):
    print("ready", flush=True)
    time.sleep(60)
"""


@needs_locks
def test_what_another_process_holds_is_refused_in_a_sentence_until_that_process_is_gone(tmp_path):
    path = tmp_path / "file"
    process = subprocess.Popen([sys.executable, "-c", HOLDER, str(path)], stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout.readline() == "ready\n"
        with pytest.raises(InputError, match=r"must not be in use, but '.*file' is being written by another process"):
            locked(path, "output", "written").__enter__()
    finally:
        process.send_signal(signal.SIGKILL)
        process.wait()
    with locked(path, "output", "written"):
        pass
    assert names(tmp_path) == []


@needs_locks
def test_those_who_wait_hold_it_one_after_another(tmp_path):
    """Read, change, write under the lock: no change is lost."""
    count = tmp_path / "count"
    count.write_text("0")

    def work():
        for _ in range(25):
            with locked(count, "count", "changed", wait=True):
                number = int(count.read_text())
                time.sleep(0.0002)
                count.write_text(str(number + 1))

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert count.read_text() == "100"
    assert names(tmp_path) == ["count"]


def test_without_locks_nothing_is_held_and_everything_else_works(tmp_path, monkeypatch):
    monkeypatch.setattr(_atomic, "fcntl", None)
    with locked(tmp_path / "x", "output", "written"), locked(tmp_path / "x", "output", "written"):
        pass
    with replacing(tmp_path / "x") as file:
        file.write_text("new")
    sweep(tmp_path)
    assert names(tmp_path) == ["x"]

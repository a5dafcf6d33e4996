"""Ports: two processes are never given the same, and none that somebody listens on."""

import json
import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support import ports

ASKS = """
import json, sys
from tests.support.ports import free_ports
print(json.dumps(free_ports(50)), flush=True)
sys.stdin.read()
"""


def _asking() -> "subprocess.Popen[str]":
    argv = [sys.executable, "-c", ASKS]
    return subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def test_two_processes_share_no_port() -> None:
    """Each has a block of its own for as long as it lives."""
    others = [_asking(), _asking()]
    given = [json.loads(each.stdout.readline()) for each in others if each.stdout is not None]
    given.append(ports.free_ports(50))
    for each in others:
        each.communicate()
    assert len({port for each in given for port in each}) == 150


def test_blocks_lie_below_the_ports_of_outgoing_connections(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """To the last port of the last block; two that ask have two, and where none is left that is said."""
    (tmp_path / "range").write_text(f"{ports.FIRST + 2 * ports.BLOCK_PORTS + 1}\t60999\n")
    monkeypatch.setattr(ports, "EPHEMERAL", tmp_path / "range")
    monkeypatch.setattr(ports, "LOCKS", tmp_path / "locks")
    held = dict[str, int]()

    def lock_file(lock: int, _: int) -> None:
        name = os.readlink(f"/proc/self/fd/{lock}")
        if name in held:
            raise BlockingIOError
        held[name] = lock

    monkeypatch.setattr(ports.fcntl, "flock", lock_file)
    found = {ports._locked_block() for _ in range(2)}
    assert found == {ports.FIRST, ports.FIRST + ports.BLOCK_PORTS}
    with pytest.raises(AssertionError, match="all 2 blocks"):
        ports._locked_block()
    for lock in held.values():
        os.close(lock)


def test_a_forked_child_has_a_block_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """Else it would give out what its parent gives out."""
    mine = ports.free_ports(1)
    monkeypatch.setattr(os, "getpid", lambda: -1)
    monkeypatch.setattr(ports, "_locked_block", lambda: 1)
    monkeypatch.setattr(ports, "_is_free", lambda _: True)
    monkeypatch.setattr(ports, "_mine", dict(ports._mine))
    assert ports.free_ports(2) == [1, 2] != mine


def test_a_port_that_somebody_listens_on_is_not_given(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is passed over, and where all are taken that is said."""
    [port] = ports.free_ports(1)
    with socket.create_server(("127.0.0.1", port)):
        monkeypatch.setattr(
            ports, "_ports_of_this_process", lambda: iter([port, port + 1] * ports.BLOCK_PORTS)
        )
        assert ports.free_ports(1) == [port + 1]
        monkeypatch.setattr(ports, "_ports_of_this_process", lambda: iter([port] * ports.BLOCK_PORTS))
        with pytest.raises(AssertionError, match="less than 1 are free"):
            ports.free_ports(1)


def test_neighbours_are_free_both() -> None:
    """The second is the first's next."""
    first = ports.two_free_ports_in_a_row()
    with socket.create_server(("127.0.0.1", first)), socket.create_server(("127.0.0.1", first + 1)):
        pass


def test_locks_lie_where_nobody_else_can_put_links(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The folder for temporary files is everybody's, and its name can be guessed: a link there would make
    files wherever its maker likes."""
    (tmp_path / "own").mkdir(mode=0o700)
    (tmp_path / "link").symlink_to(tmp_path / "own")
    (tmp_path / "open").mkdir()
    (tmp_path / "open").chmod(0o777)
    (tmp_path / "group's").mkdir()
    (tmp_path / "group's").chmod(0o770)
    for name in ("link", "open", "group's"):
        monkeypatch.setattr(ports, "LOCKS", tmp_path / name)
        with pytest.raises(AssertionError, match="somebody else"):
            ports._locked_block()
        assert list((tmp_path / name).iterdir()) == []
    monkeypatch.setattr(ports, "LOCKS", tmp_path / "own")
    for each in range(ports.FIRST, ports.END, ports.BLOCK_PORTS):
        (tmp_path / "own" / str(each)).symlink_to(tmp_path / "elsewhere")
    with pytest.raises(OSError, match="symbolic links"):
        ports._locked_block()
    assert not (tmp_path / "elsewhere").exists()


def test_another_users_folder_is_none_of_ours(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever made it first could hold all locks, or put links in their place."""
    (tmp_path / "locks").mkdir(mode=0o700)
    monkeypatch.setattr(ports, "LOCKS", tmp_path / "locks")
    user = os.getuid()
    monkeypatch.setattr(os, "getuid", lambda: user + 1)
    with pytest.raises(AssertionError, match="somebody else"):
        ports._locked_block()


def test_where_the_system_tells_no_range_all_blocks_are_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As where there is no /proc."""
    monkeypatch.setattr(ports, "EPHEMERAL", tmp_path / "none")
    assert ports._ephemeral_from() == ports.END

# SPDX-License-Identifier: Apache-2.0
"""What the operating system refuses is an OSError with its number and the path, and nothing is left behind."""

import errno
import os
import resource
import signal
from pathlib import Path

import pytest

import headwise

LAYER = headwise.MultiHeadAttention(4, 4, num_heads=2, seed=1)


def refused(call):
    with pytest.raises(OSError, match=r"^\[Errno") as caught:
        call()
    return caught.value


def check(error, kind, number, text, path):
    assert type(error) is kind
    assert (error.errno, error.strerror, error.filename) == (number, text, str(path))
    assert str(error) == f"[Errno {number}] {text}: {str(path)!r}"


def test_a_folder_that_is_not_there(tmp_path):
    path = tmp_path / "absent" / "x.safetensors"
    error = refused(lambda: LAYER.save(path))
    check(error, FileNotFoundError, errno.ENOENT, "cannot be created: No such file or directory", path)
    error = refused(lambda: headwise.load(tmp_path / "absent"))
    check(error, FileNotFoundError, errno.ENOENT, "no such file", tmp_path / "absent")


def test_a_folder_in_the_place_of_the_file(tmp_path):
    path = tmp_path / "x.safetensors"
    path.mkdir()
    error = refused(lambda: LAYER.save(path))
    check(error, IsADirectoryError, errno.EISDIR, "is a directory, not a file", path)


def test_a_file_in_the_place_of_a_folder(tmp_path):
    (tmp_path / "file").touch()
    path = tmp_path / "file" / "x.safetensors"
    error = refused(lambda: LAYER.save(path))
    check(error, NotADirectoryError, errno.ENOTDIR, "cannot be created: Not a directory", path)


def test_a_folder_that_takes_no_file(tmp_path):
    tmp_path.chmod(0o500)
    path = tmp_path / "x.safetensors"
    user = os.geteuid()
    if user == 0:  # to whom nothing is forbidden
        os.seteuid(65534)
    try:
        error = refused(lambda: LAYER.save(path))
    finally:
        os.seteuid(user)
    check(error, PermissionError, errno.EACCES, "cannot be created: Permission denied", path)


def test_a_name_that_is_too_long(tmp_path):
    path = tmp_path / ("x" * 300 + ".safetensors")
    error = refused(lambda: LAYER.save(path))
    check(error, OSError, errno.ENAMETOOLONG, "cannot be created: File name too long", path)


def test_a_full_disk(tmp_path):
    """No file of this process may grow past a few bytes: writes then fail as on a full disk."""
    path = tmp_path / "x.safetensors"
    before, handler = resource.getrlimit(resource.RLIMIT_FSIZE), signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (16, before[1]))
    try:
        error = refused(lambda: LAYER.save(path))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        signal.signal(signal.SIGXFSZ, handler)
    check(error, OSError, errno.EFBIG, "cannot be written: File too large", path)
    assert list(tmp_path.iterdir()) == []


def test_a_name_that_is_not_utf8(tmp_path):
    path = os.fsdecode(os.fsencode(tmp_path) + b"/\xff/x.safetensors")
    assert refused(lambda: LAYER.save(path)).filename == path
    Path(path).parent.mkdir()
    LAYER.save(path)
    assert headwise.load(os.fsencode(path)).seed == headwise.load(path).seed == 1

# SPDX-License-Identifier: Apache-2.0
"""`headwise train` as a program that is interrupted, killed and run on other numbers of threads."""

import os
import signal
import subprocess
import time

import pytest

import repository

BUILT = repository.ROOT / "build" / "release" / "cli" / "headwise"
SIZES = ["--depth", "2", "--width", "32", "--context", "16", "--batch", "4", "--heads", "2", "--dropout", "0.1"]
STEPS = ["--steps", "3000", "--save-every", "40", "--eval-every", "500"]
FILES = ("model.safetensors", "config.json", "checkpoint.safetensors", "curve.csv", "curve.svg")


@pytest.fixture(scope="module")
def text(tmp_path_factory):
    path = tmp_path_factory.mktemp("text") / "text.txt"
    path.write_text("she sells sea shells by the sea shore.\n" * 100)
    return path


def start(*arguments, threads="2"):
    environment = {**os.environ, "HEADWISE_NUM_THREADS": threads}
    return subprocess.Popen(
        [BUILT, "train", *map(str, arguments)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment,
        restore_signals=True,
    )


def finish(process):
    out, err = process.communicate(timeout=300)
    return process.returncode, out, err


def contents(folder):
    return {name: (folder / name).read_bytes() for name in FILES}


@pytest.fixture(scope="module")
def unbroken(text, tmp_path_factory):
    folder = tmp_path_factory.mktemp("unbroken") / "model"
    code, _, err = finish(start("--text", text, "--out", folder, *SIZES, *STEPS, threads="1"))
    assert (code, err) == (0, "")
    return contents(folder)


def wait_for(path, process, seconds=60):
    end = time.monotonic() + seconds
    while not path.exists():
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < end, f"{path} did not appear"
        time.sleep(0.002)


def test_a_run_that_was_killed_goes_on_to_the_same_bits(text, tmp_path, unbroken):
    folder = tmp_path / "model"
    process = start("--text", text, "--out", folder, *SIZES, *STEPS)
    wait_for(folder / "checkpoint.safetensors", process)
    process.kill()
    assert finish(process)[0] == -signal.SIGKILL
    assert (folder / "checkpoint.safetensors").read_bytes() != unbroken["checkpoint.safetensors"]
    # Killed once more, while it goes on.
    process = start("--resume", folder, "--save-every", "40", threads="3")
    time.sleep(0.2)
    process.kill()
    finish(process)
    code, _, err = finish(start("--resume", folder))
    assert (code, err) == (0, "")
    assert contents(folder) == unbroken


def test_a_run_that_was_interrupted_saves_says_so_and_goes_on(text, tmp_path, unbroken):
    folder = tmp_path / "model"
    process = start("--text", text, "--out", folder, *SIZES, *STEPS)
    wait_for(folder, process)
    time.sleep(0.1)
    process.send_signal(signal.SIGINT)
    code, out, err = finish(process)
    assert (code, out) == (130, "")
    assert f"headwise train --resume {folder} goes on\n" in err
    assert err.endswith("headwise train: interrupted\n")
    assert finish(start("--resume", folder, threads="3"))[0] == 0
    assert contents(folder) == unbroken


def test_no_temporary_file_stays_behind(text, tmp_path):
    folder = tmp_path / "model"
    assert finish(start("--text", text, "--out", folder, *SIZES, "--steps", "3"))[0] == 0
    assert {path.name for path in folder.iterdir()} == set(FILES)


def comparison_contents(folder):
    runs = sorted(path for path in folder.iterdir() if path.is_dir())
    files = {path.name: contents(path) for path in runs}
    return files | {name: (folder / name).read_bytes() for name in ("losses.csv", "losses.svg")}


def test_a_comparison_that_was_killed_and_interrupted_goes_on_by_its_folder_alone(text, tmp_path):
    at = SIZES.index("--heads")
    sizes = SIZES[:at] + SIZES[at + 2 :]
    options = ["--text", text, *sizes, "--steps", "600", "--save-every", "20", "--eval-every", "200"]
    options += ["--heads", "1,2", "--seeds", "2"]
    whole, broken = tmp_path / "whole", tmp_path / "broken"
    assert finish(start(*options, "--out", whole, threads="1"))[0] == 0
    process = start(*options, "--out", broken)
    wait_for(broken / "heads-2-seed-0" / "checkpoint.safetensors", process)
    process.kill()
    assert finish(process)[0] == -signal.SIGKILL
    stale = broken / "heads-2-seed-0" / f"curve.svg.tmp-{process.pid}-7"
    stale.write_text("half")
    process = start("--resume", broken)
    wait_for(broken / "heads-1-seed-1", process)
    process.send_signal(signal.SIGINT)
    code, out, err = finish(process)
    assert (code, out) == (130, "")
    assert f" of 600 steps; headwise train --resume {broken} goes on\n" in err
    assert not stale.exists()
    assert not (broken / "losses.csv").exists()
    code, _, err = finish(start("--resume", broken, threads="3"))
    assert (code, err) == (0, "")
    assert comparison_contents(broken) == comparison_contents(whole)
    assert {path.name for path in broken.iterdir()} == {path.name for path in whole.iterdir()}

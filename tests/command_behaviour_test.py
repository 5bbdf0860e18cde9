# SPDX-License-Identifier: Apache-2.0
"""How the command behaves as a program, both as the package installs it and as CMake builds it."""

import json
import os
import pty
import re
import shlex
import signal
import subprocess
import sys
import time
import zipfile
from pathlib import Path

import numpy as np
import pytest

import command_files
import json_layout
import repository

BUILT = repository.ROOT / "build" / "release" / "cli" / "headwise"
PROGRAMS = {"installed": [sys.executable, "-m", "headwise"], "built": [str(BUILT)]}
SCHEMAS = repository.ROOT / "docs" / "schemas"
HELPS_BY_PROGRAM = {}


@pytest.fixture(params=PROGRAMS)
def program(request):
    assert request.param != "built" or BUILT.exists(), "the C++ program is not built: ./dev build"
    return PROGRAMS[request.param]


@pytest.fixture
def files(tmp_path):
    """A layer, an input for it and a model."""
    command_files.write_layer(tmp_path / "layer.safetensors")
    x = np.random.default_rng(3).standard_normal((2, 5, 6)).astype("float32")
    np.save(tmp_path / "x.npy", x)
    command_files.write_encoder(tmp_path / "model")
    return tmp_path


def run(program, *arguments, **options):
    options = {"capture_output": True, "text": True, "check": False, "timeout": 120, **options}
    done = subprocess.run([*program, *map(str, arguments)], **options)
    return done.returncode, done.stdout, done.stderr


def helps(program):
    """The help of each command that is there, by name."""
    known = HELPS_BY_PROGRAM.setdefault(program[0], {})
    if not known:
        listed = run(program, "--help")[1].partition("\nCommands:\n")[2].partition("\n\n")[0]
        names = [line.split()[0] for line in listed.splitlines()]
        assert {"attend", "info", "run"} <= set(names)
        known.update({name: run(program, name, "--help") for name in names})
    return known


def test_every_help_starts_with_examples_and_names_its_options(program):
    for name, (code, out, err) in helps(program).items():
        assert (code, err) == (0, ""), name
        assert out.startswith(f"Examples:\n  headwise {name}"), name
        assert f"\nUsage: headwise {name}" in out
        assert "-h, --help" in out


def test_every_example_of_every_help_is_understood(program, tmp_path):
    texts = [run(program, "--help")[1]] + [out for _, out, _ in helps(program).values()]
    examples = [text.partition("\n\n")[0] for text in texts]
    lines = {line for text in examples for line in re.findall(r"^  headwise (.*)", text, re.MULTILINE)}
    assert len(lines) > 20
    for line in sorted(lines):
        words = shlex.split(line.partition(" | ")[0], comments=True)
        code, _, err = run(program, *words, cwd=tmp_path)
        # The files of the examples are not there; nothing else may be wrong with them.
        absent = ("no such file", "there is no model", "there is no run to go on with")
        assert code == 0 or any(reason in err for reason in absent), (line, err)
        if code == 0:  # explain and compare need no file, and write the page or the chart that they are asked for
            for written in [*tmp_path.glob("*.html"), *tmp_path.glob("*.svg")]:
                assert written.name in words or f"{written.stem.rpartition('-')[0]}.svg" in words
                written.unlink()
    assert list(tmp_path.iterdir()) == []


def without_a_letter(name):
    return name[:-2] + name[-1]


def test_a_command_with_a_letter_missing_is_asked_about(program):
    for name in helps(program):
        wrong = without_a_letter(name)
        assert run(program, wrong) == (
            2,
            "",
            f"headwise: unknown command '{wrong}'; did you mean '{name}'?\nTry 'headwise --help'.\n",
        )


def test_an_option_with_a_letter_missing_is_asked_about(program):
    for name, (_, out, _) in helps(program).items():
        options = set(re.findall(r"^  (--[a-z-]+)", out, re.MULTILINE))
        assert "--json" in options or name not in {"attend", "info", "run"}
        # The longest one: a short one has several neighbours.
        option = max(options | {"--help"}, key=len)
        wrong = without_a_letter(option)
        assert run(program, name, wrong) == (
            2,
            "",
            f"headwise {name}: unknown option '{wrong}'; did you mean '{option}'?\nTry 'headwise {name} --help'.\n",
        )


def documents(program, files):
    """What every command that has --json prints, by name, in all its forms."""
    layer, x, model = files / "layer.safetensors", files / "x.npy", files / "model"
    ids = ["--model", model, "--ids", "1,5,9,2"]
    calls = {
        "info": [[]],
        "run": [
            [layer, x],
            [layer, x, "--out", files / "out.npz", "--weights", "--stats"],
            [layer, x, "--keys-values", x, "--lengths", "0,5"],
        ],
        "inspect": [[layer], [model], [command_files.write_llama(files / "llama")]],
        "convert": [[layer, files / "out", "--to", "qkv"], [model, files / "out", "--to", "book", "--layer", "1"]],
        "attend": [ids, [*ids, "--ids", "3", "--layer", "1", "--head", "0"]],
    }
    calls["attend"].append([*ids, "--ablate", "all", "--scale-heads", "L0H1=0.5"])
    x1 = files / "x1.npy"
    np.save(x1, np.load(x)[:1])
    got = files / "got.npy"
    np.save(got, np.random.default_rng(5).standard_normal((2, 5, 8)))
    calls["explain"] = [[], [layer, "--input", x1, "--token", 1, "--what-if", "no"]]
    calls["diagnose"] = [["--layer", layer, "--input", x, "--got", got]]
    calls["compare"] = [["--shape", "small", "--heads-list", "1,2", "--rounds", 1]]
    text = files / "text.txt"
    text.write_text("she sells sea shells. " * 20)
    tiny = ["--text", text, "--depth", 1, "--width", 16, "--context", 8, "--batch", 2, "--steps", 3]
    calls["train"] = [
        [*tiny, "--out", files / "one", "--heads", 2],
        [*tiny, "--out", files / "several", "--heads", "1,2", "--seeds", 2],
        ["--resume", files / "several"],
    ]
    calls["generate"] = [[files / "one"], [files / "one", "--prompt", "she", "--top-k", 3, "--tokens", 0]]
    return {name: [run(program, name, *call, "--json") for call in forms] for name, forms in calls.items()}


def test_json_is_one_line_of_the_documented_layout(program, files):
    for name, results in documents(program, files).items():
        layout = json.loads((SCHEMAS / f"{name}.json").read_text())
        for code, out, err in results:
            assert (code, err) == (0, ""), name
            assert out.count("\n") == 1
            assert json_layout.faults(json.loads(out), layout) == []


def test_every_command_with_json_has_a_documented_layout(program):
    page = repository.text("docs/json.md")
    with_json = {name for name, (_, out, _) in helps(program).items() if re.search(r"^  --json", out, re.MULTILINE)}
    assert with_json == {path.stem for path in SCHEMAS.glob("*.json")}
    assert [name for name in with_json if f"schemas/{name}.json" not in page] == []


def test_the_layout_checker_finds_what_does_not_fit():
    layout = json.loads((SCHEMAS / "info.json").read_text())
    good = {"schema": 1, "command": "info", "version": "0", "isa": "avx2", "isas": ["avx2"], "threads": 2}
    assert json_layout.faults(good, layout) == []
    assert json_layout.faults({**good, "threads": 2.5}, layout) == ["document.threads is 2.5, not integer"]
    assert json_layout.faults({**good, "isas": [1]}, layout) == ["document.isas[0] is 1, not string"]
    assert json_layout.faults({**good, "schema": 2}, layout) == ["document.schema is 2, not 1"]
    assert json_layout.faults({**good, "more": 1}, layout) == ["document has 'more', which the schema does not list"]
    del good["isa"]
    assert json_layout.faults(good, layout) == ["document has no 'isa'"]


def test_run_gives_what_numpy_gives_and_numpy_reads_what_it_writes(program, tmp_path):
    layer, out = tmp_path / "layer.safetensors", tmp_path / "out.npz"
    for dtype, tolerance in (("float32", 1e-5), ("float64", 1e-13)):
        weights = command_files.write_layer(layer, dtype=dtype)
        x = np.random.default_rng(4).standard_normal((3, 7, 6)).astype(dtype)
        expected, shares = command_files.attention(x, weights, num_heads=2)
        np.save(tmp_path / "x.npy", np.asfortranarray(x))
        np.savez(tmp_path / "stored.npz", x=x)
        np.savez_compressed(tmp_path / "packed.npz", other=x[:1], x=x)
        command_files.write_safetensors(tmp_path / "x.safetensors", {"x": x})
        outs = []
        for name in ("x.npy", "stored.npz", "packed.npz", "x.safetensors"):
            choice = ["--input", "x"] if name == "packed.npz" else []
            code, _, err = run(program, "run", layer, tmp_path / name, "--out", out, "--weights", *choice)
            assert (code, err) == (0, "")
            assert zipfile.ZipFile(out).testzip() is None
            with np.load(out) as arrays:
                assert arrays.files == ["out", "weights"]
                assert arrays["out"].dtype == dtype
                np.testing.assert_allclose(arrays["out"], expected, rtol=tolerance, atol=tolerance)
                np.testing.assert_allclose(arrays["weights"], shares, rtol=tolerance, atol=tolerance)
                outs.append(arrays["out"])
        assert all(np.array_equal(outs[0], other) for other in outs)
        assert run(program, "run", layer, tmp_path / "x.npy", "--out", tmp_path / "out.npy")[0] == 0
        assert np.array_equal(np.load(tmp_path / "out.npy"), outs[0])


def test_wrong_usage_and_bad_input_end_with_2_and_nothing_on_standard_output(program, files):
    before = sorted(files.iterdir())
    calls = [
        [],
        ["run"],
        ["run", "absent.safetensors", files / "x.npy"],
        ["run", files / "x.npy", files / "x.npy"],
        ["run", files / "layer.safetensors", files / "layer.safetensors", "--out", files / "o.npy"],
        ["run", files / "layer.safetensors", files / "x.npy", "--out", files / "absent" / "o.npy"],
        ["attend", "--model", files, "--ids", "1"],
        ["attend", "--model", files / "model", "--ids", "99", "--save", files / "t"],
        ["info", "--loud"],
        ["inspect", files / "x.npy"],
        ["convert", files / "layer.safetensors", files / "o", "--to", "gpt3"],
        ["convert", files / "layer.safetensors", files / "absent" / "o", "--to", "book"],
    ]
    for call in calls:
        code, out, err = run(program, *call)
        assert (code, out) == (2, ""), call
        assert err.startswith("headwise"), call
    assert sorted(files.iterdir()) == before


@pytest.mark.parametrize("value", ["0", "-2", "two", "", "1e3", "99999999999999999999"])
def test_a_bad_number_of_threads_is_refused_by_the_variables_name(program, value):
    assert run(program, "info", env={**os.environ, "HEADWISE_NUM_THREADS": value}) == (
        2,
        "",
        f"headwise: HEADWISE_NUM_THREADS must be a whole number from 1 to 4096, got '{value}'\n",
    )


@pytest.mark.parametrize("value", ["", "AVX2", "sse4", "canonical ", "\x1b[2J"])
def test_a_bad_instruction_set_is_refused_by_the_variables_name(program, value):
    code, out, err = run(program, "info", env={**os.environ, "HEADWISE_ISA": value})
    assert (code, out) == (2, "")
    assert re.fullmatch(
        r"headwise: HEADWISE_ISA must be one that this machine has \((\w+, )*canonical\), got '.*'\n", err
    )
    assert "\x1b" not in err


def test_the_variables_are_obeyed(program):
    environment = {**os.environ, "HEADWISE_NUM_THREADS": "3", "HEADWISE_ISA": "canonical"}
    document = json.loads(run(program, "info", "--json", env=environment)[1])
    assert (document["threads"], document["isa"]) == (3, "canonical")


def test_results_that_cannot_be_written_end_with_2(program):
    with Path("/dev/full").open("w") as full:
        code, _, err = run(program, "info", capture_output=False, stdout=full, stderr=subprocess.PIPE)
    assert (code, err) == (2, "headwise info: the results cannot be written: No space left on device\n")


def test_a_reader_that_has_seen_enough_is_no_error(program, files):
    # Far more than a pipe holds: without the closed end the writer would wait.
    words = [*program, "attend", "--model", str(files / "model"), "--json"]
    words += [word for _ in range(3000) for word in ("--ids", "1,5,9,2")]
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout.read(10) == b'{"schema":'
        process.stdout.close()
        assert process.stderr.read() == b""
        assert process.wait(timeout=60) == 0


def on_a_terminal(words, **environment):
    """What a program prints to a terminal."""
    leader, follower = pty.openpty()
    names = {name: value for name, value in os.environ.items() if name != "NO_COLOR"}
    with subprocess.Popen(words, stdout=follower, stderr=follower, env={**names, **environment}) as process:
        os.close(follower)
        seen = b""
        try:
            while part := os.read(leader, 65536):
                seen += part
        except OSError:  # Linux's way to say that the other end is closed
            pass
        os.close(leader)
        assert process.wait(timeout=60) == 0
    return seen.decode()


def test_colours_are_for_terminals_and_no_color_turns_them_off(program, files):
    words = ["attend", "--model", files / "model", "--ids", "1,5,2", "--layer", "0", "--head", "0"]
    words = [*program, *map(str, words)]
    assert "\x1b[" in on_a_terminal(words, TERM="xterm-256color")
    assert "\x1b[" not in on_a_terminal(words, TERM="xterm-256color", NO_COLOR="1")
    assert "\x1b[" not in on_a_terminal(words, TERM="dumb")
    assert "\x1b[" not in on_a_terminal([*words, "--color", "never"], TERM="xterm-256color")
    assert "\x1b[" not in run(words, env={**os.environ, "TERM": "xterm-256color"})[1]
    assert "\x1b[" in run([*words, "--color", "always"])[1]


def processor_seconds(process):
    fields = Path(f"/proc/{process.pid}/stat").read_text().rpartition(") ")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def test_ctrl_c_during_a_long_run_ends_it_with_130_and_writes_nothing(program, tmp_path):
    command_files.write_layer(tmp_path / "layer.safetensors", d_in=64, d_out=64, num_heads=4)
    # Minutes of the plain program, whose loops look at the cancel flag as the vector ones do.
    np.save(tmp_path / "x.npy", np.ones((1, 30_000, 64), dtype="float32"))
    before = sorted(tmp_path.iterdir())
    words = ["run", tmp_path / "layer.safetensors", tmp_path / "x.npy", "--out", tmp_path / "out.npz", "--stats"]
    with subprocess.Popen(
        [*program, *map(str, words)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={**os.environ, "HEADWISE_ISA": "canonical", "HEADWISE_NUM_THREADS": "2"},
    ) as process:
        while processor_seconds(process) < 1.5:
            assert process.poll() is None
            time.sleep(0.05)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=60)
    assert (process.returncode, out, err) == (130, b"", b"headwise run: interrupted\n")
    assert sorted(tmp_path.iterdir()) == before

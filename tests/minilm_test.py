# SPDX-License-Identifier: Apache-2.0
"""MiniLM's hidden states and weights against stored ones of Hugging Face transformers; needs no torch."""

import numpy as np
import pytest

import minilm
from headwise import _headwise

HIDDEN_TOLERANCE = 2e-5
WEIGHTS_TOLERANCE = 1e-5


@pytest.fixture(scope="module")
def encoder():
    return _headwise.Encoder(str(minilm.model_directory()))


@pytest.fixture(scope="module")
def stored():
    return dict(np.load(minilm.EXPECTED))


@pytest.fixture(scope="module")
def alone(encoder, stored):
    """(hidden (layers, seq, hidden), weights (layers, heads, seq, seq)) of each sentence, run by itself."""
    results = []
    for number in range(len(minilm.LENGTHS)):
        hidden, weights = encoder.run(*minilm.ids_and_lengths(stored, [number]))
        results.append((hidden[:, 0], weights[:, 0]))
    return results


def largest_difference(got, expected):
    assert got.shape == expected.shape
    return np.abs(got - expected).max()


@pytest.mark.parametrize("number", range(len(minilm.LENGTHS)))
def test_a_sentence_has_the_hidden_states_of_transformers(alone, stored, number):
    hidden, _ = alone[number]
    for layer in range(len(hidden)):
        rows = minilm.hidden_rows(layer, len(hidden), minilm.LENGTHS[number])
        assert largest_difference(hidden[layer][rows], stored[f"hidden.{number}.{layer}"]) <= HIDDEN_TOLERANCE


@pytest.mark.parametrize("number", range(len(minilm.LENGTHS)))
def test_a_sentence_has_the_weights_of_transformers(alone, stored, number):
    _, weights = alone[number]
    rows = np.array(
        [
            [weights[layer, head, minilm.weights_row(layer, head, minilm.LENGTHS[number])] for head in range(heads)]
            for layer, heads in enumerate([weights.shape[1]] * weights.shape[0])
        ]
    )
    assert largest_difference(rows, stored[f"weights.{number}"]) <= WEIGHTS_TOLERANCE


@pytest.mark.parametrize("numbers", minilm.BATCHES, ids=lambda numbers: "-".join(map(str, numbers)))
def test_a_padded_batch_gives_each_sentence_the_same_bits_as_alone(encoder, alone, stored, numbers):
    # Ids of padding are not read: these would be refused.
    hidden, weights = encoder.run(*minilm.ids_and_lengths(stored, numbers, padding=-1))
    for row, number in enumerate(numbers):
        length = minilm.LENGTHS[number]
        assert np.array_equal(hidden[:, row, :length], alone[number][0])
        assert np.array_equal(weights[:, row, :, :length, :length], alone[number][1])
        assert not hidden[:, row, length:].any()
        assert not weights[:, row, :, length:].any()
        assert not weights[:, row, :, :, length:].any()


def test_the_batches_hold_every_sentence_once():
    assert sorted(number for batch in minilm.BATCHES for number in batch) == list(range(len(minilm.LENGTHS)))

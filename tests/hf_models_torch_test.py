# SPDX-License-Identifier: Apache-2.0
"""Tiny random models of transformers under headwise.hf.enable, beside their own eager attention."""

import pytest
import torch
import transformers as tf

import headwise.hf

SIZES = {"hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2, "num_attention_heads": 4}
TEXT = {"vocab_size": 60, "max_position_embeddings": 64, **SIZES}
GROUPED = {"num_key_value_heads": 2, **TEXT}
SPECIAL = {"pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2}
SEQ2SEQ = {"d_model": 32, "encoder_layers": 2, "decoder_layers": 2, "decoder_start_token_id": 1, **SPECIAL}

# Name -> the model; all are made in eval mode, in float32.
MODELS = {
    "bert": lambda: tf.BertModel(tf.BertConfig(**TEXT)),
    "gpt2": lambda: tf.GPT2LMHeadModel(
        tf.GPT2Config(vocab_size=60, n_positions=64, n_embd=32, n_layer=2, n_head=4, **SPECIAL)
    ),
    "llama": lambda: tf.LlamaForCausalLM(tf.LlamaConfig(**GROUPED, **SPECIAL)),
    "qwen3": lambda: tf.Qwen3ForCausalLM(tf.Qwen3Config(head_dim=8, **GROUPED, **SPECIAL)),
    "gemma2": lambda: tf.Gemma2ForCausalLM(
        tf.Gemma2Config(head_dim=8, sliding_window=5, attn_logit_softcapping=5.0, **GROUPED, **SPECIAL)
    ),
    "mistral": lambda: tf.MistralForCausalLM(tf.MistralConfig(sliding_window=5, **GROUPED, **SPECIAL)),
    "gpt_oss": lambda: tf.GptOssForCausalLM(
        tf.GptOssConfig(head_dim=8, sliding_window=5, num_local_experts=2, num_experts_per_tok=1, **GROUPED, **SPECIAL)
    ),
    "neox": lambda: tf.GPTNeoXForCausalLM(tf.GPTNeoXConfig(**TEXT, **SPECIAL)),
    "vit": lambda: tf.ViTModel(tf.ViTConfig(image_size=16, patch_size=4, **SIZES)),
    "whisper": lambda: tf.WhisperForConditionalGeneration(
        tf.WhisperConfig(
            vocab_size=60,
            num_mel_bins=8,
            max_source_positions=12,
            max_target_positions=32,
            encoder_attention_heads=4,
            decoder_attention_heads=4,
            encoder_ffn_dim=48,
            decoder_ffn_dim=48,
            **SEQ2SEQ,
        )
    ),
    "t5": lambda: tf.T5ForConditionalGeneration(
        tf.T5Config(vocab_size=60, d_model=32, d_kv=8, d_ff=48, num_layers=2, num_heads=4, decoder_start_token_id=0)
    ),
}
DECODERS = ["gpt2", "llama", "qwen3", "gemma2", "mistral", "gpt_oss", "neox"]


def made(name):
    torch.manual_seed(1)
    model = MODELS[name]()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.normal_(std=0.2)
    model.set_attn_implementation("eager")
    return model.eval()


def padding(side):
    """(2, 11): the second row has 4 tokens that do not count, on one side."""
    seen = torch.ones(2, 11, dtype=torch.long)
    if side == "right":
        seen[1, 7:] = 0
    if side == "left":
        seen[1, :4] = 0
    return seen


def inputs(name, side=None):
    torch.manual_seed(2)
    ids = torch.randint(3, 60, (2, 11))
    if name == "vit":
        return {"pixel_values": torch.randn(2, 3, 16, 16)}
    if name == "whisper":
        return {"input_features": torch.randn(2, 8, 24), "decoder_input_ids": ids}
    given = {"input_ids": ids}
    if name == "t5":
        given["decoder_input_ids"] = torch.randint(3, 60, (2, 6))
    if side is not None:
        given["attention_mask"] = padding(side)
    return given


def first_output(out):
    return out.logits if hasattr(out, "logits") else out.last_hidden_state


def counted(name, side, tensor):
    """Without the rows of tokens that do not count: what is computed there is nobody's."""
    if side is None or name == "t5":
        return tensor
    return tensor[padding(side).bool()]


def is_close(got, expected, limit):
    scale = max(1.0, float(expected.float().abs().max()))
    assert float((got.float() - expected.float()).abs().max()) <= limit * scale


UNPADDED = ("vit", "whisper")  # take no padding
CASES = [(name, side) for name in MODELS for side in (None, "right", "left") if side is None or name not in UNPADDED]


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize(("name", "side"), CASES)
def test_outputs_and_weights_are_those_of_eager_attention(name, side, dtype):
    model = made(name).to(dtype)
    given = {k: v.to(dtype) if v.is_floating_point() else v for k, v in inputs(name, side).items()}
    with torch.no_grad():
        expected = model(**given, output_attentions=True)
        with headwise.hf.enable(model):
            got = model(**given, output_attentions=True)
            plain = model(**given)
        again = model(**given)
    limit = 2e-5 if dtype is torch.float32 else 3e-2
    rows = [counted(name, side, first_output(out)) for out in (got, plain, again, expected)]
    for out in rows[:3]:
        is_close(out, rows[3], limit)
    keys = [key for key in expected if "attentions" in key and expected[key]]
    assert keys
    for key in keys:
        assert len(got[key]) == len(expected[key])
        for ours, theirs in zip(got[key], expected[key], strict=True):
            if theirs is None:
                continue
            seen = theirs[..., : ours.shape[-1]]  # eager gpt-oss drops the sink's column itself
            if side == "left":  # rows of tokens that do not count: eager spreads them evenly, headwise leaves 0
                rows_seen = padding(side).bool()
                if name != "t5":
                    ours, seen = (w.transpose(1, 2)[rows_seen] for w in (ours, seen))
            is_close(ours, seen, 2e-5 if dtype is torch.float32 else 1e-2)


@pytest.mark.parametrize("name", MODELS)
def test_gradients_are_those_of_eager_attention(name):
    model = made(name)
    given = inputs(name)
    first_output(model(**given)).square().mean().backward()
    expected = {n: p.grad.clone() for n, p in model.named_parameters() if p.grad is not None}
    model.zero_grad()
    with headwise.hf.enable(model):
        first_output(model(**given)).square().mean().backward()
    for n, p in model.named_parameters():
        if n in expected:
            is_close(
                p.grad / max(1e-6, float(expected[n].abs().max())),
                expected[n] / max(1e-6, float(expected[n].abs().max())),
                1e-3,
            )


@pytest.mark.parametrize("decoder", DECODERS)
@pytest.mark.parametrize("side", [None, "left"])
def test_greedy_tokens_with_a_cache_are_equal(decoder, side):
    model = made(decoder)
    given = inputs(decoder, side)
    expected = model.generate(**given, max_new_tokens=12, do_sample=False)
    with headwise.hf.enable(model):
        got = model.generate(**given, max_new_tokens=12, do_sample=False)
        static = model.generate(**given, max_new_tokens=12, do_sample=False, cache_implementation="static")
    assert got.tolist() == expected.tolist()
    assert static.tolist() == expected.tolist()

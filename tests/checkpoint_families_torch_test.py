# SPDX-License-Identifier: Apache-2.0
"""For every family a tiny random model, saved by its own library: headwise.load gives the same attention."""

import re

import book_classes as book
import numpy as np
import pytest
import torch
from safetensors.torch import save_file
from torch import nn
from transformers import (
    AlbertConfig,
    AlbertModel,
    BertConfig,
    BertForMaskedLM,
    BertModel,
    Dinov2Config,
    Dinov2Model,
    DistilBertConfig,
    DistilBertModel,
    GPT2Config,
    GPT2LMHeadModel,
    LlamaConfig,
    LlamaForCausalLM,
    MistralConfig,
    MistralForCausalLM,
    Olmo2Config,
    Olmo2ForCausalLM,
    Qwen2Config,
    Qwen2ForCausalLM,
    Qwen3Config,
    Qwen3ForCausalLM,
    RobertaConfig,
    RobertaModel,
    ViTConfig,
    ViTForImageClassification,
    ViTModel,
)

import headwise
from headwise.__main__ import main

SIZES = {"hidden_size": 16, "intermediate_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4}
TEXT = {"vocab_size": 30, "max_position_embeddings": 16, **SIZES}
IMAGE = {"image_size": 8, "patch_size": 4, **SIZES}
GROUPED = {"num_key_value_heads": 2, **TEXT}
LLAMA3 = {
    "rope_type": "llama3",
    "factor": 4.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 8,
}
YARN = {"rope_type": "yarn", "factor": 4.0, "beta_fast": 4.0, "original_max_position_embeddings": 8}
DISTIL = {"vocab_size": 30, "max_position_embeddings": 16, "dim": 16, "hidden_dim": 32, "n_layers": 2, "n_heads": 4}
GPT2 = {"vocab_size": 30, "n_positions": 16, "n_embd": 16, "n_layer": 2, "n_head": 4, "bos_token_id": 0}

# Family -> model, and within it the module whose input is the attention's and the one whose output is.
MODELS = {
    "bert": (lambda: BertModel(BertConfig(**TEXT)), "encoder.layer.1.attention.self.query", "...output.dense"),
    "bert-decoder": (
        lambda: BertModel(BertConfig(is_decoder=True, **TEXT)),
        "encoder.layer.1.attention.self.query",
        "...output.dense",
    ),
    "bert-with-head": (
        lambda: BertForMaskedLM(BertConfig(**TEXT)),
        "bert.encoder.layer.1.attention.self.query",
        "...output.dense",
    ),
    "roberta": (lambda: RobertaModel(RobertaConfig(**TEXT)), "encoder.layer.1.attention.self.query", "...output.dense"),
    "distilbert": (
        lambda: DistilBertModel(DistilBertConfig(**DISTIL)),
        "transformer.layer.1.attention.q_lin",
        ".out_lin",
    ),
    "albert": (
        lambda: AlbertModel(AlbertConfig(embedding_size=8, **TEXT)),
        "encoder.albert_layer_groups.0.albert_layers.0.attention.query",
        ".dense",
    ),
    "gpt2": (lambda: GPT2LMHeadModel(GPT2Config(eos_token_id=0, **GPT2)), "transformer.h.1.attn.c_attn", ".c_proj"),
    "vit": (lambda: ViTModel(ViTConfig(**IMAGE)), "layers.1.attention.q_proj", ".o_proj"),
    "vit-with-head": (
        lambda: ViTForImageClassification(ViTConfig(**IMAGE)),
        "vit.layers.1.attention.q_proj",
        ".o_proj",
    ),
    "llama": (lambda: LlamaForCausalLM(LlamaConfig(**GROUPED)), "model.layers.1.self_attn.q_proj", ".o_proj"),
    "llama-wide-heads": (
        lambda: LlamaForCausalLM(LlamaConfig(head_dim=6, attention_bias=True, rope_theta=50.0, **GROUPED)),
        "model.layers.1.self_attn.q_proj",
        ".o_proj",
    ),
    "llama-linear": (
        lambda: LlamaForCausalLM(LlamaConfig(rope_scaling={"rope_type": "linear", "factor": 2.0}, **GROUPED)),
        "model.layers.1.self_attn.q_proj",
        ".o_proj",
    ),
    "llama3": (
        lambda: LlamaForCausalLM(LlamaConfig(head_dim=8, rope_theta=100.0, rope_scaling=LLAMA3, **GROUPED)),
        "model.layers.1.self_attn.q_proj",
        ".o_proj",
    ),
    "mistral": (
        lambda: MistralForCausalLM(MistralConfig(sliding_window=3, **GROUPED)),
        "model.layers.1.self_attn.q_proj",
        ".o_proj",
    ),
    "qwen2": (
        lambda: Qwen2ForCausalLM(Qwen2Config(sliding_window=3, **GROUPED)),
        "model.layers.1.self_attn.q_proj",
        ".o_proj",
    ),
    "qwen2-window": (
        lambda: Qwen2ForCausalLM(
            Qwen2Config(use_sliding_window=True, sliding_window=3, max_window_layers=1, **GROUPED)
        ),
        "model.layers.1.self_attn.q_proj",
        ".o_proj",
    ),
    "llama-yarn": (
        lambda: LlamaForCausalLM(
            LlamaConfig(head_dim=16, rope_theta=100.0, rope_scaling=YARN, **{**GROUPED, "max_position_embeddings": 32})
        ),
        "model.layers.1.self_attn.q_proj",
        ".o_proj",
    ),
    "qwen3": (
        lambda: Qwen3ForCausalLM(Qwen3Config(head_dim=6, rms_norm_eps=1e-3, **GROUPED)),
        "model.layers.1.self_attn.q_proj",
        ".o_proj",
    ),
    "olmo2": (
        lambda: Olmo2ForCausalLM(Olmo2Config(rms_norm_eps=1e-3, **GROUPED)),
        "model.layers.1.self_attn.q_proj",
        ".o_proj",
    ),
    "dinov2": (lambda: Dinov2Model(Dinov2Config(**IMAGE)), "encoder.layer.1.attention.q_proj", ".o_proj"),
}


def randomized(module, seed=1):
    """Biases and norms too: what starts at 0 or 1 would hide a mistake."""
    torch.manual_seed(seed)
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.normal_(std=0.3)
    return module.eval()


def sibling(name, ending):
    """ "a.b.self.query", "...output.dense" -> "a.b.output.dense": each dot in front goes up one level."""
    levels = len(ending) - len(ending.lstrip("."))
    return ".".join([*name.split(".")[: -max(1, levels - 1)], ending.lstrip(".")])


def seen_attention(model, query, out):
    """What goes into the layer's attention and what comes out of it while the whole model runs."""
    seen = {}
    model.get_submodule(query).register_forward_pre_hook(lambda _, given: seen.update(x=given[0].detach().clone()))
    out = model.get_submodule(sibling(query, out))
    out.register_forward_hook(lambda _, __, result: seen.update(out=result.detach().clone()))
    with torch.no_grad():
        if "pixel_values" in model.forward.__code__.co_varnames or hasattr(model.config, "image_size"):
            model(pixel_values=torch.randn(2, 3, 8, 8))
        else:
            model(input_ids=torch.arange(14).reshape(2, 7))
    return seen["x"].float().numpy(), seen["out"].float().numpy()


@pytest.fixture(params=MODELS)
def family(request):
    make, query, out = MODELS[request.param]
    model = randomized(make())
    return model, *seen_attention(model, query, out)


def check(layer, x, expected):
    difference = np.abs(layer.eval()(np.ascontiguousarray(x)) - expected).max()
    assert difference <= 1e-5
    assert np.abs(expected).max() > 0.1


def test_a_saved_model_gives_the_same_attention(family, tmp_path):
    model, x, expected = family
    model.save_pretrained(tmp_path)
    check(headwise.load(tmp_path, layer=1), x, expected)


def test_several_files_under_an_index_are_read_as_one(family, tmp_path):
    model, x, expected = family
    model.save_pretrained(tmp_path, max_shard_size="3KB")
    assert len(list(tmp_path.glob("*.safetensors"))) > 1
    check(headwise.load(tmp_path, layer=1), x, expected)
    check(headwise.load(tmp_path / "model.safetensors.index.json", layer=1), x, expected)


def test_bfloat16_weights_are_widened_exactly(family, tmp_path):
    model, x, _ = family
    model.to(torch.bfloat16).save_pretrained(tmp_path / "narrow")
    model.float().save_pretrained(tmp_path / "wide")
    narrow, wide = (headwise.load(tmp_path / name, layer=1).eval() for name in ("narrow", "wide"))
    assert narrow.dtype == "float32"
    assert narrow(x).tobytes() == wide(x).tobytes()


def test_the_names_that_transformers_has_in_memory_are_read_too(tmp_path):
    for name in ("vit", "dinov2"):
        make, query, out = MODELS[name]
        model = randomized(make())
        x, expected = seen_attention(model, query, out)
        model.config.save_pretrained(tmp_path)
        save_file(model.state_dict(), tmp_path / "model.safetensors")
        check(headwise.load(tmp_path, layer=1), x, expected)


WIDTH, HEADS = 12, 3
# Name -> module and what the file does not say.
CLASSES = {
    "seed": (lambda: book.SeedLayer(WIDTH, 6, HEADS), {"num_heads": HEADS, "causal": False, "dropout": 0.0}),
    "seed-bias": (lambda: book.SeedLayer(WIDTH, 6, HEADS, True), {"num_heads": HEADS, "causal": False, "dropout": 0.0}),
    "v1": (lambda: book.SelfAttentionV1(WIDTH, 6), {}),
    "v1-square": (lambda: book.SelfAttentionV1(WIDTH, WIDTH), {}),
    "v2": (
        lambda: book.SingleHead(WIDTH, 6, causal=False),
        {"kind": "MultiHeadAttention", "num_heads": 1, "causal": False, "dropout": 0.0},
    ),
    "causal": (lambda: book.SingleHead(WIDTH, 6, True), {"kind": "CausalSelfAttention", "dropout": 0.0}),
    "wrapper": (lambda: book.Wrapper(WIDTH, 4, HEADS), {"causal": True, "dropout": 0.0}),
    "wrapper-out": (lambda: book.Wrapper(WIDTH, 4, HEADS, True, True), {"causal": True, "dropout": 0.0}),
    "fused": (lambda: book.Fused(WIDTH, 6, HEADS), {"num_heads": HEADS, "causal": True, "dropout": 0.0}),
    "qkv": (lambda: book.CombinedQkv(WIDTH, WIDTH, HEADS), {"num_heads": HEADS, "causal": True}),
    "qkv-narrow": (lambda: book.CombinedQkv(WIDTH, 6, HEADS, True), {"num_heads": HEADS, "causal": True}),
    "einsum": (lambda: book.Einsum(WIDTH, 6, HEADS), {"num_heads": HEADS}),
    "einsum-square": (lambda: book.Einsum(WIDTH, WIDTH, HEADS, True), {"num_heads": HEADS}),
    "nanogpt": (lambda: book.NanoGptAttention(WIDTH, HEADS), {"num_heads": HEADS}),
    "nanogpt-bare": (lambda: book.NanoGptAttention(WIDTH, HEADS, False), {"num_heads": HEADS}),
    "timm": (lambda: book.CombinedQkv(WIDTH, WIDTH, HEADS, True, False), {"num_heads": HEADS}),
    "torch": (lambda: TorchAttention(), {"num_heads": HEADS, "causal": False}),
    "torch-bare": (lambda: TorchAttention(bias=False), {"num_heads": HEADS, "causal": False}),
}
# Where in a model the class lies; alone in its file unless said.
PREFIXES = {"nanogpt": "_orig_mod.transformer.h.1.attn.", "timm": "blocks.1.attn.", "fused": "trf_blocks.1.att."}


class TorchAttention(nn.MultiheadAttention):
    def __init__(self, bias=True):
        super().__init__(WIDTH, HEADS, bias=bias, batch_first=True)

    def forward(self, x):
        return super().forward(x, x, x, need_weights=False)[0]


@pytest.fixture(params=CLASSES)
def single(request, tmp_path):
    """A file with one layer of a class, what load needs to know of it, an input and the output."""
    make, facts = CLASSES[request.param]
    module = randomized(make())
    prefix = PREFIXES.get(request.param, "")
    path = tmp_path / "layer.safetensors"
    save_file({prefix + name: tensor.contiguous() for name, tensor in module.state_dict().items()}, path)
    x = torch.randn(2, 7, WIDTH)
    with torch.no_grad():
        return path, facts, x.numpy(), module(x).numpy()


def test_a_class_gives_the_same_attention(single):
    path, facts, x, expected = single
    check(headwise.load(path, **facts), x, expected)


def test_torchs_separate_weights_are_those_of_its_packed_ones(tmp_path):
    module = randomized(TorchAttention())
    state = module.state_dict()
    for name, part in zip("qkv", state.pop("in_proj_weight").chunk(3), strict=True):
        state[f"{name}_proj_weight"] = part.contiguous()
    save_file(state, tmp_path / "a")
    x = torch.randn(2, 7, WIDTH)
    with torch.no_grad():
        check(headwise.load(tmp_path / "a", HEADS, causal=False), x.numpy(), module(x).numpy())


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"kdim": 8}, "tensor 'k_proj_weight' must be (12, 12) in a layer of family torch_unpacked, got (12, 8)"),
        ({"vdim": 8}, "tensor 'v_proj_weight' must be (12, 12) in a layer of family torch_unpacked, got (12, 8)"),
        ({"add_bias_kv": True}, "tensor 'bias_k' is a part that headwise does not serve in a layer of family torch"),
    ],
    ids=str,
)
def test_what_no_layer_of_headwise_holds_is_refused_by_its_name(options, reason, tmp_path):
    path = tmp_path / "a"
    save_file(nn.MultiheadAttention(WIDTH, HEADS, **options).state_dict(), path)
    with pytest.raises(ValueError, match=f"^{re.escape(f'{path}: {reason}')}$"):
        headwise.load(path, HEADS, causal=False)


def converted(source, target, to, *options):
    assert main(["convert", str(source), str(target), "--to", to, *options]) == 0
    return target


def test_every_layer_keeps_its_bits_in_every_family_that_holds_it(single, tmp_path, capfd):
    path, facts, x, _ = single
    layer = headwise.load(path, **facts).eval()
    expected = layer(x).tobytes()
    said = ["--heads", str(layer.num_heads), "--causal", str(layer.causal).lower()]
    fused = converted(path, tmp_path / "fused", "book", *said)
    held = []
    for to in ("book", "wrapper", "seed", "torch", "qkv", "gpt2", "nanogpt", "separate"):
        there = tmp_path / to
        if main(["convert", str(path), str(there), "--to", to, *said]) != 0:
            assert not there.exists()
            continue
        held.append(to)
        own = {"dropout": 0.0} if to in ("book", "wrapper", "seed") else {}
        assert headwise.load(there, **own).eval()(x).tobytes() == expected
        back = converted(there, tmp_path / "back", "book")
        weights, original = (headwise.load(file, dropout=0.0).state_dict() for file in (back, fused))
        for name, weight in original.items():
            assert weights.pop(name).tobytes() == weight.tobytes()
        # torch and GPT-2 have one flag for all biases: what was absent comes back as zeros.
        assert not any(array.any() for array in weights.values())
    assert {"book", "wrapper", "separate"} <= set(held)
    capfd.readouterr()

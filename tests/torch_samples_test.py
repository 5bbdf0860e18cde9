# SPDX-License-Identifier: Apache-2.0
"""The samples that PyTorch tests its own attention with (OpInfo and ModuleInfo, in the wheel), given to headwise:
values and gradients against torch's plain path in float64, derivatives of both orders against differences.
"""

import functools
import warnings

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import headwise.torch
from headwise.torch import scaled_dot_product_attention as sdpa
from torch_calls import close, torch_math

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # that hypothesis is not installed, which nothing here needs
    from torch.testing._internal.common_methods_invocations import op_db
    from torch.testing._internal.common_modules import module_db

DTYPES = [torch.float64, torch.float32, torch.bfloat16, torch.float16]
MODULES = ["nn.MultiheadAttention", "nn.TransformerEncoderLayer", "nn.TransformerDecoderLayer", "nn.TransformerEncoder",
           "nn.Transformer"]  # fmt: skip


@functools.cache
def op_samples(name, dtype):
    op = next(op for op in op_db if op.name == name)
    torch.manual_seed(0)
    return list(op.sample_inputs("cpu", dtype, requires_grad=True))


@functools.cache
def module_samples(name, training):
    info = next(info for info in module_db if info.name == name)
    torch.manual_seed(0)
    return info.module_cls, info.module_inputs_func(
        info, device="cpu", dtype=torch.float64, requires_grad=True, training=training
    )


def test_the_wheel_has_the_samples():
    assert len(op_samples("nn.functional.scaled_dot_product_attention", torch.float32)) >= 20
    assert len(module_samples("nn.MultiheadAttention", True)[1]) >= 32


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("enabled", [False, True])
def test_attention_samples_equal_torch_in_values_and_gradients(dtype, enabled):
    checked = 0
    for sample in op_samples("nn.functional.scaled_dot_product_attention", dtype):
        if sample.kwargs.get("dropout_p"):
            continue
        checked += 1
        tensors = [sample.input, *sample.args]
        mask = sample.kwargs.get("attn_mask")
        options = {name: value for name, value in sample.kwargs.items() if name not in ("attn_mask", "dropout_p")}
        if enabled:
            with headwise.torch.enable():
                out = F.scaled_dot_product_attention(*tensors, mask, 0.0, **options)
        else:
            out = sdpa(*tensors, mask, 0.0, **options)
        floats = [t for t in (*tensors, mask) if t is not None and t.requires_grad]
        wide = {id(t): t.detach().double().requires_grad_() for t in floats}
        other = mask if mask is None or not mask.is_floating_point() else wide.get(id(mask), mask.double())
        expected = torch_math(*(wide[id(t)] for t in tensors), other, **options)
        close("output", out, expected, dtype, sample)
        theirs = torch.autograd.grad(expected.sum(), list(wide.values()))
        for one, two in zip(torch.autograd.grad(out.sum(), floats), theirs, strict=True):
            close("gradient", one, two, dtype, sample)
    assert checked >= 10


def test_dropout_samples_drop_the_weights_that_are_returned():
    checked = 0
    for sample in op_samples("nn.functional.scaled_dot_product_attention", torch.float64):
        p = sample.kwargs.get("dropout_p")
        if not p:
            continue
        checked += 1
        tensors, options = [sample.input, *sample.args], {**sample.kwargs, "seed": checked}
        kept = sdpa(*tensors, **options, return_weights="after_dropout")
        before = sdpa(*tensors, **options, return_weights=True).weights
        assert torch.equal(kept.context, sdpa(*tensors, **options))
        dropped = (kept.weights == 0) & (before != 0)
        assert torch.allclose(torch.where(dropped, 0, before / (1 - p)), kept.weights, rtol=1e-4)
        close("output", kept.context, kept.weights @ tensors[2], torch.float64, sample)
    assert checked >= 10


def test_derivatives_of_both_orders_agree_with_differences():
    for sample in op_samples("nn.functional.scaled_dot_product_attention", torch.float64):
        if sample.input.numel() > 200:
            continue
        options = {**sample.kwargs, "seed": 3} if sample.kwargs.get("dropout_p") else sample.kwargs
        call = functools.partial(sdpa, **options)
        tensors = [sample.input, *sample.args]
        assert torch.autograd.gradcheck(call, tensors, fast_mode=True)
        assert torch.autograd.gradgradcheck(call, tensors, fast_mode=True)


def test_the_functional_form_of_multihead_attention_under_enable():
    for sample in op_samples("nn.functional.multi_head_attention_forward", torch.float64):
        torch.manual_seed(1)
        expected, weights = F.multi_head_attention_forward(sample.input, *sample.args, **sample.kwargs)
        torch.manual_seed(1)
        with headwise.torch.enable():
            out, seen = F.multi_head_attention_forward(sample.input, *sample.args, **sample.kwargs)
        close("output", out, expected, torch.float64, sample)
        assert (seen is None) == (weights is None)


def run(module, sample):
    """The output and the gradients of the parameters; the weights, where there are any, come last."""
    out = module(*sample.forward_input.args, **sample.forward_input.kwargs)
    out, weights = out if isinstance(out, tuple) else (out, None)
    parameters = [p for p in module.parameters() if p.requires_grad]
    return out, torch.autograd.grad(out.square().sum(), parameters, allow_unused=True), weights


@pytest.mark.parametrize("training", [True, False])
def test_the_module_gives_what_torchs_gives_for_its_samples(training):
    _, samples = module_samples("nn.MultiheadAttention", training)
    for sample in samples:
        arguments, keywords = sample.constructor_input.args, sample.constructor_input.kwargs
        theirs = nn.MultiheadAttention(*arguments, **keywords, dtype=torch.float64).train(training)
        ours = headwise.torch.MultiheadAttention(*arguments, **keywords, dtype=torch.float64).train(training)
        ours.load_state_dict(theirs.state_dict())
        for one, two in zip(run(ours, sample), run(theirs, sample), strict=True):
            pairs = zip(one, two, strict=True) if isinstance(one, tuple) else [(one, two)]
            for ours_is, theirs_is in pairs:
                assert (ours_is is None) == (theirs_is is None)
                if ours_is is not None:
                    close("module", ours_is, theirs_is, torch.float64, sample)


@pytest.mark.filterwarnings("ignore:enable_nested_tensor is True:UserWarning")
@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("name", MODULES)
def test_torchs_modules_give_the_same_under_enable(name, training):
    made, samples = module_samples(name, training)
    for sample in samples:
        torch.manual_seed(0)
        module = made(*sample.constructor_input.args, **sample.constructor_input.kwargs).double().train(training)
        for part in module.modules():  # its random bits are other ones
            if isinstance(part, nn.Dropout):
                part.p = 0.0
            elif isinstance(part, nn.MultiheadAttention):
                part.dropout = 0.0
        expected = run(module, sample)
        with headwise.torch.enable():
            found = run(module, sample)
        close("output", found[0], expected[0], torch.float64, sample)
        for one, two in zip(found[1], expected[1], strict=True):
            if one is not None or two is not None:
                close("gradient", one, two, torch.float64, sample)

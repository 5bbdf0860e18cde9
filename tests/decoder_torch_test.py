# SPDX-License-Identifier: Apache-2.0
"""The decoder against its twin in torch: logits, loss and every gradient."""

import sys

import numpy as np
import pytest
import torch

import repository
from headwise import _headwise

sys.path.insert(0, str(repository.ROOT / "bench"))
from decoder_twin import DecoderTwin

SIZES = {"layers": 2, "hidden": 24, "heads": 3, "vocab": 31, "positions": 17}
TYPES = {"float64": (torch.float64, _headwise.Decoder64, 1e-10), "float32": (torch.float32, _headwise.Decoder32, 1e-5)}


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("activation", ["gelu", "gelu_tanh"])
@pytest.mark.parametrize("tied", [True, False], ids=["tied", "untied"])
@pytest.mark.parametrize("bias", [True, False], ids=["bias", "no-bias"])
def test_logits_loss_and_gradients_are_those_of_torch(dtype, activation, tied, bias):
    torch_type, decoder_class, tolerance = TYPES[dtype]
    generator = torch.Generator().manual_seed(7)
    twin = DecoderTwin(**SIZES, bias=bias, tied=tied, activation=activation).to(torch_type)
    with torch.no_grad():
        for parameter in twin.parameters():
            parameter.copy_(torch.rand(parameter.shape, generator=generator, dtype=torch_type) - 0.5)
    decoder = decoder_class(*SIZES.values(), bias, tied, activation)
    decoder.load({name: parameter.detach().numpy() for name, parameter in twin.named_parameters()})
    ids, targets = (torch.randint(SIZES["vocab"], (4, 17), generator=generator) for _ in range(2))

    logits = decoder.logits(ids.numpy())
    loss, gradients = decoder.loss_and_gradients(ids.numpy(), targets.numpy())
    expected = twin.loss(ids, targets)
    expected.backward()
    assert np.abs(logits - twin(ids).detach().numpy()).max() <= tolerance * 5
    assert abs(loss - expected.item()) <= tolerance
    assert gradients.keys() == dict(twin.named_parameters()).keys()
    for name, parameter in twin.named_parameters():
        assert np.abs(gradients[name] - parameter.grad.numpy()).max() <= tolerance, name

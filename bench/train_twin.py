# SPDX-License-Identifier: Apache-2.0
"""headwise's training beside a torch twin: equal initial weights, equal batches, steps in turns; losses and tokens/s.

python bench/train_twin.py --text book.txt [--steps 2000] [--threads 2] [--seed 0]
"""

import argparse
import platform
import statistics
import time
from pathlib import Path

import numpy as np
import torch
from decoder_twin import DecoderTwin

import headwise
from headwise import _headwise

SIZES = {"layers": 4, "hidden": 128, "heads": 4, "positions": 64}
BATCH = 12
ROUND = 20  # steps of one and then of the other
EVALUATED_AT_ONCE = 32


def optimizer_of(twin):
    matrices = [parameter for parameter in twin.parameters() if parameter.dim() >= 2]
    vectors = [parameter for parameter in twin.parameters() if parameter.dim() < 2]
    groups = [{"params": matrices, "weight_decay": 0.1}, {"params": vectors, "weight_decay": 0.0}]
    return torch.optim.AdamW(groups, lr=1e-3, betas=(0.9, 0.99), eps=1e-8, foreach=True)


def twin_step(twin, optimizer, learning_rate, ids, targets):
    for group in optimizer.param_groups:
        group["lr"] = learning_rate
    loss = twin.loss(ids, targets)
    loss.backward()
    torch.nn.utils.clip_grad_norm_(twin.parameters(), 1.0)
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)
    return loss.item()


@torch.no_grad()
def twin_evaluation(twin, text):
    """The mean over the last tenth, cut into sequences one behind the other."""
    known = np.array(sorted(set(text)))
    tokens = torch.from_numpy(np.searchsorted(known, np.frombuffer(text, dtype=np.uint8)).astype(np.int64))
    tokens = tokens[len(text) * 9 // 10 :]
    context = SIZES["positions"]
    count = (len(tokens) - 1) // context
    ids = tokens[: count * context].view(count, context)
    targets = tokens[1 : count * context + 1].view(count, context)
    twin.eval()
    total = 0.0
    for first in range(0, count, EVALUATED_AT_ONCE):
        part = slice(first, first + EVALUATED_AT_ONCE)
        total += twin.loss(ids[part], targets[part]).item() * len(ids[part])
    twin.train()
    return total / count


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--text", required=True, type=Path)
    parser.add_argument("--steps", type=int, default=2000)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    headwise.set_num_threads(options.threads)
    text = options.text.read_bytes()
    training = _headwise.Training(text, *SIZES.values(), BATCH, options.steps, options.seed)
    twin = DecoderTwin(**SIZES, vocab=training.vocab(), bias=False, tied=True)
    twin.load_state_dict({name: torch.from_numpy(value) for name, value in training.weights().items()})
    optimizer = optimizer_of(twin)
    print(f"{platform.processor() or platform.machine()}, {options.threads} threads, torch {torch.__version__}")
    print(f"before: validation loss headwise {training.evaluate():.4f}, torch {twin_evaluation(twin, text):.4f}")

    rates = {"headwise": [], "torch": []}
    for first in range(0, options.steps, ROUND):
        steps = range(first, min(first + ROUND, options.steps))
        batches = [[torch.from_numpy(part) for part in training.batch(step)] for step in steps]
        begin = time.perf_counter()
        ours = [training.step() for _ in steps][-1]
        middle = time.perf_counter()
        for step, batch in zip(steps, batches, strict=True):
            theirs = twin_step(twin, optimizer, training.learning_rate(step), *batch)
        end = time.perf_counter()
        tokens = len(steps) * BATCH * SIZES["positions"]
        rates["headwise"].append(tokens / (middle - begin))
        rates["torch"].append(tokens / (end - middle))
        if first // ROUND % 10 == 0:
            print(f"step {steps[-1] + 1}: loss headwise {ours:.4f}, torch {theirs:.4f}", flush=True)

    print(f"after:  validation loss headwise {training.evaluate():.4f}, torch {twin_evaluation(twin, text):.4f}")
    medians = {name: statistics.median(values) for name, values in rates.items()}
    for name, values in rates.items():
        span = f"{min(values):.0f} to {max(values):.0f}"
        print(f"{name:9} {medians[name]:8.0f} tokens/s (median of {len(values)} rounds; {span})")
    print(f"headwise / torch: {medians['headwise'] / medians['torch']:.2f}")


if __name__ == "__main__":
    main()

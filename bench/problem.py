# SPDX-License-Identifier: Apache-2.0
"""Problems as data: one text line is checked and timed by every peer."""

from dataclasses import dataclass, field
from pathlib import Path

import numpy as np


@dataclass
class Problem:
    name: str
    kind: str
    size: dict
    arrays: dict = field(default_factory=dict)

    def __getattr__(self, key):
        size = self.__dict__.get("size", {})
        defaults = {"causal": 0, "dropout": 0, "kv_heads": size.get("heads")}
        if key in size:
            return size[key]
        if key in defaults:
            return defaults[key]
        raise AttributeError(key)

    @property
    def needed_flops(self):
        """Multiplications and additions that the rules leave; a projection's bias is not counted."""
        if self.kind.startswith("projection"):
            return 2 * self.tokens * self.d_in * self.d_out * (3 if self.kind.endswith("training") else 1)
        queries = 1 if self.kind == "decode" else self.seq
        pairs = self.seq * (self.seq + 1) / 2 if self.causal else queries * self.seq
        products = {"forward": 2, "decode": 2, "training": 7}[self.kind]
        return 2 * products * self.batch * self.heads * pairs * self.head_dim

    @property
    def needed_bytes(self):
        """What a decode step must read: keys and values once."""
        return 2 * 4 * self.batch * self.kv_heads * self.seq * self.head_dim if self.kind == "decode" else 0

    def make_arrays(self, seed=0):
        rng = np.random.default_rng(seed)

        def normal(*shape):
            return rng.standard_normal(shape, dtype=np.float32)

        if self.kind.startswith("projection"):
            self.arrays = {
                "x": normal(self.tokens, self.d_in),
                "weight": normal(self.d_out, self.d_in) / np.float32(np.sqrt(self.d_in)),
                "bias": normal(self.d_out),
                "grad": normal(self.tokens, self.d_out),
            }
            return
        queries = 1 if self.kind == "decode" else self.seq
        self.arrays = {
            "q": normal(self.batch, self.heads, queries, self.head_dim),
            "k": normal(self.batch, self.kv_heads, self.seq, self.head_dim),
            "v": normal(self.batch, self.kv_heads, self.seq, self.head_dim),
            "grad": normal(self.batch, self.heads, queries, self.head_dim),
        }


def read_problems(path):
    problems = []
    with Path(path).open(encoding="utf-8") as lines:
        for line in lines:
            line = line.split("#")[0].strip()
            if not line:
                continue
            name, rest = line.split(":", 1)
            kind, *sizes = rest.split()
            pairs = (item.split("=") for item in sizes)
            size = {key: float(value) if "." in value else int(value) for key, value in pairs}
            problems.append(Problem(name.strip(), kind, size))
    return problems

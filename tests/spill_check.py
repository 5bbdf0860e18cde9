# SPDX-License-Identifier: Apache-2.0
"""Looks at the machine code of every register tile: its inner loop must hold all accumulators in registers.

Usage: spill_check.py ARCHIVE. Exits 1 when a loop touches the stack with a vector or when the expected tiles are
missing. A spilled tile runs three times slower and no result shows it, so this is checked without timing.
"""

import re
import subprocess
import sys

# Multiply-adds in the inner loop of the full tile: rows x vectors.
FULL_TILE = {"N_AVX2": 6 * 2, "N_AVX3": 12 * 2}
ROLES = ("TotalStore", "TileStore", "FoldStore", "AddStore")


def functions(archive):
    """Yields (name, [(address, instruction)]) for each disassembled function."""
    text = subprocess.run(
        ["objdump", "-d", "--no-show-raw-insn", "-C", archive], capture_output=True, text=True, check=True
    ).stdout
    for part in re.split(r"\n(?=[0-9a-f]+ <)", text):
        head, *lines = part.split("\n")
        if "MultiplyRows<" not in head:
            continue
        found = (re.match(r"\s*([0-9a-f]+):\s+(.*)", line) for line in lines)
        yield head, [(match[1], match[2]) for match in found if match]


def inner_loops(code):
    """Bodies of the loops that hold no other loop."""
    index = {address: n for n, (address, _) in enumerate(code)}
    loops = []
    for n, (_, instruction) in enumerate(code):
        jump = re.match(r"j\w+\s+([0-9a-f]+)", instruction)
        if jump and index.get(jump[1], n + 1) <= n:
            loops.append((index[jump[1]], n))
    for first, last in loops:
        if not any((a, b) != (first, last) and first <= a and b <= last for a, b in loops):
            yield [instruction for _, instruction in code[first : last + 1]]


def main(archive):
    full, faults = {}, []
    for name, code in functions(archive):
        isa = next((isa for isa in FULL_TILE if isa in name), None)
        role = next((role for role in ROLES if role in name), None)
        for body in inner_loops(code):
            fused = sum("vfmadd" in instruction for instruction in body)
            if fused < 4:
                continue
            spilled = [i for i in body if i.startswith("v") and re.search(r"%r[sb]p", i)]
            if spilled:
                faults.append(f"{name}: {spilled[0]}")
            if isa and fused % FULL_TILE[isa] == 0:
                full.setdefault((isa, role), 0)
                full[isa, role] += 1
    missing = [f"{isa} {role}" for isa in FULL_TILE for role in ROLES if (isa, role) not in full]
    for fault in faults:
        print("an accumulator lies on the stack:", fault)
    for tile in missing:
        print("no inner loop of the full tile was found:", tile)
    print(f"{sum(full.values())} full tiles seen, {len(faults)} spilled, {len(missing)} missing")
    return 1 if faults or missing else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))

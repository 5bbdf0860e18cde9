# SPDX-License-Identifier: Apache-2.0
"""headwise beside its peers: results are compared first, then rounds are interleaved A B A B.

Usage: python bench/run.py [--problems FILE] [--threads N] [--rounds N] [--only NAME]...
Prints a Markdown table: median time, spread (the middle half of the rounds), ratio to the fastest peer of the same
rounds.
"""

import argparse
import importlib
import os
import platform
import statistics
import sys
import time
from pathlib import Path

import numpy as np

FOLDER = Path(__file__).parent
sys.path.insert(0, str(FOLDER))
from problem import read_problems  # noqa: E402

PEERS = ["headwise_peer", "torch_peer", "torch_folded_peer"]


def load_peers():
    peers = []
    for name in PEERS:
        try:
            peers.append(importlib.import_module(f"peers.{name}"))
        except ImportError as error:
            print(f"not measured: {name} ({error})", file=sys.stderr)
    return peers


def processor_name():
    names = [line for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines() if "model name" in line]
    return names[0].split(":")[1].strip() if names else "unknown processor"


def check_results(problem, runs):
    """Every peer's results against the first one's; dropout masks differ by nature and are not compared."""
    if problem.dropout:
        return
    (first_name, first), *others = ((name, run()) for name, run in runs.items())
    for name, results in others:
        for got, expected in zip(results, first, strict=True):
            limit = 1e-4 * max(1.0, float(np.abs(expected).max()))
            error = float(np.abs(got - expected).max())
            if not error <= limit:
                raise SystemExit(f"{problem.name}: {name} and {first_name} differ by {error:.3g} (allowed {limit:.3g})")


def measure(runs, rounds, pause):
    times = {name: [] for name in runs}
    for run in runs.values():
        run()
    for _ in range(rounds):
        for name, run in runs.items():
            time.sleep(pause)  # threads of the peer before stop spinning
            start = time.perf_counter()
            run()
            times[name].append(time.perf_counter() - start)
    return times


def row(problem, name, times, ours):
    median = statistics.median(times)
    low, _, high = statistics.quantiles(times, n=4)
    ratios = [other / own for other, own in zip(times, ours, strict=True)]
    rate = (
        f"{problem.needed_bytes / median / 1e9:.1f} GB/s"
        if problem.needed_bytes
        else f"{problem.needed_flops / median / 1e9:.0f} GFLOP/s"
    )
    return (
        f"| {problem.name} | {name} | {median * 1e3:.2f} | {low * 1e3:.2f}-{high * 1e3:.2f} | {rate} "
        f"| {statistics.median(ratios):.2f} |"
    )


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--problems", default=FOLDER / "problems" / "first.txt", type=Path)
    parser.add_argument("--threads", default=len(os.sched_getaffinity(0)), type=int)
    parser.add_argument("--rounds", default=9, type=int)
    parser.add_argument("--pause", default=0.2, type=float, help="seconds between runs")
    parser.add_argument("--only", action="append", help="a problem's name; may be given several times")
    options = parser.parse_args()
    peers = load_peers()
    for peer in peers:
        peer.set_threads(options.threads)
    versions = ", ".join(f"{peer.NAME} {peer.version()}" for peer in peers)
    print(f"{platform.machine()}, {processor_name()}")
    next(peer for peer in peers if peer.NAME == "headwise").show_config()
    print(f"{options.threads} threads, {options.rounds} rounds, load {os.getloadavg()[0]:.2f}; {versions}\n")
    print("| problem | peer | median ms | middle half | rate | time / headwise |\n|---|---|---|---|---|---|")
    for problem in read_problems(options.problems):
        if options.only and problem.name not in options.only:
            continue
        problem.make_arrays()
        runs = {peer.NAME: run for peer in peers if (run := peer.prepare(problem))}
        check_results(problem, runs)
        times = measure(runs, options.rounds, options.pause)
        for name in runs:
            print(row(problem, name, times[name], times["headwise"]), flush=True)


if __name__ == "__main__":
    main()

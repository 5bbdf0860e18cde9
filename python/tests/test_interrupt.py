# SPDX-License-Identifier: Apache-2.0
"""Ctrl-C and other signals stop a long call, and leave the process usable."""

import signal
import threading
import time

import numpy as np
import pytest

import headwise

# On one core this takes far longer than any test may wait.
LONG = np.random.default_rng(0).normal(size=(1, 8, 16384, 64)).astype("f4")


def interrupt_after(seconds, sent):
    def send():
        sent.append(time.perf_counter())
        signal.raise_signal(signal.SIGINT)

    timer = threading.Timer(seconds, send)
    timer.start()
    return timer


def seconds_until_interrupted(call):
    sent = []
    timer = interrupt_after(0.1, sent)
    with pytest.raises(KeyboardInterrupt):
        call()
    timer.join()
    return time.perf_counter() - sent[0]


def test_ctrl_c_stops_a_forward_within_a_fifth_of_a_second():
    assert seconds_until_interrupted(lambda: headwise.attention(LONG, LONG, LONG)) < 0.2


def test_ctrl_c_stops_a_backward():
    assert seconds_until_interrupted(lambda: headwise.attention_backward(LONG, LONG, LONG, LONG)) < 0.4


def test_ctrl_c_stops_a_layer_which_then_works_on():
    layer = headwise.MultiHeadAttention(256, 256, num_heads=8, causal=False, seed=1)
    x = np.random.default_rng(0).normal(size=(2, 16384, 256)).astype("f4")
    assert seconds_until_interrupted(lambda: layer(x)) < 0.4
    with pytest.raises(RuntimeError, match="needs a forward"):
        layer.backward(x)
    small = x[:, :5]
    assert layer.backward(layer(small)).shape == small.shape


def test_the_exception_of_any_signal_handler_comes_through():
    class Alarm(Exception):
        pass

    def ring(number, frame):
        raise Alarm

    before = signal.signal(signal.SIGALRM, ring)
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.1)
        with pytest.raises(Alarm):
            headwise.attention(LONG, LONG, LONG)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def test_a_handler_that_returns_does_not_disturb_the_call():
    rings = []
    before = signal.signal(signal.SIGALRM, lambda number, frame: rings.append(number))
    q = LONG[:, :1, :3000]
    expected = headwise.attention(q, q, q)
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.005, 0.005)
        got = headwise.attention(q, q, q)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert rings
    assert got.tobytes() == expected.tobytes()


def test_other_python_threads_run_during_a_call():
    counted = []
    stop = threading.Event()

    def count():
        while not stop.is_set():
            counted.append(time.perf_counter())
            time.sleep(0.001)

    thread = threading.Thread(target=count)
    thread.start()
    begun = time.perf_counter()
    q = LONG[:, :1, :4096]
    headwise.attention(q, q, q)
    ended = time.perf_counter()
    stop.set()
    thread.join()
    during = [moment for moment in counted if begun < moment < ended]
    assert len(during) > (ended - begun) / 0.02

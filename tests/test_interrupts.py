"""Ctrl-C inside a callback that Python forgets the errors of."""

import contextlib
import gc
import signal
import sys
import threading
import time

import pytest

from credo.infer.progress import Progress
from credo.interrupts import kept_interrupts


def collect_and_wait():
    gc.collect()
    end = time.monotonic() + 5.0
    while time.monotonic() < end:
        time.sleep(0.01)


@pytest.mark.parametrize("work", [kept_interrupts, lambda: Progress(False), lambda: Progress(lambda share, text: None)])
def test_ctrl_c_inside_the_garbage_collector_is_not_lost(work, monkeypatch):
    """What is raised in its callbacks is printed and forgotten."""
    monkeypatch.setattr(sys, "unraisablehook", sys.unraisablehook)
    pressed = []

    def callback(phase, info):
        if phase == "start" and not pressed:
            pressed.append(time.monotonic())
            signal.raise_signal(signal.SIGINT)

    gc.callbacks.append(callback)
    try:
        with pytest.raises(KeyboardInterrupt), work():
            collect_and_wait()
    finally:
        gc.callbacks.remove(callback)
    assert pressed and time.monotonic() - pressed[0] < 4.0


def test_it_ends_a_wait_and_leaves_other_errors_to_who_heard_them(monkeypatch):
    heard = []
    monkeypatch.setattr(sys, "unraisablehook", lambda dropped: heard.append(dropped.exc_type))

    class Broken:
        def __init__(self, error):
            self.error = error

        def __del__(self):
            raise self.error

    began = time.monotonic()
    with contextlib.suppress(KeyboardInterrupt), kept_interrupts():
        Broken(ValueError())
        Broken(KeyboardInterrupt())
        threading.Event().wait(5.0)
    assert heard == [ValueError] and time.monotonic() - began < 4.0


def test_other_threads_leave_the_hook_alone():
    hook, found = sys.unraisablehook, []

    def work():
        with kept_interrupts():
            found.append(sys.unraisablehook)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert found == [hook]


def cut_off():
    try:
        signal.raise_signal(signal.SIGINT)
    except KeyboardInterrupt:
        raise NameError("name '_part' is not defined") from None


def test_an_error_that_follows_from_an_interrupt_is_one():
    """As an import that is cut off fails in its own words."""
    before = signal.getsignal(signal.SIGINT)
    with pytest.raises(KeyboardInterrupt) as caught, Progress(False):
        cut_off()
    assert isinstance(caught.value.__cause__, NameError) and signal.getsignal(signal.SIGINT) is before
    with pytest.raises(NameError), Progress(False):
        raise NameError("name '_part' is not defined")

"""Ctrl-C that is not lost: `with kept_interrupts(): …`.

Python drops an exception that is raised in a callback, of the garbage collector above all, and a `KeyboardInterrupt`
with it. jax has such a callback, which is entered so often that every fourth Ctrl-C of a second of work was lost. In an
import it can come out as another error, of a name that is not there: it is an interrupt all the same.

Only the standard library is imported, as commands are entered before anything heavy is.
"""

import _thread
import contextlib
import signal
import sys
import threading
import time
from collections.abc import Iterator
from typing import NoReturn

MOMENT = 0.01
"""Seconds after which a dropped interrupt comes again: by then the callback is through."""


@contextlib.contextmanager
def kept_interrupts() -> Iterator[None]:
    """Within, in the main thread, a `KeyboardInterrupt` that Python drops comes again a moment later.

    An error that follows from one does not take its place.
    """
    main = threading.main_thread()
    if threading.current_thread() is not main:
        yield
        return
    hook, handler = sys.unraisablehook, signal.getsignal(signal.SIGINT)
    pressed: list[int] = []
    inside: list[bool] = []

    def press(number: int, frame: object) -> NoReturn:
        pressed.append(number)
        raise KeyboardInterrupt

    def interrupt() -> None:
        time.sleep(MOMENT)
        while inside:  # on a busy machine; raised in the hook it would be dropped again
            time.sleep(MOMENT)
        # To the main thread by name: there it ends a wait, too.
        signal.pthread_kill(main.ident or 0, signal.SIGINT)

    def again(dropped: "sys.UnraisableHookArgs") -> None:
        if not issubclass(dropped.exc_type, KeyboardInterrupt):
            return hook(dropped)
        inside.append(True)
        try:
            _thread.start_new_thread(interrupt, ())  # threading.Thread would wait for it here
        finally:  # where Ctrl-C is pressed twice, too
            inside.clear()

    sys.unraisablehook = again
    if handler is signal.default_int_handler:
        signal.signal(signal.SIGINT, press)
    try:
        yield
    except Exception as error:
        if pressed:
            raise KeyboardInterrupt from error
        raise
    finally:
        if sys.unraisablehook is again:
            sys.unraisablehook = hook
        if signal.getsignal(signal.SIGINT) is press:
            signal.signal(signal.SIGINT, handler)

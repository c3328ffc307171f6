"""Ctrl-C that is not lost: `with kept_interrupts(): …`.

Python drops an exception that is raised in a callback, of the garbage collector above all, and a `KeyboardInterrupt`
with it. jax has such a callback, which is entered so often that every fourth Ctrl-C of a second of work was lost.

Only the standard library is imported, as commands are entered before anything heavy is.
"""

import contextlib
import signal
import sys
import threading
from collections.abc import Iterator

MOMENT = 0.01
"""Seconds after which a dropped interrupt comes again: by then the callback is through."""


@contextlib.contextmanager
def kept_interrupts() -> Iterator[None]:
    """Within, in the main thread, a `KeyboardInterrupt` that Python drops comes again a moment later."""
    main = threading.main_thread()
    if threading.current_thread() is not main:
        yield
        return
    hook = sys.unraisablehook

    def interrupt() -> None:
        # To the main thread by name: there it ends a wait, too.
        signal.pthread_kill(main.ident or 0, signal.SIGINT)

    def again(dropped: "sys.UnraisableHookArgs") -> None:
        if issubclass(dropped.exc_type, KeyboardInterrupt):
            threading.Timer(MOMENT, interrupt).start()
        else:
            hook(dropped)

    sys.unraisablehook = again
    try:
        yield
    finally:
        if sys.unraisablehook is again:
            sys.unraisablehook = hook

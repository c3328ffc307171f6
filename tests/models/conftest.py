"""What the tests of all models share."""

from collections.abc import Iterator

import pytest
from jax import monitoring


@pytest.fixture
def programs() -> Iterator[list[str]]:
    """Grows by one for each program that XLA compiles."""
    found: list[str] = []

    def listen(name: str, *_: object, **__: object) -> None:
        found.extend([name] * (name == "/jax/core/compile/backend_compile_duration"))

    monitoring.register_event_duration_secs_listener(listen)
    yield found
    monitoring.unregister_event_duration_listener(listen)

"""How hypothesis draws the examples of a test that a busy machine must not fail."""

from hypothesis import HealthCheck, settings


def examples(number: int) -> settings:
    """The same ones each time, however long each of them takes."""
    return settings(
        max_examples=number,
        derandomize=True,
        database=None,
        deadline=None,
        suppress_health_check=[HealthCheck.too_slow],
    )

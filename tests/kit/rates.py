"""What was seen of a rate: the most in any period, and how much of it was used."""

from collections.abc import Sequence


def figures(
    times: Sequence[float], limit: int, since: float, until: float, period: float = 1.0
) -> tuple[int, float]:
    """The most in any period; and of what was allowed between two moments, the share used."""
    during = [at for at in times if since <= at < until]
    return most_in_a_period(times, period), len(during) * period / (limit * (until - since))


def most_in_a_period(times: Sequence[float], period: float = 1.0) -> int:
    times, most, first = sorted(times), 0, 0
    for number, at in enumerate(times):
        while times[first] <= at - period:
            first += 1
        most = max(most, number - first + 1)
    return most


# Recipients a second, by mailer; None = as many as it takes.
MAILERS_PER_SECOND = {"five": 5, "fourteen": 14, "threehundred": 300, "free": None}

"""What the errors of providers' packages say: the status of an HTTP answer, and a word of it."""

import re
from collections.abc import Iterator, Mapping
from typing import Any

STATUSES = range(100, 600)
# anymail, requests and httpx; aiohttp; urllib.
ATTRIBUTES = ("status_code", "status", "code")
MOST_CAUSES = 10

# Amazon says these with a status of 400, as it does of a message that it refuses.
TOO_FAST = re.compile(
    "throttl|toomanyrequests|limitexceeded|ratexceeded|rateexceeded|slowdown|sendingpaused",
    re.IGNORECASE,
)
LATER = re.compile(
    "timeout|timedout|unavailable|internal|expired|notverifiedexception|accountsuspended",
    re.IGNORECASE,
)


def and_its_causes(error: BaseException) -> Iterator[BaseException]:
    """The error, and those that it was raised from."""
    one: BaseException | None = error
    for _ in range(MOST_CAUSES):
        if one is None:
            return
        yield one
        one = one.__cause__


def status_of(error: BaseException) -> int | None:
    """The status of the HTTP answer that an error, or a cause of it, tells of."""
    found = (_own_status(one) for one in and_its_causes(error))
    return next((status for status in found if status is not None), None)


def word_of(error: BaseException) -> str:
    """Amazon's name for what went wrong, else ''."""
    found = (_in_answer(one, "Error", "Code") for one in and_its_causes(error))
    return next((word for word in found if isinstance(word, str)), "")


def _own_status(error: BaseException) -> int | None:
    answer = getattr(error, "response", None)
    given = [getattr(error, name, None) for name in ATTRIBUTES]
    given += [getattr(answer, "status_code", None)]
    given += [_in_answer(error, "ResponseMetadata", "HTTPStatusCode")]
    return next((int(one) for one in given if isinstance(one, int) and one in STATUSES), None)


def _in_answer(error: BaseException, part: str, name: str) -> Any:
    """botocore gives what it was answered as a dict."""
    answer = getattr(error, "response", None)
    found = answer.get(part) if isinstance(answer, Mapping) else None
    return found.get(name) if isinstance(found, Mapping) else None

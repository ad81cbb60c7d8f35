"""Regions of a page that renew themselves."""

from typing import Any

from django.http import HttpRequest

HEADER = "X-DBQueue-Live"


def live(request: HttpRequest) -> dict[str, Any]:
    """For the context of a page that includes ``dbqueue/live.html``: a renewal leaves the messages
    to whoever loads the page."""
    return {"live": True} | ({"messages": ()} if HEADER in request.headers else {})

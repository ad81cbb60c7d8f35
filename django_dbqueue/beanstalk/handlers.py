"""Functions of the project's that work off tubes: ``@tube("thumbnails")``."""

from collections.abc import Callable
from typing import Any, TypeVar

from django.core.exceptions import ImproperlyConfigured

from ..exceptions import shown
from .protocol import TUBE, TUBE_MAX

Handler = Callable[[Any], object]
H = TypeVar("H", bound=Handler)

_HANDLERS: dict[str, Handler] = {}


def tube(name: str) -> Callable[[H], H]:
    """Have workers call a function with each ``TubeJob`` of a tube; it returns = the job is done.

    An exception is a failed attempt, as in ``run()`` of any queue table. Put it where Django loads
    it, as ``models.py`` or ``AppConfig.ready``. ``ImproperlyConfigured`` where the name is no
    tube's, or another function has it.
    """
    if not isinstance(name, str) or TUBE.fullmatch(name.encode()) is None:
        problem = f"must be 1 to {TUBE_MAX} of the letters of beanstalkd, not {shown(name)}"
        raise ImproperlyConfigured(f"the name of a tube {problem}")

    def register(handler: H) -> H:
        other = _HANDLERS.setdefault(name, handler)
        if (other.__module__, other.__qualname__) != (handler.__module__, handler.__qualname__):
            raise ImproperlyConfigured(
                f"tube {name}: {other.__module__}.{other.__qualname__} works it off already"
            )
        _HANDLERS[name] = handler
        return handler

    return register


def tubes_with_handlers() -> frozenset[str]:
    return frozenset(_HANDLERS)


def handler_of(name: str) -> Handler:
    return _HANDLERS[name]

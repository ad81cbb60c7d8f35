"""The verbs for unittest."""

import unittest
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any

from ..models import Job
from .inline import MONTH
from .verbs import Jobs

if TYPE_CHECKING:
    Base = unittest.TestCase
else:
    Base = object


class JobTestMixin(Base):
    """In front of ``TestCase`` or ``TransactionTestCase``: the verbs of ``Jobs``, on ``self``."""

    _jobs: Jobs | None = None

    def run(self, result: unittest.TestResult | None = None) -> unittest.TestResult | None:
        # Around setUp, which a test may override. What is skipped has no database.
        method = getattr(self, self._testMethodName)
        if any(getattr(one, "__unittest_skip__", False) for one in (type(self), method)):
            return super().run(result)
        with Jobs.watched() as self._jobs:
            return super().run(result)

    def run_all(self, *tables: type[Job] | str) -> int:
        return self._watched().run_all(*tables)

    def run_until_settled(self, *tables: type[Job] | str, within: float = MONTH) -> int:
        return self._watched().run_until_settled(*tables, within=within)

    def run_for(self, seconds: float, *tables: type[Job] | str) -> int:
        return self._watched().run_for(seconds, *tables)

    def assert_enqueued(self, target: Any, /, **values: Any) -> Any:
        return self._watched().assert_enqueued(target, **values)

    def assert_not_enqueued(self, target: Any, /, **values: Any) -> None:
        self._watched().assert_not_enqueued(target, **values)

    def captured_jobs(self, *models: type[Job]) -> AbstractContextManager[list[Any]]:
        return self._watched().captured_jobs(*models)

    def _watched(self) -> Jobs:
        if self._jobs is None:
            raise TypeError("JobTestMixin comes first: class ShopTest(JobTestMixin, TestCase)")
        return self._jobs

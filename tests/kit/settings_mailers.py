"""The test project with a mailer for each of four limits, all at one server."""

from testproject import settings as project
from testproject.settings import *  # noqa: F403
from tests.kit.rates import MAILERS_PER_SECOND

if hasattr(project, "MAILERS"):
    MAILERS = project.MAILERS | dict.fromkeys(MAILERS_PER_SECOND, project.MAILERS["smtp"])

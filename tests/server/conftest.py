"""One site for all tests of a file; each says with which setting it is served."""

import pytest

from tests.kit.site import Site


@pytest.fixture(scope="module")
def new_site(tmp_path_factory):
    """Its migrations are made, and not applied."""
    site = Site(tmp_path_factory.mktemp("site"))
    site.run("makemigrations", "kiosk", "-v0")
    return site


@pytest.fixture(scope="module")
def site(new_site):
    new_site.run("migrate", "-v0")
    return new_site

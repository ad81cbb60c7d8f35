from testproject.settings import *  # noqa: F403
from testproject.settings import INSTALLED_APPS

INSTALLED_APPS = ["grappelli", *INSTALLED_APPS]
ROOT_URLCONF = "tests.browser.themes.grappelli_urls"

"""The text of the package page; everything else is in setup.cfg."""

import re
from pathlib import Path

from setuptools import setup

# The page has no files of ours: a link to one becomes its path, which the sdist has.
LINK_TO_A_FILE = r"(?<!!)\[([^]]+)\]\((?!https?:)[^)]+\)"
PICTURE = r"!\[[^]]*\]\((?!https?:)[^)]+\)\n*"


def package_page() -> str:
    readme = Path(__file__).with_name("README.md").read_text(encoding="utf-8")
    return re.sub(LINK_TO_A_FILE, r"\1", re.sub(PICTURE, "", readme))


setup(long_description=package_page(), long_description_content_type="text/markdown")

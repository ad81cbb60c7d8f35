#!/usr/bin/env python3
"""Run the mail of other people's packages through the queue: what arrives is what they have sent.

    mail_packages.py [PACKAGE...]

Each is installed by pip, into build/mail-packages/; one that cannot be installed is left out, and
said. What their flows do, and how their messages are compared, is in tests/kit/mail_packages.py.
"""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
VENV = ROOT / "build" / "mail-packages"
PYTHON = str(VENV / "bin" / "python")
DJANGO = "Django>=5.2,<5.3"
# By the name of its flow, what pip installs.
PACKAGES = {
    "djoser": "djoser",
    "allauth": "django-allauth",
    "wagtail": "wagtail",
    "registration": "django-registration",
    "newsletter": "django-newsletter sorl-thumbnail",
    "invitations": "django-invitations",
    "two-factor": "django-two-factor-auth[phonenumbers]",
    "mail-templated": "django-mail-templated",
}


def install(requirement: str) -> bool:
    command = [PYTHON, "-m", "pip", "install", "-q", "--disable-pip-version-check"]
    return not subprocess.run([*command, DJANGO, *requirement.split()], check=False).returncode


def main(wanted: list[str]) -> int:
    if unknown := set(wanted) - PACKAGES.keys():
        raise SystemExit(f"unknown: {', '.join(sorted(unknown))}; known: {', '.join(PACKAGES)}")
    if not Path(PYTHON).exists():
        subprocess.run([sys.executable, "-m", "venv", VENV], check=True)
    chosen = {name: PACKAGES[name] for name in wanted or PACKAGES}
    found = [name for name, requirement in chosen.items() if install(requirement)]
    for name in chosen.keys() - set(found):
        print(f"{name}: cannot be installed with {DJANGO}", flush=True)
    flows = [PYTHON, "-W", "ignore", "-m", "tests.kit.mail_packages", *found]
    return subprocess.run(flows, cwd=ROOT, check=False).returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

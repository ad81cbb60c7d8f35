"""Serves the project until the standard input ends; its first line is the address."""

import sys

import django


def main():
    django.setup()
    from tests.browser.serving import Server

    server = Server()
    print(server.address, flush=True)
    sys.stdin.read()
    server.close()


if __name__ == "__main__":
    main()

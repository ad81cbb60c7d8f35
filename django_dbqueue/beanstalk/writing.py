"""What a client may leave unread, in our memory and in the kernel's, and we of what it says."""

import asyncio
import socket

from .reading import READ_AT_ONCE

# Bytes of answers. The kernel sends on what it has, so this slows nobody who reads.
UNREAD_MAX = 64 * 1024
UNSENT_MAX = 64 * 1024


def bound(transport: asyncio.Transport) -> None:
    """Have ``pause_writing`` called early: the kernel alone would hold megabytes."""
    transport.set_write_buffer_limits(high=UNREAD_MAX)
    if hasattr(transport, "set_read_buffer_limits"):  # that of TLS
        transport.set_read_buffer_limits(high=READ_AT_ONCE)
    connection = transport.get_extra_info("socket")
    is_tcp = connection.family in {socket.AF_INET, socket.AF_INET6}
    if is_tcp and hasattr(socket, "TCP_NOTSENT_LOWAT"):
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NOTSENT_LOWAT, UNSENT_MAX)

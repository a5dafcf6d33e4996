"""A socket that one thread talks over and another can close: a thread cannot be cancelled, and one that waits
for its peer holds up the end of its process."""

import socket
import threading
from contextlib import suppress


class InterruptibleSocket:
    """A thread's socket that another thread can hang up."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._hung_up = False
        self._socket: socket.socket | None = None

    def opened(self, connected: socket.socket) -> None:
        """Use this socket from now on. Raises ConnectionAbortedError (an OSError) after `hang_up`."""
        with self._lock:
            if self._hung_up:
                connected.close()
                raise ConnectionAbortedError
            self._socket = connected.dup()  # TLS takes the one that it is given for itself

    def hang_up(self) -> None:
        """Close the socket: reads and writes on it end, and nothing more is sent."""
        with self._lock:
            self._hung_up = True
            if self._socket is not None:
                with suppress(OSError):
                    self._socket.shutdown(socket.SHUT_RDWR)
                self._socket.close()
                self._socket = None

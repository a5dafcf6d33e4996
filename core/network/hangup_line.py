"""A connection that a thread speaks over, for as long as who waits for it wants: a thread cannot be ended,
and one that waits for its other side holds up the end of its process."""

import socket
import threading
from contextlib import suppress


class InterruptibleSocket:
    """What a thread speaks over, and another hangs up."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._hung_up = False
        self._socket: socket.socket | None = None

    def opened(self, connected: socket.socket) -> None:
        """It speaks over this now. Raises OSError where it shall not any more."""
        with self._lock:
            if self._hung_up:
                connected.close()
                raise ConnectionAbortedError
            self._socket = connected.dup()  # TLS takes the one that it is given for itself

    def hang_up(self) -> None:
        """Whoever reads from it or writes to it ends, and nothing of it goes out any more."""
        with self._lock:
            self._hung_up = True
            if self._socket is not None:
                with suppress(OSError):
                    self._socket.shutdown(socket.SHUT_RDWR)
                self._socket.close()
                self._socket = None

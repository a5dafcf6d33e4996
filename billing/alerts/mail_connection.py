"""A connection to the mail server: smtplib's, whose every wait is bounded and which reads what it is sent for
as long as that comes. This one is hung up on from outside, and an answer of many lines is none."""

import smtplib
import socket
import ssl
import threading
from contextlib import suppress
from typing import Any

REPLY_LINES_MAX = 500  # of a whole connection; a long EHLO has 20


class Line:
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


class _Replies:
    """The lines of a connection's answers, as far as they are bounded."""

    def __init__(self, file: Any) -> None:
        self._file = file
        self._left = REPLY_LINES_MAX

    def readline(self, size: int) -> bytes:
        """The next one."""
        self._left -= 1
        if self._left < 0:
            raise smtplib.SMTPServerDisconnected
        return self._file.readline(size)

    def close(self) -> None:
        """No more of them."""
        self._file.close()


class MailConnection(smtplib.SMTP):
    """`tls`: encrypted from its start."""

    def __init__(
        self, host: str, port: int, timeout: float, line: Line, tls: ssl.SSLContext | None = None
    ) -> None:
        self._line, self._tls = line, tls
        super().__init__(host, port, timeout=timeout)

    def _get_socket(self, host: str, port: int, timeout: float) -> socket.socket:
        """What smtplib connects with; its own SMTP_SSL does the same."""
        connected = socket.create_connection((host, port), timeout)
        self._line.opened(connected)
        return connected if self._tls is None else self._tls.wrap_socket(connected, server_hostname=host)

    def getreply(self) -> tuple[int, bytes]:
        """An answer's code and words."""
        if self.file is None and self.sock is not None:
            self.file = _Replies(self.sock.makefile("rb"))
        return super().getreply()

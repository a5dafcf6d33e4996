"""A connection to the mail server: smtplib's, which reads what it is sent for as long as that comes. This one
is hung up on from outside, and an answer of many lines is none."""

import smtplib
import socket
import ssl
from typing import Any

from core.network.interruptible_socket import InterruptibleSocket

REPLY_LINES_MAX = 500  # of a whole connection; a long EHLO has 20


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
        self,
        host: str,
        port: int,
        timeout: float,
        line: InterruptibleSocket,
        tls: ssl.SSLContext | None = None,
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

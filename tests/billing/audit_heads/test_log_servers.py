"""Log servers that heads are sent to, and what they may cost us."""

import asyncio

import pytest

from billing.audit_heads import stores
from billing.audit_heads.stores import HeadNotStored, SyslogHeadStore
from tests.support.holding_out import holding_out
from tests.support.patience import soon


async def test_a_log_server_that_holds_out_is_hung_up_on(monkeypatch: pytest.MonkeyPatch) -> None:
    """After a while, in whatever step: it keeps no thread, for which the end of the process would wait."""
    with monkeypatch.context() as at_once:
        at_once.setattr(stores, "SYSLOG_SECONDS_MAX", 0.0)
        with pytest.raises(HeadNotStored, match="not sent in 0 s"):
            await SyslogHeadStore("syslog", "127.0.0.1", 9).append(["x"])
    monkeypatch.setattr(stores, "SECONDS_MAX", 60.0)
    async with holding_out() as server:
        progress = asyncio.create_task(SyslogHeadStore("syslog+tls", "127.0.0.1", server.port).append(["x"]))
        await soon(server.came.wait())
        progress.cancel()
        await soon(server.left.wait())
        await asyncio.gather(progress, return_exceptions=True)
        await soon(asyncio.get_running_loop().shutdown_default_executor())

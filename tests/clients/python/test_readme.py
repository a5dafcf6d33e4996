"""What the README tells a customer to type works as it stands."""

import asyncio
import re
from pathlib import Path
from typing import Any

import pytest

import parley_client
from tests.support.patience import soon
from tests.support.scripted_peer import accepted_fields, scripted_peer

README = (Path(__file__).parents[3] / "clients" / "python" / "README.md").read_text()
BLOCKS = re.findall(r"```python\n(.+?)```", README, re.DOTALL)


async def test_the_first_example_runs(capsys: pytest.CaptureFixture[str]):
    """It prints the answer and how it ended."""
    async with scripted_peer() as peer:
        typed = BLOCKS[0].replace("http://127.0.0.1:8080", peer.url).replace("asyncio.run(main())", "")
        customer: dict[str, Any] = {}
        exec(compile(typed, "README.md", "exec"), customer)

        async def play() -> None:
            socket = await peer.socket()
            await socket.welcome()
            send = await socket.hear("send")
            assert (send["content"], send["options"]) == ("Name three rivers.", {"max_tokens": 64})
            await socket.tell("accepted", id=send["id"], g=1, **accepted_fields())
            await socket.delta("Rhine, Elbe, Oder", 1)
            await socket.end("Rhine, Elbe, Oder", 2)

        async with asyncio.TaskGroup() as both:
            both.create_task(play())
            both.create_task(soon(customer["main"]()))
    assert capsys.readouterr().out == "Rhine, Elbe, Oderstop 49 True\n"


@pytest.mark.parametrize("name", sorted(set(re.findall(r"`(?:raise )?([A-Z][A-Za-z]+)(?:\.\w+)?`", README))))
def test_what_it_names_can_be_imported(name: str):
    """Each class that it speaks of."""
    assert name == "None" or hasattr(parley_client, name)

"""What `npm pack` makes is what a program on Node installs and runs."""

import asyncio
import json
import os
import tarfile
from pathlib import Path
from typing import Any

from scripts.javascript import find_node
from tests.support.patience import START_SECONDS, finished, soon
from tests.support.scripted_peer import Peer, scripted_peer

PACKAGE = Path(__file__).parents[3] / "clients" / "js"
MODULES = {
    "acks",
    "ai_sdk",
    "answer",
    "answer_stream",
    "causes",
    "client",
    "connection",
    "conversations",
    "gateway_clock",
    "ids",
    "in_time",
    "kept_answers",
    "link",
    "prompts",
    "readings",
    "sha256",
    "stored",
    "ui_chunks",
    "ui_messages",
    "waiting",
}
TYPES = {
    "ai_sdk",
    "answer",
    "causes",
    "client",
    "connection",
    "conversations",
    "frames",
    "kept_answers",
    "link",
    "prompts",
    "ui_chunks",
    "ui_messages",
}
# `bare`: a runtime without sockets of its own, as Node 20 is.
CUSTOMER = """
import { Client } from "parley-client";
import { ParleyTransport } from "parley-client/ai-sdk"; // without the SDK

const [url, bare] = process.argv.slice(2);
const { WebSocket } = globalThis;
if (bare) delete globalThis.WebSocket;
const token = async () => "ticket";
const missing = [];
for (const options of [{ token, url }, { token, WebSocket }]) {
  try { new Client(options); new ParleyTransport(options); } catch (error) { missing.push(error.message); }
}
const onChange = (answer, change) => { if (change === "text") throw new Error("the customer's own fault"); };
const client = new Client({ token, url, onChange, backoffMs: 0, ...(bare ? { WebSocket } : {}) });
client.connect();
const answer = await client.send({ content: "Name a river." });
await answer.done;
const { text, reason, verified } = answer;
console.log(JSON.stringify({ text, reason, verified, missing, reconnects: client.counters.reconnects }));
client.close();
"""


def unpacked(folder: Path) -> set[str]:
    """Pack it, and install what came of it into the folder. Its files."""
    node, npm = find_node()
    environment = os.environ | {
        "PATH": f"{Path(node[0]).parent}:{os.environ['PATH']}",
        "TMPDIR": str(folder),
        "npm_config_cache": str(folder / "cache"),
    }
    done = finished([*npm, "pack", "--silent", str(PACKAGE)], START_SECONDS, cwd=folder, env=environment)
    assert done.returncode == 0, done.stderr
    with tarfile.open(folder / done.stdout.strip()) as packed:
        packed.extractall(folder / "node_modules", filter="data")
    (folder / "node_modules" / "package").rename(folder / "node_modules" / "parley-client")
    installed = folder / "node_modules" / "parley-client"
    return {str(path.relative_to(installed)) for path in installed.rglob("*") if path.is_file()}


async def test_what_npm_packs_runs_on_node(tmp_path: Path):
    """The modules, their types, the README and the licence. An answer goes on over a cut, a fault of the
    listener's is told and breaks nothing, and the program ends by itself; also where the socket's class is
    given."""
    sources = {f"src/{name}.js" for name in MODULES} | {f"src/{name}.d.ts" for name in TYPES}
    assert unpacked(tmp_path) == sources | {"LICENSE", "package.json", "README.md"}
    (tmp_path / "customer.mjs").write_text(CUSTOMER)
    for bare, missing in (("", ["no page here"]), ("bare", ["no WebSocket here", "no page here"])):
        said = await used(tmp_path, bare)
        assert [each.partition(":")[0] for each in said.pop("missing")] == missing
        assert said == {"text": "The Rhine", "reason": "stop", "verified": True, "reconnects": 1}


async def used(folder: Path, bare: str) -> dict[str, Any]:
    """What the customer's program says, played to its end."""
    node, _ = find_node()
    pipe = asyncio.subprocess.PIPE
    async with scripted_peer() as peer:
        url = f"{peer.url.replace('http', 'ws')}/v1/ws"
        command = [*node, "customer.mjs", url, bare]
        running = await asyncio.create_subprocess_exec(*command, cwd=folder, stdout=pipe, stderr=pipe)
        saying, playing = asyncio.create_task(running.communicate()), asyncio.create_task(played(peer))
        try:
            # A program that ends early is not waited for.
            await soon(asyncio.wait([saying, playing], return_when=asyncio.FIRST_COMPLETED), START_SECONDS)
            if playing.done():
                playing.result()
            out, err = await soon(saying, START_SECONDS)
        finally:
            playing.cancel()
            if running.returncode is None:
                running.kill()
            await asyncio.gather(saying, playing, return_exceptions=True)
    assert running.returncode == 0, err.decode()
    assert "the customer's own fault" in err.decode()
    return json.loads(out)


async def played(peer: Peer) -> None:
    """An answer, cut once."""
    socket = await peer.socket()
    assert (await socket.welcome())["agent"]["name"] == "parley-js"
    id = await socket.accept()
    await socket.delta("The ", 1)
    await socket.hear("ack")
    peer.cut()
    socket = await peer.socket()
    listed = {"id": id, "g": 1, "epoch": 1, "from": 2, "head": 1, "state": "running"}
    hello = await socket.welcome(requests=[listed], resumed="full")
    assert hello["resume"]["requests"] == [{"id": id, "epoch": 1, "o": 1}]
    await socket.delta("Rhine", 2, p=4)
    await socket.end("The Rhine", 3)


def test_both_clients_have_one_version():
    """They speak one protocol, and go out together."""
    version = json.loads((PACKAGE / "package.json").read_text())["version"]
    assert f'version = "{version}"' in (PACKAGE.parent / "python" / "pyproject.toml").read_text()

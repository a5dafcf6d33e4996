"""The published TypeScript types of the browser's client."""

import os
import re
import subprocess
import sys
from pathlib import Path

import httpx
import pytest

from tests.support.scripted_peer import scripted_peer

ROOT = Path(__file__).parent.parent.parent
TYPES = ROOT / "clients" / "js" / "src"
GOOD = """
import { Answer, Client, ProtocolError, SignedOut, type Trace } from "./client.js";
import type { ServerMessage } from "./frames.js";

const client = new Client({
  token: async () => { if (!navigator.onLine) throw new SignedOut("no"); return "ticket"; },
  trace: true,
  WebSocket: globalThis.WebSocket,
  onChange: async (answer: Answer, change, trace: Trace | undefined) => {
    if (change === "end") console.log(answer.usage?.total, answer.verified === true);
    await fetch(`/${answer.id}`, { body: String(trace?.ms), method: "POST" });
  },
  onError: (error: ProtocolError) => console.log(error.code, error.afterMs ?? 0),
});
client.connect();
const answer: Answer = await client.send({ messages: [{ role: "user", content: "Hello" }] });
const total: number | undefined = (await answer.done).usage?.total;
console.log(total, client.counters.verified, client.state.state === "stopped" && client.state.code);
function nano(frame: ServerMessage): number {
  return frame.t === "end" ? frame.usage.total + (frame.cost?.nano ?? 0) : frame.t === "ping" ? 1 : 0;
}
"""
SHOP = """
import type { ChatTransport, UIMessage } from "ai";
import { newChatId, type ParleyMetadata, ParleyTransport } from "./ai_sdk.js";

const parley = new ParleyTransport({ token: async () => "ticket", body: { model: "large" }, stored: true });
const plain: ChatTransport<UIMessage> = parley;
const transport: ChatTransport<UIMessage<ParleyMetadata>> = parley;
const messages: UIMessage<ParleyMetadata>[] = await parley.load(newChatId());
console.log(plain, transport, messages[0]?.metadata?.usage?.total);
"""
BAD = (
    GOOD
    + 'answer.status === "asleep"; client.send({ text: "Hello" });\n'
    + 'function late(frame: ServerMessage) { return frame.t === "end" && frame.cost.nano; }\n'
)
IMPORT = re.compile(r"^import .+\n", re.MULTILINE)
README = (TYPES.parent / "README.md").read_text()


def readme() -> str:
    """What the README tells to type, as one module."""
    first, *others = re.findall(r"```js\n(.+?)```", README, re.DOTALL)
    given = "declare function show(text: string, change: string): void; declare const keptId: string;\n"
    given += "declare const pass: string;\n"
    imports = "".join(line for each in others for line in IMPORT.findall(each))
    bodies = (IMPORT.sub("", each) for each in others)
    blocks = "".join(f"export async function later{at}() {{\n{body}}}\n" for at, body in enumerate(bodies))
    return (imports + first).replace('"parley-client"', '"./client.js"') + given + blocks


def typed(folder: Path, options: tuple[str, ...] = (), **sources: str) -> list[str]:
    """What the TypeScript of the lock says about a customer's modules beside the published types."""
    for path in TYPES.glob("*.d.ts"):
        (folder / path.name).write_text(path.read_text())
    modules = [folder / f"{name}.ts" for name in sources]
    for module in modules:
        module.write_text(sources[module.stem])
    strict = ["--strict", "--noEmit", "--target", "es2022", "--module", "es2022", "--lib", "es2022,dom"]
    tsc = [sys.executable, str(ROOT / "scripts" / "javascript.py"), "tsc", *strict, *options]
    said = _ran([*tsc, "--moduleResolution", "bundler", *map(str, modules)], folder).stdout
    return [line for line in said.splitlines() if ": error TS" in line]


def _ran(command: list[str], folder: Path) -> subprocess.CompletedProcess[str]:
    """Node keeps what it compiled among temporary files: these go with the test."""
    environment = {**os.environ, "TMPDIR": str(folder)}
    return subprocess.run(command, capture_output=True, text=True, check=False, env=environment)


def test_the_published_types_are_those_of_the_source(tmp_path: Path):
    """Whoever changes the client's interface writes its types again."""
    command = [sys.executable, str(ROOT / "scripts" / "client_types.py"), "--check"]
    done = _ran(command, tmp_path)
    assert (done.returncode, done.stderr) == (0, "")


def test_a_customers_module_is_checked_by_them(tmp_path: Path):
    """A module that uses the client well compiles, and so does what the README tells to type; a wrong status,
    a wrong field, and a cost that perhaps nobody told do not."""
    wrong = typed(tmp_path, good=GOOD, readme=readme(), bad=BAD)
    expected = ("TS2367", "'text' does not exist in type 'Message'", "'frame.cost' is possibly 'undefined'")
    assert len(wrong) == len(expected), wrong
    for line, problem in zip(wrong, expected, strict=True):
        assert "bad.ts" in line
        assert problem in line


def test_the_transport_is_one_to_the_sdks_own_types(tmp_path: Path):
    """A customer's module with the real `ai` compiles; one whose transport lacks its methods does not."""
    (tmp_path / "node_modules").symlink_to(ROOT / "node_modules")
    wrong = SHOP.replace("ChatTransport<UIMessage> = parley", "ChatTransport<UIMessage> = { ...parley }")
    [line] = typed(tmp_path, shop=SHOP, wrong=wrong, options=("--skipLibCheck",))
    assert "wrong.ts" in line


@pytest.mark.parametrize("name", [path.name for path in TYPES.glob("*.d.ts")])
async def test_they_are_served_beside_the_client(name: str):
    """An editor that reads /web/client/client.js finds its types at the same place."""
    async with scripted_peer() as peer, httpx.AsyncClient() as http:
        served = await http.get(f"{peer.url}/web/client/{name}")
    assert (served.status_code, served.text) == (200, (TYPES / name).read_text())

// Programs that make a key's first call, with the address of the tenant's gateways. Pure.

export const LANGUAGES = ["Python", "JavaScript", "curl"] as const;
export type Language = (typeof LANGUAGES)[number];

/** A secret as a page shows it within other text: its prefix. */
export const shortSecret = (secret: string) => `${secret.split("_").slice(0, 2).join("_")}_…`;

/** The languages of programs that may use a key; `inPages`: only web pages may. */
export const languagesOf = (inPages: boolean): readonly Language[] => (inPages ? ["JavaScript"] : LANGUAGES);

/** A program in this language. `gateway`: an address without a slash at its end; `inPages`: it stands in a web page. */
export function snippetOf(language: Language, gateway: string, secret: string, inPages = false): string {
  return PROGRAMS[language](gateway, secret, inPages);
}

const PROGRAMS: Record<Language, (gateway: string, secret: string, inPages: boolean) => string> = {
  Python: (gateway, secret) => `import asyncio
from parley_client import Client

async def main() -> None:
    async with Client("${gateway}", "${secret}") as client:
        answer = await client.send("Name three rivers.")
        async for text in answer:
            print(text, end="", flush=True)

asyncio.run(main())`,
  JavaScript: (gateway, secret, inPages) => `import { Client } from "parley-client";

const client = new Client({
  url: "${gateway.replace(/^http/, "ws")}/v1/ws",
  token: async () => "${secret}", // ${inPages ? "readable in the page" : "on a server: never in a browser"}
});
client.connect();
const answer = await client.send({ content: "Name three rivers." });
await answer.done;
console.log(answer.text);
client.close();`,
  curl: (gateway, secret) => `curl ${gateway}/v1/models \\
  -H "Authorization: Bearer ${secret}"`,
};

/** What is to know of a program; empty for most. */
export function noteOf(language: Language, inPages = false): string {
  if (inPages) return "Whoever runs the gateway lists the sites whose pages it lets in (PARLEY_PUBLIC_ORIGINS). Set limits and a budget for the key: a program can pretend to be a page.";
  return language === "curl" ? "Lists the models that the key may ask, at no cost. Answers come over Python and JavaScript." : "";
}

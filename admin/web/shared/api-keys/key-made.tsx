// A key that was made just now: its secret, which is shown this once, programs that use it, and whether one did.

import { Button } from "@mantine/core";
import { useEffect, useRef, useState, type ReactNode } from "react";
import { StateShape } from "../components/state";
import { api, answered, type Schemas } from "../api";
import { useLive } from "../live";
import { useSession } from "../session";
import { useZone } from "../zone";
import { zonedClock } from "../zoned";
import { originWords } from "./key-words";
import { Programs } from "./programs";
import { shortSecret } from "./snippets";
import "./api-keys.css";

type NewKey = Schemas["NewKey"];

export function KeyMade({ made, tenant, children }: { made: NewKey; tenant: string; children?: ReactNode }) {
  const { me } = useSession();
  if (!made.secret) return <p>The key was made by an earlier call, which showed it. Rotate it where nobody has its secret.</p>;
  return (
    <div className="key-made">
      <p>This is the only time it is shown. Copy it now; afterwards it can only be rotated.</p>
      <Secret secret={made.secret} />
      {children}
      {made.key.scopes.includes("chat") && me.gateway && <Snippets gateway={me.gateway} secret={made.secret} tenant={tenant} origins={made.key.origins} />}
      <FirstCall of={made.key} />
    </div>
  );
}

function Secret({ secret }: { secret: string }) {
  const [said, setSaid] = useState("Copy");
  const button = useRef<HTMLButtonElement>(null);
  useEffect(() => button.current?.focus(), []);
  const copy = () => void navigator.clipboard.writeText(secret).then(() => setSaid("Copied"), () => setSaid("Select it to copy"));
  return (
    <div className="key-secret" role="group" aria-label="The new key">
      <code className="secret">{secret}</code>
      <Button ref={button} size="xs" onClick={copy}>{said}</Button>
    </div>
  );
}

type Tried = { gateway: string; secret: string; tenant: string; origins: readonly string[] };

function Snippets({ gateway, secret, tenant, origins }: Tried) {
  return (
    <div className="key-snippets">
      {origins.length ? <p className="soft">It works in {originWords(origins)}, and nowhere else:</p> : <p className="soft">Try it. The address is that of <bdi>{tenant}</bdi>:</p>}
      <Programs gateway={gateway} secret={secret} shown={shortSecret(secret)} of="the program, with the whole key" inPages={origins.length > 0} />
    </div>
  );
}

/** Waits for the first answer that the key got. */
function FirstCall({ of }: { of: Schemas["ApiKeyFacts"] }) {
  const zone = useZone();
  const path = { tenant: of.tenant, key: of.key };
  const { data } = useLive(["first call", of.key], () => answered(api.GET("/api/tenants/{tenant}/keys/{key}", { params: { path } })));
  if (!data?.last_used) return <p role="status" className="soft">Waiting for its first call…</p>;
  return <p role="status" className="state"><StateShape state="well" /> Its first call came: it works. <span className="soft tabular">{zonedClock(data.last_used, zone.name)} {zone.told}</span></p>;
}

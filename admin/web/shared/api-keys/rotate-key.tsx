// Rotating a key with an overlap, in which the old one still works, and how that goes.

import { Button, Modal, NativeSelect } from "@mantine/core";
import { useState } from "react";
import { EditDialog, terms } from "../components/edit-dialog";
import { Facts } from "../components/facts";
import { api, answered } from "../api";
import { useLive } from "../live";
import { useSession } from "../session";
import { useTimes } from "../zone";
import { KeyMade } from "./key-made";
import { keyName, originWords, servedWords, type Key } from "./key-words";
import { RevokeKey } from "./revoke-key";
import "./api-keys.css";

const OVERLAPS = [[0, "none: the old one ends now"], [1, "1 hour"], [24, "1 day"], [168, "7 days"], [720, "30 days"]] as const;

export function RotateKey({ tenant, called = tenant, of, onClose }: { tenant: string; called?: string; of: Key; onClose: () => void }) {
  const at = useTimes();
  const [hours, setHours] = useState(24);
  const path = { tenant, key: of.key };
  return (
    <EditDialog
      title={`Rotate ${keyName(of)}`}
      save="Rotate"
      onClose={onClose}
      size={520}
      typed={JSON.stringify({ overlap_hours: hours })}
      send={(how) => answered(api.POST("/api/tenants/{tenant}/keys/{key}/rotate", { params: { path, ...terms(how) }, body: { overlap_hours: hours, reason: how.reason } }))}
      preview={({ key }) => <Facts boxed label="The key after it" facts={[["The new one may", key.scopes.join(", ")], ["Used by", originWords(key.origins)], ["It ends", key.expires ? at(key.expires) : "never"]]} />}
      saved={(made) => (
        <KeyMade made={made} tenant={called}>
          {hours > 0 && <OldAndNew tenant={tenant} old={of.key} fresh={made.key} />}
        </KeyMade>
      )}
      savedTitle={`Your new key ${of.name}`}
      closes="I have stored it"
      stays
    >
      {(errorOf) => <NativeSelect label="Overlap" description="So long the old one still works." value={String(hours)} onChange={(event) => setHours(Number(event.currentTarget.value))} data={OVERLAPS.map(([value, label]) => ({ value: String(value), label }))} error={errorOf("overlap_hours")} data-autofocus />}
    </EditDialog>
  );
}

/** How a rotation goes: when the old one ends, and whether somebody still uses it. */
export function Rotation({ tenant, old, olds, fresh, onClose }: { tenant: string; old: Key; olds: readonly Key[]; fresh: Key; onClose: () => void }) {
  const { may } = useSession();
  const [ending, setEnding] = useState(false);
  if (ending) return <RevokeKey tenant={tenant} of={fresh} olds={olds} first="old" onClose={onClose} />;
  return (
    <Modal opened onClose={onClose} title={`Rotation of ${keyName(fresh)}`} size={520}>
      <div className="edit">
        <OldAndNew tenant={tenant} old={old.key} fresh={fresh} />
        <div className="edit-foot">
          {may("keys.revoke") && <Button variant="default" onClick={() => setEnding(true)}>End the old one now…</Button>}
          <Button onClick={onClose} data-autofocus>Done</Button>
        </div>
      </div>
    </Modal>
  );
}

type Bars = { tenant: string; old: string; fresh: { prefix: string; created: string | null } };

/** A bar each for the old and the new key, and what the old one served of late. */
function OldAndNew({ tenant, old: id, fresh }: Bars) {
  const at = useTimes();
  const { data: old } = useLive(["key in use", id], () => answered(api.GET("/api/tenants/{tenant}/keys/{key}", { params: { path: { tenant, key: id } } })), 5000);
  if (!old) return <span className="skeleton" />;
  const [from, until, now] = [new Date(fresh.created ?? 0).getTime(), new Date(old.expires ?? 0).getTime(), Date.now()];
  const span = Math.max(1, until - from);
  const place = (time: number) => 15 + (70 * (time - from)) / span;
  const safe = !old.requests && old.state === "rotated";
  return (
    <div role="group" aria-label="Old and new key">
      <div className="key-bars">
        <span>Old <code>{old.prefix}</code></span>
        <span className="key-bar" role="img" aria-label={`The old key works until ${at(old.expires)}`}><span style={{ left: 0, width: `${place(until)}%` }} /></span>
        <span className="note">until {at(old.expires)}{old.state === "expired" ? ", which is over" : ""}</span>
        <span>New <code>{fresh.prefix}</code></span>
        <span className="key-bar new" role="img" aria-label={`The new key works since ${at(fresh.created)}`}><span style={{ left: `${place(from)}%`, right: 0 }} /></span>
        <span className="note">since {at(fresh.created)}{now < until ? "; both work now" : ""}</span>
      </div>
      <p role="status" className="key-served">{servedWords(old, "The old key")}{safe ? ": it is safe to end." : old.requests ? `, the last at ${at(old.last_used)}: somebody still has it.` : "."}</p>
    </div>
  );
}

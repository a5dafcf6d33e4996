// A tenant's keys: their state, and what may be done with each.

import { useState } from "react";
import { Command } from "../../../shared/components/command";
import { DataTable, type Column } from "../../../shared/components/data-table";
import { LoadMore, usePages } from "../../../shared/components/load-more";
import { Section } from "../../../shared/components/section";
import { StateShape, type StateName } from "../../../shared/components/state";
import { api, answered } from "../../../shared/api";
import { lasting, moment } from "../../../shared/format";
import { useSession } from "../../../shared/session";
import { CreateKey } from "../../../shared/api-keys/create-key";
import { EditKey } from "../../../shared/api-keys/edit-key";
import { oldsOf, shortOrigins, type Key } from "../../../shared/api-keys/key-words";
import { RevokeKey } from "../../../shared/api-keys/revoke-key";
import { RotateKey } from "../../../shared/api-keys/rotate-key";
import { useProjectNames } from "../../../shared/project-names";
import { useScrollTo } from "./scroll-to";
import { date } from "../../../shared/limits/limit-words";

export function useKeysOf(tenant: string) {
  const { may } = useSession();
  const none = { items: [] as Key[], next: null };
  return usePages<Key>(["keys", tenant], async (after) => (!may("keys.list") ? none : answered(api.GET("/api/tenants/{tenant}/keys", { params: { path: { tenant }, query: { after } } }))));
}

const SHAPES: Record<Key["state"], StateName> = { active: "well", rotated: "warn", expired: "cancelled", revoked: "cancelled" };

export function Keys({ tenant, keys: { items, error, more } }: { tenant: string; keys: ReturnType<typeof useKeysOf> }) {
  const { may } = useSession();
  const [opened, setOpened] = useState<{ what: "create" } | { what: "edit" | "rotate" | "revoke"; key: Key } | null>(null);
  const close = () => setOpened(null);
  const projects = useProjectNames(tenant);
  useScrollTo("keys", items !== undefined);
  const columns: Column<Key>[] = [
    { title: "Key", cell: (key) => <><b title={key.prefix}>{key.name || key.prefix}</b>{key.origins.length > 0 && <span className="soft" title={key.origins.join("\n")}> <bdi>{shortOrigins(key.origins)}</bdi></span>}</> },
    { title: "Starts with", narrow: "hide", cell: (key) => <code>{key.prefix}</code> },
    { title: "Project", cell: (key) => projects.get(key.project) ?? key.project },
    { title: "User", phone: "hide", cell: (key) => (key.shared ? "shared by browsers" : key.user || "any that it names") },
    { title: "State", phone: "end", cell: (key) => <span className="state"><StateShape state={SHAPES[key.state]} /> {stateOf(key)}</span> },
    { title: "Last used", right: true, narrow: "hide", cell: (key) => <span title={key.last_used ? `in the hour from ${moment(key.last_used)}` : "not in 100 days"}>{date(key.last_used)}</span> },
    { title: "Ends", right: true, cell: (key) => <span title={key.expires ? moment(key.expires) : ""}>{date(key.expires)}</span> },
    {
      title: "",
      number: true,
      cell: (key) => key.state === "active" && (
        <span className="row-links">
          {may("keys.edit") && <button type="button" className="link" aria-label={`Edit ${key.name || key.prefix}`} onClick={() => setOpened({ what: "edit", key })}>Edit…</button>}
          {may("keys.rotate") && <button type="button" className="link" aria-label={`Rotate ${key.name || key.prefix}`} onClick={() => setOpened({ what: "rotate", key })}>Rotate…</button>}
          {may("keys.revoke") && <button type="button" className="link" aria-label={`Revoke ${key.name || key.prefix}`} onClick={() => setOpened({ what: "revoke", key })}>Revoke…</button>}
        </span>
      ),
    },
  ];
  const end = may("keys.create") && <button type="button" className="link" onClick={() => setOpened({ what: "create" })}>Create key…</button>;
  return (
    <div id="keys" className="linked">
      <Section title="Keys" end={end}>
        {items ? <DataTable label="Keys" columns={columns} rows={items} keyOf={(key) => key.key} /> : error ? <p className="soft">{error.detail}</p> : <span className="skeleton" />}
        <LoadMore more={more} what="keys" />
      </Section>
      {opened?.what === "create" && <CreateKey tenant={tenant} onClose={close} />}
      {opened?.what === "edit" && <EditKey tenant={tenant} of={opened.key} onClose={close} />}
      {opened?.what === "rotate" && <RotateKey tenant={tenant} of={opened.key} onClose={close} />}
      {opened?.what === "revoke" && <RevokeKey tenant={tenant} of={opened.key} olds={oldsOf(opened.key, items ?? [])} onClose={close} />}
    </div>
  );
}

const SOON_S = 30 * 86_400;

function stateOf(key: Key): string {
  if (key.state !== "active") return key.state;
  const left = key.expires ? (new Date(key.expires).getTime() - Date.now()) / 1000 : Infinity;
  return left < SOON_S ? `ends in ${lasting(Math.max(0, left))}` : "active";
}

/** What a tenant without a key shows. */
export function NoKey({ tenant }: { tenant: string }) {
  return (
    <div className="section empty">
      <h2>No key, so no requests yet</h2>
      <p>A key lets a program speak for {tenant}. Create one above, or with the command; it is shown once.</p>
      <Command text={`parley keys create --tenant ${/^[\w.-]+$/.test(tenant) ? tenant : `'${tenant.replaceAll("'", "'\\''")}'`}`} />
    </div>
  );
}

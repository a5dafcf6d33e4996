// The tenant's keys: what each may, when it was used, what it spent; and what is done with them.

import { ActionIcon, Button, Menu } from "@mantine/core";
import { getRouteApi, Link } from "@tanstack/react-router";
import { Ellipsis } from "lucide-react";
import { useState } from "react";
import { DataTable, type Column } from "../../../shared/components/data-table";
import { LoadMore, usePages, type More } from "../../../shared/components/load-more";
import { Section } from "../../../shared/components/section";
import { Unanswered } from "../../../shared/components/unanswered";
import { api, answered } from "../../../shared/api";
import { centsText, centsOf, count } from "../../../shared/format";
import { CreateKey } from "../../../shared/api-keys/create-key";
import { EditKey } from "../../../shared/api-keys/edit-key";
import { keyName, shortOrigins, type Key } from "../../../shared/api-keys/key-words";
import { RevokeKey } from "../../../shared/api-keys/revoke-key";
import { RotateKey, Rotation } from "../../../shared/api-keys/rotate-key";
import { useLive } from "../../../shared/live";
import { useProjectNames } from "../../../shared/project-names";
import { useSession } from "../../../shared/session";
import { useZone } from "../../../shared/zone";
import { zonedMinute } from "../../../shared/zoned";
import { NameSearch } from "../../name-search";
import { OldFigures } from "../../old-figures";
import { ReadOnly } from "../../read-only";
import { useTenant } from "../../tenant";
import { endedKeys, endsSoon, keyRows, spentOf, summary, sumRows, unusedDays, unusedWords, usedWords, type KeyRow, type Row } from "./key-rows";
import { keySearchOf } from "./search-params";
import "./keys.css";

const route = getRouteApi("/keys");
type Opened = { what: "create" } | { what: "edit" | "rotate"; key: Key } | { what: "revoke"; key: Key; olds: Key[]; first: "both" | "old" } | { what: "rotation"; row: KeyRow };

export function KeysPage() {
  const { id, name: called } = useTenant();
  const { name = "" } = route.useSearch();
  const { may } = useSession();
  const [opened, setOpened] = useState<Opened | null>(null);
  const { items, more, asked } = usePages<Key>(["keys", id, name], (after) => answered(api.GET("/api/tenants/{tenant}/keys", { params: { path: { tenant: id }, query: { name, after, limit: 1000 } } })), 10_000);
  const spent = useSpent(id);
  const zone = useZone().name;
  const rows = items && keyRows(items, spent ?? null);
  const idle = rows && !name ? summary(rows, Date.now(), !more.has) : "";
  return (
    <>
      <header className="page-head">
        <div><h1 className="page-title">Keys</h1><p className="soft">{may("usage.statement") ? "Amounts in USD, this month. " : ""}Times are those of {zone}. {idle}</p></div>
        {may("keys.create") && <Button onClick={() => setOpened({ what: "create" })}>New key</Button>}
      </header>
      <OldFigures />
      <ReadOnly operation="keys.create" what="make, rotate or delete keys" />
      <Section title="All keys">
        <p className="note">Only a hash is kept of each: a lost key is rotated, not shown again.</p>
        {(name || (rows?.length ?? 0) >= FILTERED_FROM) && <NameFilter />}
        {rows ? <KeyTable rows={rows} more={more} spent={spent} zone={zone} onOpen={setOpened} /> : <Unanswered asked={asked} />}
      </Section>
      {items && <Ended keys={endedKeys(items)} zone={zone} />}
      <Dialogs opened={opened} called={called} onClose={() => setOpened(null)} />
    </>
  );
}

/** What each key cost this month; undefined where it is not this member's to know. */
function useSpent(tenant: string) {
  const { may } = useSession();
  const money = may("usage.statement");
  const ask = async () => (money ? spentOf(await answered(api.GET("/api/tenants/{tenant}/statement", { params: { path: { tenant }, query: { by: "key", limit: 1000 } } }))) : null);
  return useLive(["spent by key", tenant], ask, 10_000).data ?? undefined;
}

type Table = { rows: KeyRow[]; more: More; spent: ReturnType<typeof useSpent>; zone: string; onOpen: (opened: Opened) => void };
const FILTERED_FROM = 20;
const SHOWN = 100;

function KeyTable({ rows, more, spent, zone, onOpen }: Table) {
  const { id } = useTenant();
  const projects = useProjectNames(id);
  const { name = "" } = route.useSearch();
  const { may } = useSession();
  const [shown, setShown] = useState(SHOWN);
  if (!rows.length && !name) return <NoKeys onCreate={() => onOpen({ what: "create" })} />;
  const seen = rows.slice(0, shown);
  const columns: Column<Row>[] = [
    { title: "Key", cell: (row) => (row.kind === "sum" ? <SumTitle row={row} /> : <KeyTitle row={row} zone={zone} onRotation={() => onOpen({ what: "rotation", row })} />) },
    { title: "Begins with", narrow: "hide", cell: (row) => row.kind === "key" && <code>{row.key.prefix}</code> },
    { title: "Project", cell: (row) => row.kind === "key" && <bdi>{projects.get(row.key.project) ?? row.key.project}</bdi> },
    { title: "May", narrow: "hide", cell: (row) => row.kind === "key" && row.key.scopes.join(", ") },
    { title: "Last used", cell: (row) => row.kind === "key" && <span className="nowrap" title={row.used ? `in the hour that began ${zonedMinute(row.used, zone)} (${zone})` : ""}>{usedWords(row.used, zone, Date.now())}</span> },
  ];
  if (spent) columns.push({ title: "Spent", number: true, phone: "end", cell: (row) => <span className={row.kind === "sum" ? row.tone : ""}>{centsText(row.kind === "sum" ? row.cents : centsOf(row.spent))}</span> });
  if (may("keys.rotate")) columns.push({ title: "", number: true, cell: (row) => row.kind === "key" && <Actions of={row.key} olds={row.olds} onOpen={onOpen} /> });
  const feet = spent && !name && rows.length <= shown ? sumRows(rows, spent, !more.has) : [];
  return (
    <>
      {seen.length ? <DataTable label="Keys" columns={columns} rows={seen} foot={feet} keyOf={(row) => row.id} /> : <div className="empty"><h2>No key matches</h2><Link to="/keys" search={{}}>Clear the filter</Link></div>}
      {rows.length > shown ? <p className="load-more"><span className="soft">{count(shown)} of {count(rows.length)} keys{more.has ? " and more" : ""}{spent ? ", the dearest first" : ""}. </span><Button variant="default" onClick={() => setShown(shown + SHOWN)}>Show {SHOWN} more</Button></p> : <LoadMore more={more} what="keys" />}
    </>
  );
}

function NameFilter() {
  const { name = "" } = route.useSearch();
  const navigate = route.useNavigate();
  return <NameSearch what="keys" label="Name or project contains" value={name} onChange={(text) => void navigate({ search: (was) => keySearchOf({ ...was, name: text }), replace: true })} />;
}

const SumTitle = ({ row }: { row: Extract<Row, { kind: "sum" }> }) => (row.tone === "total" ? <b>{row.title}</b> : <span className={row.tone}>{row.title}</span>);

function KeyTitle({ row, zone, onRotation }: { row: KeyRow; zone: string; onRotation: () => void }) {
  const now = Date.now();
  const [unused, soon] = [unusedDays(row, now), endsSoon(row, now)];
  const last = row.olds.map((old) => old.expires ?? "").toSorted().at(-1);
  return (
    <>
      <b><bdi>{keyName(row.key)}</bdi></b>
      {row.key.user && <span className="soft"> of <bdi>{row.key.user}</bdi></span>}
      {row.key.origins.length > 0 && <span className="soft" title={row.key.origins.join("\n")}> <bdi>{shortOrigins(row.key.origins)}</bdi></span>}
      {last && <> <button type="button" className="key-tag warn" onClick={onRotation}>old ends <span className="nowrap">{zonedMinute(last, zone)}</span></button></>}
      {soon && <> <span className="key-tag warn">{soon}</span></>}
      {unused !== null && <> <span className="key-tag">{unusedWords(unused)}</span></>}
    </>
  );
}

function Actions({ of, olds, onOpen }: { of: Key; olds: Key[]; onOpen: (opened: Opened) => void }) {
  const { may } = useSession();
  return (
    <span className="key-actions">
      <Button variant="default" size="compact-xs" aria-label={`Rotate ${keyName(of)}`} onClick={() => onOpen({ what: "rotate", key: of })}>Rotate</Button>
      <Menu position="bottom-end" transitionProps={{ duration: 0 }} width={190} withinPortal={false}>
        <Menu.Target><ActionIcon variant="subtle" color="gray" aria-label={`More for ${keyName(of)}`}><Ellipsis size={16} /></ActionIcon></Menu.Target>
        <Menu.Dropdown>
          {may("keys.edit") && <Menu.Item onClick={() => onOpen({ what: "edit", key: of })}>Edit…</Menu.Item>}
          {may("keys.revoke") && <Menu.Item onClick={() => onOpen({ what: "revoke", key: of, olds, first: "both" })}>Revoke…</Menu.Item>}
          {may("keys.revoke") && olds.length > 0 && <Menu.Item onClick={() => onOpen({ what: "revoke", key: of, olds, first: "old" })}>End the old key now…</Menu.Item>}
        </Menu.Dropdown>
      </Menu>
    </span>
  );
}

function NoKeys({ onCreate }: { onCreate: () => void }) {
  const { may } = useSession();
  return (
    <div className="empty">
      <h2>No key yet</h2>
      <p>A key lets a program ask models. It is shown once, with a program that uses it.</p>
      {may("keys.create") && <Button onClick={onCreate}>New key</Button>}
    </div>
  );
}

/** Keys that are let in no more, behind a link: they explain what a month has of them. */
function Ended({ keys, zone }: { keys: Key[]; zone: string }) {
  const { ended } = route.useSearch();
  if (!keys.length) return null;
  const columns: Column<Key>[] = [
    { title: "Key", cell: (key) => <b><bdi>{keyName(key)}</bdi></b> },
    { title: "Begins with", cell: (key) => <code>{key.prefix}</code> },
    { title: "Why", phone: "end", cell: (key) => (key.state === "expired" ? (key.successor ? "rotated" : "expired") : key.state) },
    { title: "Ended", right: true, cell: (key) => zonedMinute(key.revoked ?? key.expires, zone) },
  ];
  const toggle = <Link to="/keys" search={(was) => keySearchOf({ ...was, ended: !ended })} replace>{ended ? "Hide" : "Show"}</Link>;
  return (
    <Section title="Ended keys" note={count(keys.length)} end={toggle}>
      {ended && <DataTable label="Ended keys" columns={columns} rows={keys} keyOf={(key) => key.key} />}
    </Section>
  );
}

function Dialogs({ opened, called, onClose }: { opened: Opened | null; called: string; onClose: () => void }) {
  const { id } = useTenant();
  switch (opened?.what) {
    case "create":
      return <CreateKey tenant={id} called={called} onClose={onClose} />;
    case "edit":
      return <EditKey tenant={id} of={opened.key} onClose={onClose} />;
    case "rotate":
      return <RotateKey tenant={id} called={called} of={opened.key} onClose={onClose} />;
    case "revoke":
      return <RevokeKey tenant={id} of={opened.key} olds={opened.olds} first={opened.first} onClose={onClose} />;
    case "rotation":
      return opened.row.olds[0] ? <Rotation tenant={id} old={opened.row.olds[0]} olds={opened.row.olds} fresh={opened.row.key} onClose={onClose} /> : null;
    default:
      return null;
  }
}

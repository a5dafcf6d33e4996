// Where alerts of budgets and the wallet go, whether they arrive, and which were told.

import { NativeSelect, TextInput } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { DataTable, type Column } from "../../../shared/components/data-table";
import { EditDialog, terms } from "../../../shared/components/edit-dialog";
import { LoadMore, usePages } from "../../../shared/components/load-more";
import { Section } from "../../../shared/components/section";
import { Failed, Unanswered, useFailure } from "../../../shared/components/unanswered";
import { api, answered, Problem, type Schemas } from "../../../shared/api";
import { count, money } from "../../../shared/format";
import { useSession } from "../../../shared/session";
import { useTimes } from "../../../shared/zone";
import { sentence } from "../../../shared/words";
import type { useOwnerNames } from "./owner-names";

type Target = Schemas["AlertTargetFacts"];
type Reached = Schemas["ReachedAlert"];

type Times = ReturnType<typeof useTimes>;
type Named = ReturnType<typeof useOwnerNames>;

export function Alerts({ tenant, named }: { tenant: string; named: Named }) {
  const { may } = useSession();
  return (
    <>
      {may("alerts.targets") && <Targets tenant={tenant} />}
      {may("alerts.list") && <WasReached tenant={tenant} named={named} />}
    </>
  );
}

function Targets({ tenant }: { tenant: string }) {
  const { may } = useSession();
  const [opened, setOpened] = useState<"add" | Target | null>(null);
  const at = useTimes();
  const [told, setTold] = useState("");
  const path = { tenant };
  const asked = useQuery({ queryKey: ["alert targets", tenant], queryFn: () => answered(api.GET("/api/tenants/{tenant}/alert-targets", { params: { path } })), refetchInterval: 5000 });
  const rows = asked.data?.items;
  const test = async (target: Target) => {
    try {
      await answered(api.POST("/api/tenants/{tenant}/alert-targets/{target}/test", { params: { path: { tenant, target: target.target } } }));
      setTold(`A test is on its way to ${target.address}.`);
      void asked.refetch();
    } catch (error) {
      setTold(sentence(error instanceof Problem ? error.detail : String(error)));
    }
  };
  const edits = may("alerts.add_target");
  const columns: Column<Target>[] = [
    { title: "To", cell: (row) => <b><bdi>{row.address}</bdi></b> },
    { title: "By", cell: (row) => (row.kind === "email" ? "mail" : "webhook") },
    { title: "Last message", cell: (row) => (row.last ? <span className={row.last === "failed" ? "bad" : ""} title={row.error}>{row.last} <span className="soft">{at(row.last_at)}</span></span> : <span className="soft">none yet</span>) },
    ...(edits ? [{ title: "", number: true, cell: (row: Target) => (
      <span className="row-links">
        <button type="button" className="link" aria-label={`Test ${row.address}`} onClick={() => void test(row)}>Send a test</button>
        <button type="button" className="link" aria-label={`Remove ${row.address}`} onClick={() => setOpened(row)}>Remove…</button>
      </span>
    ) }] : []),
  ];
  return (
    <Section title="Alerts" note="Each threshold is told once, to all of these." end={edits && <button type="button" className="link" onClick={() => setOpened("add")}>Add where…</button>}>
      {!rows ? <Unanswered asked={asked} /> : rows.length ? <DataTable label="Where alerts go" columns={columns} rows={rows} keyOf={(row) => row.target} /> : <p className="soft">Nowhere yet: add where you want to be told when a budget nears its end.</p>}
      <p role="status" className="note">{told}</p>
      {opened === "add" && <AddTarget tenant={tenant} onClose={() => setOpened(null)} />}
      {opened !== null && opened !== "add" && <RemoveTarget tenant={tenant} target={opened} onClose={() => setOpened(null)} />}
    </Section>
  );
}

function AddTarget({ tenant, onClose }: { tenant: string; onClose: () => void }) {
  const [kind, setKind] = useState<"email" | "webhook">("email");
  const [address, setAddress] = useState("");
  const given = { [kind]: address.trim() };
  return (
    <EditDialog
      title="Where alerts go"
      save="Add"
      onClose={onClose}
      typed={address.trim() ? JSON.stringify(given) : ""}
      send={(how) => answered(api.POST("/api/tenants/{tenant}/alert-targets", { params: { path: { tenant }, ...terms(how) }, body: { ...given, reason: how.reason } }))}
      preview={() => <p className="soft">{kind === "email" ? "It gets a mail at each threshold." : "It gets a POST of JSON at each threshold, signed with a secret that is shown once."}</p>}
      saved={(made) => made.secret && <><p>This is the only time it is shown. Verify <code>Parley-Signature</code> with it.</p><p className="tried secret"><code>{made.secret}</code></p></>}
      closes="I have stored it"
    >
      {(errorOf) => (
        <div className="edit-pair">
          <NativeSelect label="By" value={kind} onChange={(event) => setKind(event.currentTarget.value as typeof kind)} data={[{ value: "email", label: "mail" }, { value: "webhook", label: "webhook" }]} />
          <TextInput label={kind === "email" ? "Mail address" : "URL"} placeholder={kind === "email" ? "finance@example.com" : "https://example.com/parley"} value={address} onChange={(event) => setAddress(event.currentTarget.value)} error={errorOf(kind)} autoComplete="off" spellCheck={false} data-autofocus />
        </div>
      )}
    </EditDialog>
  );
}

function RemoveTarget({ tenant, target, onClose }: { tenant: string; target: Target; onClose: () => void }) {
  return (
    <EditDialog
      title={`Tell ${target.address} no more`}
      save="Remove"
      harmful
      onClose={onClose}
      typed=""
      send={(how) => answered(api.POST("/api/tenants/{tenant}/alert-targets/{target}/remove", { params: { path: { tenant, target: target.target }, ...terms(how) }, body: { reason: how.reason } }))}
      preview={() => <p>What was not sent to it will not be.</p>}
    />
  );
}

const reachedColumns = (at: Times): Column<Reached>[] => [
  { title: "Time", cell: (row) => <span className="nowrap tabular">{at(row.reached)}</span> },
  { title: "Of", cell: (row) => <b><bdi>{ownerWords(row)}</bdi></b> },
  { title: "At, %", number: true, phone: "end", cell: (row) => count(row.percent) },
  { title: "Spent, USD", number: true, cell: (row) => money(row.spent) },
  { title: "Of, USD", number: true, cell: (row) => money(row.limit) },
];

/** `Project lab, month`, as the budget is called above. */
function ownerWords({ scope, of, period }: Reached): string {
  if (scope === "wallet") return "Wallet";
  const owner = scope === "tenant" ? "Whole tenant" : `${scope.charAt(0).toUpperCase()}${scope.slice(1)} ${of}`.trim();
  return period ? `${owner}, ${period}` : owner;
}

function WasReached({ tenant, named }: { tenant: string; named: Named }) {
  const at = useTimes();
  const { items, more, asked } = usePages<Reached>(["alerts", tenant], (after) => answered(api.GET("/api/tenants/{tenant}/alerts", { params: { path: { tenant }, query: { after, limit: 10 } } })));
  const failure = useFailure(asked);
  if (failure) return <Section title="Thresholds that were reached"><Failed problem={failure} ask={asked.refetch} /></Section>;
  if (!items?.length) return null;
  return (
    <Section title="Thresholds that were reached" note="the newest first">
      <DataTable label="Thresholds that were reached" columns={reachedColumns(at)} rows={named(items) ?? []} keyOf={(row) => `${row.reached} ${row.budget} ${row.percent} ${row.of}`} />
      <LoadMore more={more} what="alerts" />
    </Section>
  );
}

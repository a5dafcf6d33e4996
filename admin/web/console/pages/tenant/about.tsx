// What a tenant's contract says: its terms in the pools and its settings, and their edits.

import { NativeSelect, TextInput } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { EditDialog, terms } from "../../../shared/components/edit-dialog";
import { Facts } from "../../../shared/components/facts";
import { Section } from "../../../shared/components/section";
import { api, answered, answeredWithTag } from "../../../shared/api";
import { count, decimal } from "../../../shared/format";
import { useSession } from "../../../shared/session";
import { EditTerms } from "./terms";
import { date, type Tenant } from "../../../shared/limits/limit-words";

export function About({ tenant, tag }: { tenant: Tenant; tag: string | undefined }) {
  const { may } = useSession();
  const [opened, setOpened] = useState<"terms" | "settings" | null>(null);
  const { data } = useTerms(tenant.name);
  const shares = data?.data;
  return (
    <>
      {may("tenants.terms") && <Section title="In the pools" end={may("tenants.set_terms") && <button type="button" className="link" onClick={() => setOpened("terms")}>Change terms…</button>}>
        <Facts label="In the pools" facts={[
          ["Share against others", decimal(shares?.weight, 1)],
          ["Running at once", shares ? (shares.slots_max === null ? "as much as there is" : count(shares.slots_max)) : "–"],
          ["Tokens at once", shares ? (shares.tokens_max === null ? "as much as there is" : count(shares.tokens_max)) : "–"],
          ["Tokens kept free for it", count(shares?.reserve_tokens)],
        ]} />
      </Section>}
      <Section title="About" end={may("tenants.set") && <button type="button" className="link" onClick={() => setOpened("settings")}>Change…</button>}>
        <Facts label="About" facts={[
          ["State", tenant.closed ? "closed" : "open"], ["Since", date(tenant.created)], ["Priority up to", tenant.priority_max],
          ["Price book", tenant.price_book], ["Time zone", tenant.time_zone], ["Tells users the cost", tenant.shows_costs ? "yes" : "no"],
          ["Prefix cache shared by", tenant.cache_by === "owner" ? "each user alone" : "the tenant"], ["Id", <code>{tenant.tenant}</code>],
        ]} />
      </Section>
      {opened === "terms" && data && <EditTerms tenant={tenant.name} began={data} title={`Terms of ${tenant.name}`} onClose={() => setOpened(null)} />}
      {opened === "settings" && <EditSettings tenant={tenant} tag={tag} onClose={() => setOpened(null)} />}
    </>
  );
}

/** A tenant's terms in the pools, with their ETag. */
export function useTerms(tenant: string) {
  const { may } = useSession();
  return useQuery({ enabled: may("tenants.terms"), queryKey: ["terms", tenant], queryFn: () => answeredWithTag(api.GET("/api/tenants/{tenant}/terms", { params: { path: { tenant } } })) });
}

const PRIORITIES = ["interactive", "standard", "bulk"] as const;

function EditSettings({ tenant, tag, onClose }: { tenant: Tenant; tag: string | undefined; onClose: () => void }) {
  const [began] = useState({ tenant, tag }); // as they were when the dialog opened
  const [zone, setZone] = useState(tenant.time_zone);
  const [book, setBook] = useState(tenant.price_book);
  const [priority, setPriority] = useState(tenant.priority_max as (typeof PRIORITIES)[number]);
  const all = { time_zone: zone.trim(), price_book: book.trim(), priority_max: priority };
  const changed = Object.fromEntries(Object.entries(all).filter(([name, value]) => began.tenant[name as keyof typeof all] !== value));
  const path = { tenant: tenant.tenant };
  return (
    <EditDialog
      title={`Change ${tenant.name}`}
      save="Save"
      onClose={onClose}
      tag={began.tag}
      reread={async () => (await answeredWithTag(api.GET("/api/tenants/{tenant}", { params: { path } }))).tag}
      typed={Object.keys(changed).length ? JSON.stringify(all) : ""}
      send={(how) => answered(api.PATCH("/api/tenants/{tenant}", { params: { path, ...terms(how) }, body: { ...changed, reason: how.reason } }))}
      preview={(would) => <Facts boxed label="What changes" facts={Object.keys(changed).map((name) => [name.replaceAll("_", " "), `${String(began.tenant[name as keyof Tenant])} → ${String(would[name as keyof typeof would])}`])} />}
    >
      {(errorOf) => (
        <>
          <TextInput label="Time zone" description="Where its days and months begin, like Europe/Berlin." value={zone} onChange={(event) => setZone(event.currentTarget.value)} error={errorOf("time_zone")} autoComplete="off" spellCheck={false} data-autofocus />
          <div className="edit-pair">
            <TextInput label="Price book" description="From the next request on." value={book} onChange={(event) => setBook(event.currentTarget.value)} error={errorOf("price_book")} autoComplete="off" />
            <NativeSelect label="Priority up to" description="Of its requests." value={priority} onChange={(event) => setPriority(event.currentTarget.value as typeof priority)} data={[...PRIORITIES]} error={errorOf("priority_max")} />
          </div>
        </>
      )}
    </EditDialog>
  );
}

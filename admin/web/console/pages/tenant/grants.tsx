// Money put into a tenant's wallet, and taken back: what one may not do alone waits for a second person.

import { NativeSelect, TextInput } from "@mantine/core";
import { useState } from "react";
import { EditDialog, terms } from "../../../shared/components/edit-dialog";
import { Facts } from "../../../shared/components/facts";
import { api, answeredMove, type Moved, type Schemas } from "../../../shared/api";
import { money, moment, nanoOf } from "../../../shared/format";
import { newId } from "../../../shared/ids";
import { sentence } from "../../../shared/words";
import type { Tenant } from "../../../shared/limits/limit-words";

export type Grant = Schemas["GrantFacts"];
const AMOUNT = "An amount like 250.00, with at most nine decimals.";

export function GrantMoney({ tenant, onClose }: { tenant: Tenant; onClose: () => void }) {
  const [amount, setAmount] = useState("");
  const [kind, setKind] = useState<"paid" | "promo">("paid");
  const [expires, setExpires] = useState("");
  const [note, setNote] = useState("");
  const [key] = useState(() => `console-${newId()}`);
  const nano = nanoOf(amount);
  const body = { amount: { nano: nano ?? "0", currency: "USD" as const }, kind, expires: expires.trim(), note: note.trim(), key };
  const first = tenant.money.pays !== "prepaid";
  return (
    <EditDialog<Moved<Schemas["GrantMade"]>>
      title={`Grant money to ${tenant.name}`}
      save="Grant"
      onClose={onClose}
      typed={nano && nano !== "0" ? JSON.stringify(body) : ""}
      send={(how) => answeredMove<Schemas["GrantMade"]>(api.POST("/api/tenants/{tenant}/wallet/grants", { params: { path: { tenant: tenant.tenant }, ...terms(how) }, body: { ...body, reason: how.reason } }))}
      preview={(would) => <WouldGrant would={would} first={first} />}
      saved={waitsOf}
    >
      {(errorOf) => (
        <>
          {first && <p className="edit-warning">This opens a wallet: {tenant.name} is prepaid from then on, and nothing is served to it beyond what is left.</p>}
          <div className="edit-pair">
            <TextInput label="Amount, USD" inputMode="decimal" value={amount} onChange={(event) => setAmount(event.currentTarget.value)} error={amount && !nano ? AMOUNT : errorOf("amount")} autoComplete="off" data-autofocus />
            <NativeSelect label="Kind" value={kind} onChange={(event) => setKind(event.currentTarget.value as typeof kind)} data={[{ value: "paid", label: "paid" }, { value: "promo", label: "promo, spent first" }]} error={errorOf("kind")} />
          </div>
          <div className="edit-pair">
            <TextInput label="Ends" description="Like 2027-01-31; empty: never." value={expires} onChange={(event) => setExpires(event.currentTarget.value)} error={errorOf("expires")} autoComplete="off" />
            <TextInput label="Note" description="Kept with the grant." value={note} onChange={(event) => setNote(event.currentTarget.value)} error={errorOf("note")} maxLength={500} autoComplete="off" />
          </div>
        </>
      )}
    </EditDialog>
  );
}

function WouldGrant({ would: { done, needs }, first }: { would: Moved<Schemas["GrantMade"]>; first: boolean }) {
  if (!done) return null;
  const { grant } = done;
  const owed = BigInt(done.paid_owed.nano) > 0n;
  return (
    <>
      <Facts boxed label="What is booked" facts={[["Into the wallet", `${money(grant.amount, 9)} USD`], ...(owed ? [["Pays at once of what is owed", money(done.paid_owed, 9)] as const] : []), ["Ends", grant.expires ? moment(grant.expires) : "never"], ...(first ? [["Pays from now on", "prepaid"] as const] : [])]} />
      <Needs why={needs} />
    </>
  );
}

const NEEDS: Record<string, string> = {
  needed: "It is more than one person may move alone: it will wait for a second person.",
  missing: "It is more than one person may move alone, and nobody else may approve it: it will be refused.",
};

const Needs = ({ why }: { why: string }) => (NEEDS[why] ? <p className="edit-warning">{NEEDS[why]}</p> : null);

/** What stands in place of the form where a second person must approve; nothing where it is done. */
function waitsOf<T>({ waits }: Moved<T>) {
  if (!waits) return undefined;
  return (
    <div role="status">
      <p><b>Not booked yet: it waits for a second person.</b></p>
      <p>{sentence(waits.why)} Somebody else with the right to move money approves or rejects it{waits.expires ? `, until ${moment(waits.expires)}` : ""}.</p>
      <p className="note">Proposal <code>{waits.proposal}</code></p>
    </div>
  );
}

export function VoidGrant({ tenant, grant, onClose }: { tenant: Tenant; grant: Grant; onClose: () => void }) {
  return (
    <EditDialog<Moved<Schemas["TakenMoney"]>>
      title={`Void the grant of ${money(grant.amount)} USD`}
      save="Void"
      harmful
      confirm={tenant.name}
      note="It cannot be taken back."
      onClose={onClose}
      typed=""
      send={(how) => answeredMove<Schemas["TakenMoney"]>(api.POST("/api/tenants/{tenant}/wallet/grants/{grant}/void", { params: { path: { tenant: tenant.tenant, grant: grant.grant }, ...terms(how) }, body: { reason: how.reason } }))}
      preview={({ done, needs }) => <>{done && <Facts boxed label="What is booked" facts={[...done.parts.map((part) => ["Out of the wallet", `${money(part.taken, 9)} USD`] as const), ["As if", "it had never been made"]]} />}<Needs why={needs} /></>}
      saved={waitsOf}
    />
  );
}

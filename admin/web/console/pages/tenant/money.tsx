// A tenant's money: what it used this month, what is in its wallet, and the grants that pay.

import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { Facts, type Fact } from "../../../shared/components/facts";
import { Section } from "../../../shared/components/section";
import { api, answered } from "../../../shared/api";
import { count, money } from "../../../shared/format";
import { useSession } from "../../../shared/session";
import { monthName, type TenantNow } from "./figures";
import { GrantMoney, VoidGrant, type Grant } from "./grants";
import { Movements } from "./movements";
import { date, type Tenant } from "../../../shared/limits/limit-words";

export function Money({ tenant, now }: { tenant: Tenant; now: TenantNow | undefined }) {
  const { may } = useSession();
  const [opened, setOpened] = useState<Grant | "new" | "movements" | null>(null);
  const prepaid = tenant.money.pays === "prepaid";
  const { data } = useQuery({
    queryKey: ["wallet", tenant.tenant],
    queryFn: () => answered(api.GET("/api/tenants/{tenant}/wallet", { params: { path: { tenant: tenant.tenant } } })),
    enabled: prepaid && may("wallets.show"),
  });
  const used: Fact[] = now ? [["Used so far", <b>{money(now.month_cost, 9)}</b>], ["Today", money(now.day_cost, 9)]] : [];
  const owes = tenant.money.owed !== undefined && tenant.money.owed.nano !== "0";
  const paid: Fact[] = prepaid
    ? [["Left in the wallet", <b>{money(tenant.money.left, 9)}</b>], ...(owes ? [["Owed beyond it", <span className="warn">{money(tenant.money.owed, 9)}</span>] as const] : [])]
    : [["Pays", "by invoice"]];
  const end = (
    <span className="row-links">
      {prepaid && may("wallets.history") && <button type="button" className="link" onClick={() => setOpened("movements")}>Movements</button>}
      {may("wallets.grant") && <button type="button" className="link" onClick={() => setOpened("new")}>Grant…</button>}
    </span>
  );
  return (
    <>
      <Section title="Money" note={`${now ? `${monthName(now.month)}, ` : ""}USD`} end={end}>
        <Facts facts={[...used, ...paid, ["Price book", tenant.price_book]]} label="Money" />
      </Section>
      {prepaid && data && <Grants grants={data.grants} onVoid={may("wallets.void") ? setOpened : undefined} />}
      {opened === "new" && <GrantMoney tenant={tenant} onClose={() => setOpened(null)} />}
      {opened === "movements" && <Movements tenant={tenant.tenant} name={tenant.name} onClose={() => setOpened(null)} />}
      {opened && typeof opened === "object" && <VoidGrant tenant={tenant} grant={opened} onClose={() => setOpened(null)} />}
    </>
  );
}

/** Those that still pay, the first to be spent first; the others when asked for. */
function Grants({ grants, onVoid }: { grants: readonly Grant[]; onVoid: ((grant: Grant) => void) | undefined }) {
  const [all, setAll] = useState(false);
  const open = grants.filter((grant) => grant.state === "open").toSorted((one, other) => one.priority - other.priority);
  const over = grants.filter((grant) => grant.state !== "open").toReversed();
  const shown = all ? [...open, ...over] : open;
  const end = over.length > 0 && <button type="button" className="link" aria-expanded={all} onClick={() => setAll(!all)}>{all ? "Only open ones" : `All ${count(grants.length)}`}</button>;
  return (
    <Section title="Grants" note="left / granted, USD" end={end}>
      {shown.length ? <Facts label="Grants" facts={shown.map((grant) => grantFact(grant, onVoid))} /> : <p className="soft">Nothing is left of any.</p>}
    </Section>
  );
}

function grantFact(grant: Grant, onVoid: ((grant: Grant) => void) | undefined): Fact {
  const until = grant.state !== "open" ? `, ${grant.state}` : grant.expires ? `, until ${date(grant.expires)}` : "";
  const left = `${money(grant.left)} / ${money(grant.amount)}`;
  const whole = grant.state === "open" && grant.left.nano === grant.amount.nano;
  return [
    <span title={grant.note || grant.key}>{grant.kind}{until}</span>,
    <>{left}{onVoid && whole && <> <button type="button" className="link" aria-label={`Void the grant of ${money(grant.amount)}`} onClick={() => onVoid(grant)}>Void…</button></>}</>,
  ];
}

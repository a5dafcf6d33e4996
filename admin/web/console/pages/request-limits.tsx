// The limits of a request: of one that is open as they stand now, else what is known of them.

import { DataTable } from "../../shared/components/data-table";
import { Section } from "../../shared/components/section";
import { type Schemas } from "../../shared/api";
import { count, money, NOBODY_KNOWS, type Money } from "../../shared/format";

type Explained = Schemas["Explained"];
type Row = { name: string; of: string; id: string; was: string; most: string; verdict: string };

const DIMENSIONS: Record<string, string> = {
  concurrency: "Running at once",
  requests_per_minute: "Requests per minute",
  input_tokens_per_minute: "Input tokens per minute",
  output_tokens_per_minute: "Output tokens per minute",
  tokens_per_minute: "Tokens per minute",
  wallet: "Wallet, USD",
};
const VERDICTS: Record<string, string> = { go: "go", refuse: "refused", wait: "wait", watches: "go, it only watches" };

export function Limits({ found }: { found: Explained }) {
  const rows = [...found.limits.map((each) => limitRow(each, found.names)), ...shareRows(found)];
  if (found.booked) {
    return <Section title="Its limits"><p className="soft">It passed them all. How far each was used when it was admitted is not kept.</p></Section>;
  }
  if (!rows.length) return null;
  return (
    <Section title="Its limits now" note="what one more like it would meet">
      <DataTable label="Its limits now" rows={rows} keyOf={(each) => `${each.name} ${each.of} ${each.id}`} columns={[
        { title: "Limit", cell: (each) => <><b>{each.name}</b>{each.of && <span className="soft" title={each.id}>, {each.of}</span>}</> },
        { title: "Is", number: true, cell: (each) => each.was },
        { title: "Of", number: true, cell: (each) => each.most },
        { title: "One more", right: true, phone: "end", cell: (each) => <span className={each.verdict === "go" || each.verdict === "watches" ? "soft" : "warn"}>{VERDICTS[each.verdict] ?? each.verdict}</span> },
      ]} />
    </Section>
  );
}

function limitRow(each: Schemas["StandingLimit"], names: Record<string, string>): Row {
  const name = DIMENSIONS[each.dimension] ?? `Budget of the ${each.dimension}, USD`;
  const models = each.models === "*" ? "" : ` (${each.models})`;
  const of = each.scope_id ? `${each.scope} ${names[each.scope_id] ?? each.scope_id}` : each.scope;
  const held = each.held ? BigInt(each.held.nano) : 0n;
  const used = typeof each.used === "number" ? count(each.used) : money({ ...each.used, nano: String(BigInt(each.used.nano) + held) }, 2);
  return { name: name + models, of, id: each.scope_id, was: each.known ? used : NOBODY_KNOWS, most: amount(each.limit), verdict: each.verdict };
}

function shareRows({ share }: Explained): Row[] {
  if (!share) return [];
  const verdict = (has: number, most: number | null) => (most !== null && has >= most ? "wait" : "go");
  const of = "the tenant's share";
  return [
    { name: `Slots of ${share.pool}`, of, id: "", was: count(share.running), most: share.slots_max === null ? "no cap" : count(share.slots_max), verdict: verdict(share.running, share.slots_max) },
    { name: `KV tokens of ${share.pool}`, of, id: "", was: count(share.tokens), most: share.tokens_max === null ? "no cap" : count(share.tokens_max), verdict: verdict(share.tokens, share.tokens_max) },
  ];
}

const amount = (value: number | Money) => (typeof value === "number" ? count(value) : money(value, 2));

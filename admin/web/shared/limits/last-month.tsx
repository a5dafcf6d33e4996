// What a budget or limit would have done last month: in a sentence, and by whom it concerned.

import { Facts, type Fact } from "../components/facts";
import { count, money } from "../format";
import type { Schemas } from "../api";

type LastMonth = Schemas["LastMonth"];

/** Whom a budget for `each` month, week or day would have refused last month. */
export function BudgetLastMonth({ last, each }: { last: LastMonth | null | undefined; each: string }) {
  if (!last) return null;
  const month = monthName(last.month);
  if (!last.begins) return <p className="soft">In {month} it would have refused nobody.</p>;
  const from = `${last.times > 1 ? `in ${count(last.times)} ${each}s, the first time ` : ""}from ${clock(last.begins)} on`;
  return (
    <>
      <p>In {month} it would have refused <b>{count(last.requests)} {last.requests === 1 ? "request" : "requests"}</b> of {money(last.cost)} with 402, {from}.</p>
      <Facts boxed label={`Whom it would have refused in ${month}`} facts={rows(last, (each) => `${count(each.requests)} requests, ${money(each.cost)}`, (requests, nano) => `${count(requests)} requests, ${money({ ...last.cost, nano: String(nano) })}`)} />
    </>
  );
}

/** In which hours of last month more came than a limit lets through. */
export function LimitLastMonth({ last }: { last: LastMonth | null | undefined }) {
  if (!last || last.hour_lets_through === null) return null;
  const month = monthName(last.month);
  const most = count(last.hour_lets_through);
  const unknown = "Minutes within an hour are not kept: shorter rushes may have been refused, too.";
  if (!last.begins) return <p className="soft">In no hour of {month} more came than it lets through in one, {most}. {unknown}</p>;
  return (
    <>
      <p>In <b>{last.times === 1 ? "1 hour" : `${count(last.times)} hours`}</b> of {month} more came than it lets through in one, {most}; first {clock(last.begins)}. <span className="soft">{unknown}</span></p>
      <Facts boxed label={`Who used in these hours of ${month}`} facts={rows(last, (each) => `${each.hours === 1 ? "1 hour" : `${count(each.hours)} hours`}, ${count(each.requests)} requests`, (requests) => `${count(requests)} requests`)} />
    </>
  );
}

function rows(last: LastMonth, told: (each: LastMonth["most"][number]) => string, rest: (requests: number, nano: bigint) => string): Fact[] {
  const named = last.most.map((each): Fact => [<bdi key={each.of}>{each.name}</bdi>, told(each)]);
  if (!last.others) return named;
  const requests = last.requests - last.most.reduce((sum, each) => sum + each.requests, 0);
  const nano = BigInt(last.cost.nano) - last.most.reduce((sum, each) => sum + BigInt(each.cost.nano), 0n);
  return [...named, [`Other ${count(last.others)} ${last.by}${last.others === 1 ? "" : "s"}`, rest(requests, nano)]];
}

const MONTHS = ["January", "February", "March", "April", "May", "June", "July", "August", "September", "October", "November", "December"];
const monthName = (month: string) => MONTHS[Number(month.slice(5)) - 1] ?? month;
const clock = (time: string) => `${time.slice(0, 10)} ${time.slice(11, 16)}`;

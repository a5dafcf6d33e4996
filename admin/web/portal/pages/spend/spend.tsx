// Spend: will the money last, where does it go, why is it more. A sentence first, then the numbers that prove it.

import { getRouteApi, Link } from "@tanstack/react-router";
import { ChevronLeft, ChevronRight } from "lucide-react";
import { api, answered } from "../../../shared/api";
import { Meter } from "../../../shared/components/meter";
import { Failed, useFailure } from "../../../shared/components/unanswered";
import { Strip, type StripItem } from "../../../shared/components/strip";
import { ago, money, NOBODY_KNOWS, type Money } from "../../../shared/format";
import { useFreshness } from "../../../shared/freshness";
import { useLive } from "../../../shared/live";
import { useOldFigures } from "../../../shared/old-figures";
import { FiguresOf } from "../../old-figures";
import { useTenant } from "../../tenant";
import { CacheSection } from "./cache";
import { monthName } from "./months";
import { FirstCall } from "./new-tenant";
import { PoolsSections } from "./pools";
import { ErrorsSection } from "./errors";
import { RefusedSection } from "./refused";
import { spendSearchOf, type SpendSearch } from "./search";
import { UsedUp } from "./used-up";
import { WhereSection } from "./where";
import { WhySection } from "./why";
import { WillItLast } from "./will-it-last";
import { about, dayAndMonth, isHeldBack, isNew, isSpent, leadOf, less, limitOf, localMoment, monthAfter, monthAndYear, monthBudget, spentNote, type Summary } from "./words";
import "./spend.css";

const route = getRouteApi("/spend");
const [LIVE_EVERY_MS, OVER_EVERY_MS] = [3000, 60_000];

export function SpendPage() {
  const { id } = useTenant();
  const search = route.useSearch();
  const navigate = route.useNavigate();
  const { month } = search;
  const change = (changed: { [name in keyof SpendSearch]?: SpendSearch[name] | undefined }) =>
    void navigate({ search: (was) => spendSearchOf({ ...was, ...changed }), replace: true, resetScroll: false });
  const query = month ? { month } : {};
  const asked = () => answered(api.GET("/api/tenants/{tenant}/spend", { params: { path: { tenant: id }, query } }));
  const summary = useLive(["spend", id, month ?? ""], asked, month ? OVER_EVERY_MS : LIVE_EVERY_MS);
  const { data, dataUpdatedAt } = summary;
  const stale = useFreshness(month ? 0 : dataUpdatedAt);
  const failure = useFailure(summary);
  if (failure) return <><h1 className="page-title">Spend</h1><div className="lead"><Failed problem={failure} ask={summary.refetch} /></div></>;
  if (!data) return <Loading />;
  return (
    <div className="spend">
      <Head summary={data} />
      <Meta summary={data} late={stale ? dataUpdatedAt : null} />
      <UsedUp summary={data} />
      {isNew(data) ? (
        <>
          <p className="lead">Nothing spent yet. The first call shows up here <b>within 5 seconds</b> of its answer.</p>
          <FirstCall summary={data} />
          <Strip items={stripOf(data)} label="Money now" />
        </>
      ) : (
        <>
          <Lead summary={data} />
          <Strip items={stripOf(data)} label="Money now" />
          <WillItLast summary={data} />
          <WhereSection tenant={id} month={month} search={search} change={change} />
          <WhySection tenant={id} month={month} against={search.against} change={change} />
          <div className="spend-pair"><CacheSection tenant={id} month={month} /><RefusedSection tenant={id} month={month} /></div>
          <ErrorsSection tenant={id} month={month} />
          <PoolsSections tenant={id} month={month} />
        </>
      )}
    </div>
  );
}

function Head({ summary }: { summary: Summary }) {
  const name = monthAndYear(summary.month);
  return (
    <div className="page-head">
      <h1 className="page-title">Spend</h1>
      <nav className="spend-months" aria-label="Month">
        <MonthLink month={monthAfter(summary.month, -1)} shape={<ChevronLeft size={16} aria-hidden />} />
        <b>{name}</b>
        {summary.state === "open" ? <span className="month-link soft" aria-hidden><ChevronRight size={16} /></span> : <MonthLink month={monthAfter(summary.month, 1)} shape={<ChevronRight size={16} aria-hidden />} />}
      </nav>
    </div>
  );
}

function MonthLink({ month, shape }: { month: string; shape: React.ReactNode }) {
  return <Link className="month-link" to="/spend" search={(was) => ({ ...was, month, day: undefined }) as never} aria-label={monthAndYear(month)}>{shape}</Link>;
}

/** Currency, zone and freshness, once for all the page. In red where the last figures stay. */
function Meta({ summary, late }: { summary: Summary; late: number | null }) {
  const since = useOldFigures() ?? late;
  const money = `Amounts in ${summary.currency}. Days are those of ${summary.time_zone}.`;
  if (since !== null) return <p className="meta">{money} <FiguresOf since={since} /></p>;
  return <p className="meta">{money} {booked(summary)} {closing(summary)}</p>;
}

function booked(summary: Summary): string {
  if (!summary.booked || summary.state !== "open") return "";
  const at = localMoment(summary.booked, summary.time_zone, Date.now());
  return at.includes(" ") ? `Last booked on ${at}.` : `Booked up to ${at}, ${ago(summary.booked)}.`;
}

function closing(summary: Summary): string {
  if (summary.state === "closed") return summary.lacks ? `The month is closed, without: ${summary.lacks}.` : "The month is closed.";
  if (summary.state !== "over") return "";
  const at = summary.closes && localMoment(summary.closes, summary.time_zone, 0).slice(0, 16);
  if (!at) return "The month is over and not closed yet.";
  return Date.parse(summary.closes ?? "") > Date.now() ? `The month is over and closes on ${at}; until then it may change.` : `The month was to close on ${at} and is open: some of its usage may not be booked yet.`;
}

function Lead({ summary }: { summary: Summary }) {
  const { before, bold, after } = leadOf(summary);
  return <p className="lead">{before}<b>{bold}</b>{after}</p>;
}

/** The four numbers. */
function stripOf(summary: Summary): StripItem[] {
  const open = summary.state === "open";
  const name = monthName(summary.month);
  const spent: StripItem = { label: open ? "Spent this month" : `Spent in ${name}`, value: money(summary.cost), note: isNew(summary) ? "no usage yet" : spentNote(summary) };
  return open ? [spent, forecastItem(summary), budgetItem(summary), walletItem(summary)] : [spent];
}

function forecastItem(summary: Summary): StripItem {
  const { month, forecast } = summary;
  const label = `Forecast for ${monthName(month)}${isHeldBack(summary) ? ", if raised" : ""}`;
  if (!forecast) return { label, value: NOBODY_KNOWS, note: "after 3 days of usage" };
  return { label, value: `about ${about(forecast.cost)}`, note: `${about(forecast.low)} to ${about(forecast.high)}, 4 of 5 times` };
}

function budgetItem(summary: Summary): StripItem {
  const budget = monthBudget(summary);
  if (!budget) return { label: "Budget left", value: NOBODY_KNOWS, note: "no budget for the month" };
  const percent = budget.percent ?? 0;
  const tone = percent >= 100 ? "full" : budget.lasts?.day ? "near" : "calm";
  const over = less(budget.spent as Money, limitOf(budget));
  const above = BigInt(over.nano) > 0n ? `, ${money(over)} over` : "";
  const then = budget.kind === "hard" ? (isSpent(budget) ? "; requests get 402" : "; then requests get 402") : "; then alerts";
  return { label: "Budget left", value: money(budget.left as Money), note: <>of {money(limitOf(budget))}{above}{isNew(summary) ? "" : then}<Meter share={percent / 100} tone={tone} label="Budget spent" /></> };
}

function walletItem({ wallet, time_zone }: Summary): StripItem {
  if (!wallet) return { label: "Wallet", value: NOBODY_KNOWS, note: "none: paid by invoice" };
  const owes = wallet.owed.nano !== "0" ? `; ${money(wallet.owed)} owed beyond it` : "";
  const day = wallet.lasts?.day;
  const lapses = wallet.next_expiry && `; some lapses on ${localMoment(wallet.next_expiry, time_zone, 0).slice(0, 10)}`;
  return { label: "Wallet", value: money(wallet.left), note: `prepaid${day ? `; lasts until about ${dayAndMonth(day)}` : wallet.lasts ? "; lasts for two months" : ""}${day ? "" : (lapses ?? "")}${owes}` };
}

function Loading() {
  return (
    <div aria-busy="true" aria-label="Loading" role="status">
      <span className="skeleton title" /><span className="skeleton detail" /><span className="skeleton strip-skeleton" /><span className="skeleton rows" />
    </div>
  );
}

// A month of a tenant's books: its lines by what they sum up, and their total, to the nano.

import { NativeSelect } from "@mantine/core";
import { keepPreviousData, useInfiniteQuery, type InfiniteData } from "@tanstack/react-query";
import { getRouteApi } from "@tanstack/react-router";
import { DataTable, type Column } from "../../../shared/components/data-table";
import { LoadMore } from "../../../shared/components/load-more";
import { Section } from "../../../shared/components/section";
import { api, answered, type Problem, type Schemas } from "../../../shared/api";
import { count, money } from "../../../shared/format";
import { useSession } from "../../../shared/session";
import { sentence } from "../../../shared/words";
import { monthName } from "./figures";
import { useScrollTo } from "./scroll-to";
import { STATEMENT_BY, type StatementBy } from "./statement-by";
import type { Tenant } from "../../../shared/limits/limit-words";

type Line = Schemas["StatementLine"];
type Given = Schemas["Statement"];
const route = getRouteApi("/tenants/$tenant");
const [FIRST, MOST] = [20, 1000];

export function Statement({ tenant }: { tenant: Tenant }) {
  const { may } = useSession();
  return may("usage.statement") ? <Month tenant={tenant} /> : null;
}

function Month({ tenant }: { tenant: Tenant }) {
  const { month, by = "project" } = route.useSearch();
  const path = { tenant: tenant.tenant };
  const { data, error, fetchNextPage, isFetchingNextPage } = useInfiniteQuery<Given, Problem, Given | undefined, readonly unknown[], number>({
    queryKey: ["statement", tenant.tenant, month, by],
    queryFn: ({ pageParam: skip }) => answered(api.GET("/api/tenants/{tenant}/statement", { params: { path, query: { by, skip, limit: skip ? MOST : FIRST, ...(month ? { month } : {}) } } })),
    initialPageParam: 0,
    getNextPageParam: (last, pages) => (last.more ? pages.reduce((sum, page) => sum + page.lines.length, 0) : undefined),
    select: joined,
    placeholderData: keepPreviousData,
    retry: false,
  });
  const more = { has: (data?.more ?? 0) > 0, busy: isFetchingNextPage, load: () => void fetchNextPage() };
  useScrollTo("statement", data !== undefined);
  return (
    <div id="statement" className="linked">
      <Section title="Statement" note={data ? noteOf(data) : ""} end={<Choices month={month ?? data?.month ?? ""} by={by} since={tenant.created} />}>
        {data?.lacks && <p className="edit-warning">The month was closed without: {data.lacks}</p>}
        {error ? <p className="soft">{sentence(error.detail)}</p> : !data ? <span className="skeleton" /> : <Lines of={data} />}
        <LoadMore more={more} what={data && data.more > MOST ? `lines: ${count(MOST)} of ${count(data.more)}` : `lines: ${count(data?.more)}`} />
      </Section>
    </div>
  );
}

/** The lines of all pages, with what the newest says of those behind them. */
function joined({ pages }: InfiniteData<Given>): Given | undefined {
  const last = pages.at(-1);
  return last && { ...last, lines: pages.flatMap((page) => page.lines) };
}

function noteOf(given: Given): string {
  const until = given.closed ? "closed" : given.month < new Date().toISOString().slice(0, 7) ? "over, not closed yet" : "so far";
  return `${monthName(given.month)} ${given.month.slice(0, 4)}, ${until} · days of ${given.time_zone} · USD`;
}

function Choices({ month, by, since }: { month: string; by: StatementBy; since: string | null }) {
  const navigate = route.useNavigate();
  const set = (given: { month?: string; by?: StatementBy }) => void navigate({ search: (old) => ({ ...old, ...given }), hash: "statement" });
  return (
    <span className="statement-choices">
      <NativeSelect size="xs" aria-label="Month" value={month} onChange={(event) => set({ month: event.currentTarget.value })} data={monthsUpTo(month, since)} />
      <NativeSelect size="xs" aria-label="By" value={by} onChange={(event) => set({ by: event.currentTarget.value as StatementBy })} data={STATEMENT_BY.map(([value, label]) => ({ value, label: `by ${label.toLowerCase()}` }))} />
    </span>
  );
}

/** The months from when a tenant was made, at most two years of them, the newest first. */
function monthsUpTo(shown: string, since: string | null): string[] {
  const [now, first] = [new Date(), since ? since.slice(0, 7) : ""];
  const months = Array.from({ length: 24 }, (_, back) => new Date(Date.UTC(now.getUTCFullYear(), now.getUTCMonth() - back, 15)).toISOString().slice(0, 7));
  const known = months.filter((each) => !first || each >= first);
  return [...new Set([shown, ...known].filter(Boolean))].toSorted().reverse();
}

function Lines({ of }: { of: Given }) {
  if (!of.lines.length) return <p className="soft">Nothing was used or charged in this month.</p>;
  const title = STATEMENT_BY.find(([value]) => value === of.by)?.[1] ?? of.by;
  const columns: Column<Line>[] = [
    { title, cell: (line) => (line.of || line.name ? <b>{line.name || line.of}</b> : <span className="soft">nobody’s</span>) },
    { title: "Requests", number: true, cell: ({ sums }) => count(sums.requests) },
    { title: "Errors", number: true, cell: ({ sums }) => count(sums.errors) },
    { title: "Input, tokens", number: true, cell: ({ sums }) => count(sums.input_uncached) },
    { title: "From cache", number: true, cell: ({ sums }) => count(sums.input_cached) },
    { title: "Output", number: true, cell: ({ sums }) => count(sums.output_text + sums.output_reasoning) },
    { title: "Cost", number: true, phone: "end", cell: ({ sums }) => money(sums.cost, 9) },
  ];
  const others: Line[] = of.more ? [{ of: "others", name: `${count(of.more)} others together`, sums: of.others }] : [];
  return <DataTable label="Statement" columns={columns} rows={[...of.lines, ...others]} keyOf={(line) => line.of || "nobody"} foot={{ of: "total", name: "Total", sums: of.total }} />;
}

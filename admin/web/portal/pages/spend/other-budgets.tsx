// The budgets beside the month's own that matter now: those of the whole tenant, and those near their end.

import { Link } from "@tanstack/react-router";
import { DataTable, type Column } from "../../../shared/components/data-table";
import { Meter } from "../../../shared/components/meter";
import { count, money } from "../../../shared/format";
import { budgetName } from "../../../shared/limits/limit-words";
import { useSession } from "../../../shared/session";
import { limitOf, monthBudget, type SpendBudget, type Summary } from "./words";

export function OtherBudgets({ summary }: { summary: Summary }) {
  const { may } = useSession();
  const own = monthBudget(summary);
  const others = summary.budgets.filter((each) => each !== own);
  const rest = summary.more_budgets > 0 && `${count(summary.more_budgets)} ${summary.more_budgets === 1 ? "other is" : "others are"} far from the end.`;
  if (!others.length && !rest) return null;
  return (
    <div className="other-budgets">
      {others.length > 0 && <DataTable label="Other budgets" columns={COLUMNS} rows={others} keyOf={(each) => `${each.budget} ${each.of}`} />}
      {rest && <p className="note">{others.length ? "" : "Of the other budgets: "}{rest} {may("budgets.list") && <Link to="/limits">All budgets</Link>}</p>}
    </div>
  );
}

const COLUMNS: Column<SpendBudget>[] = [
  { title: "Other budgets", cell: (each) => <b><bdi>{capital(budgetName(each, "your"))}</bdi></b> },
  { title: "Spent", number: true, cell: (each) => (each.spent ? money(each.spent) : "") },
  { title: "Of", number: true, phone: "end", cell: (each) => money(limitOf(each)) },
  { title: "Used, %", cell: (each) => <span className="used"><Meter share={(each.percent ?? 0) / 100} label={`${budgetName(each, "your")} spent`} /><span>{each.percent ?? 0}</span></span> },
  { title: "Gone about", right: true, cell: (each) => goneOn(each) },
];

function goneOn(budget: SpendBudget): string {
  if ((budget.percent ?? 0) >= 100) return "used up";
  return budget.lasts?.day ?? budget.exhausted?.slice(0, 10) ?? "";
}

const capital = (text: string) => text.charAt(0).toUpperCase() + text.slice(1);

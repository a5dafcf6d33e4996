// What is said where a budget is used up: whose, since when, and what opens it again.

import { Button } from "@mantine/core";
import { Link } from "@tanstack/react-router";
import { CircleAlert } from "lucide-react";
import { api, answered } from "../../../shared/api";
import { count, money, type Money } from "../../../shared/format";
import { useLive } from "../../../shared/live";
import { useSession } from "../../../shared/session";
import { roleName } from "../../roles";
import { monthName } from "./months";
import { limitOf, localMoment, usedUp, type SpendBudget, type Summary } from "./words";

export function UsedUp({ summary }: { summary: Summary }) {
  return usedUp(summary).map((budget) => <UsedUpBudget key={`${budget.budget} ${budget.of}`} budget={budget} summary={summary} />);
}

/** Those whom this budget refused in the month. */
function useRefusedBy(budget: SpendBudget, tenant: string) {
  const { data } = useLive(["spend.refusals", tenant, {}], () => answered(api.GET("/api/tenants/{tenant}/spend/refusals", { params: { path: { tenant } } })), 30_000);
  return data?.limits.find((each) => each.code === CODE && each.scope === budget.scope && each.dimension === budget.period && (budget.scope === "tenant" || each.of === budget.owner));
}

const CODE = "budget_exceeded";

function UsedUpBudget({ budget, summary }: { budget: SpendBudget; summary: Summary }) {
  const { me, may } = useSession();
  const refused = useRefusedBy(budget, summary.tenant);
  const last = refused?.last ? localMoment(refused.last, summary.time_zone, Date.now()).slice(0, -3) : "";
  const raises = budget.by_tenant && (may("budgets.set") || may("budgets.override"));
  return (
    <div className="used-up" role="status">
      <CircleAlert size={16} className="bad" aria-hidden />
      <p>
        <b>{whoOf(budget)} has used {windowOf(budget, summary)}, {money(budget.spent as Money)} of {money(limitOf(budget))}.</b>{" "}
        Requests are refused with 402{refused ? `, ${count(refused.refused)} this month${last && `, the last at ${last}`}` : ""}; answers under way were finished. {budget.scope === "tenant" ? "" : `Other ${budget.scope}s go on. `}
        {budget.resets ? `It opens again on ${opensAt(budget.resets)} ${summary.time_zone}, or at once when the budget is raised.` : "It opens again when the budget is raised."}
        {raises ? "" : budget.by_tenant ? ` Your role is ${roleName(me.role)}: an admin can raise it.` : " Those who run Parley set it."}
      </p>
      <span className="used-up-do">
        {raises && <Button component={Link} to="/limits" search={{ budget: budget.budget } as never} size="xs">Raise the budget</Button>}
        {refused && may("requests.find_refused") && <Button component={Link} to="/requests" search={{ state: "refused", code: CODE, since: "30d" } as never} size="xs" variant="default">See the {count(refused.refused)} refused</Button>}
      </span>
    </div>
  );
}

const whoOf = (budget: SpendBudget) => (budget.scope === "tenant" ? "Your tenant" : `${budget.scope === "key" ? "Key" : budget.scope.charAt(0).toUpperCase() + budget.scope.slice(1)} ${budget.of}`);
const windowOf = (budget: SpendBudget, summary: Summary) => ({ day: "today’s budget", week: "this week’s budget", month: `its ${monthName(summary.month)} budget`, lifetime: "its budget" })[budget.period];
const opensAt = (local: string) => `${local.slice(0, 10)} ${local.slice(11, 16)}`;

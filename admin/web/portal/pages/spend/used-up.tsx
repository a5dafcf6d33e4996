// What is said where a budget is used up: whose, since when, and what opens it again.

import { Button } from "@mantine/core";
import { Link } from "@tanstack/react-router";
import { CircleAlert } from "lucide-react";
import { money, type Money } from "../../../shared/format";
import { useSession } from "../../../shared/session";
import { roleName } from "../../roles";
import { monthName } from "./months";
import { limitOf, usedUp, type SpendBudget, type Summary } from "./words";

export function UsedUp({ summary }: { summary: Summary }) {
  return usedUp(summary).map((budget) => <UsedUpBudget key={`${budget.budget} ${budget.of}`} budget={budget} summary={summary} />);
}

function UsedUpBudget({ budget, summary }: { budget: SpendBudget; summary: Summary }) {
  const { me, may } = useSession();
  const raises = budget.by_tenant && (may("budgets.set") || may("budgets.override"));
  return (
    <div className="used-up" role="status">
      <CircleAlert size={16} className="bad" aria-hidden />
      <p>
        <b>{whoOf(budget)} has used {windowOf(budget, summary)}, {money(budget.spent as Money)} of {money(limitOf(budget))}.</b>{" "}
        Requests are refused with 402; answers under way were finished. {budget.scope === "tenant" ? "" : `Other ${budget.scope}s go on. `}
        {budget.resets ? `It opens again on ${opensAt(budget.resets)} ${summary.time_zone}, or at once when the budget is raised.` : "It opens again when the budget is raised."}
        {raises ? "" : budget.by_tenant ? ` Your role is ${roleName(me.role)}: an admin can raise it.` : " Those who run Parley set it."}
      </p>
      <span className="used-up-do">
        {raises && <Button component={Link} to="/limits" size="xs">Raise the budget</Button>}
        {may("requests.find") && <Button component={Link} to="/requests" search={{ state: "refused" } as never} size="xs" variant="default">See the refused</Button>}
      </span>
    </div>
  );
}

const whoOf = (budget: SpendBudget) => (budget.scope === "tenant" ? "Your tenant" : `${budget.scope === "key" ? "Key" : budget.scope.charAt(0).toUpperCase() + budget.scope.slice(1)} ${budget.of}`);
const windowOf = (budget: SpendBudget, summary: Summary) => ({ day: "today’s budget", week: "this week’s budget", month: `its ${monthName(summary.month)} budget`, lifetime: "its budget" })[budget.period];
const opensAt = (local: string) => `${local.slice(0, 10)} ${local.slice(11, 16)}`;

// The portal's pages, as the sidebar and the keys know them. `needs`: operations, one of which a member must have.

import { Gauge } from "lucide-react";
import type { PageEntry } from "../shared/shell-parts";

export const PAGES: readonly PageEntry[] = [
  { group: "Access", title: "Limits and budgets", to: "/limits", icon: Gauge, needs: "limits.list", key: "l" },
];

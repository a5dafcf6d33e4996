// The portal's pages, as the sidebar and the keys know them. `needs`: operations, one of which a member must have.

import { ChartColumn, FileSearch, FolderTree, Gauge, Grid2x2, KeyRound, ListTree, ScrollText, Shield, UserRound, Users } from "lucide-react";
import type { PageEntry } from "../shared/shell-parts";

export const PAGES: readonly PageEntry[] = [
  { group: "Money", title: "Spend", to: "/spend", icon: ChartColumn, needs: "spend.summary", key: "s" },
  { group: "Money", title: "Explain a charge", to: "/explain", icon: FileSearch, needs: ["charges.day", "charges.explain"], key: "e" },
  { group: "Money", title: "Chargeback", to: "/chargeback", icon: Grid2x2, needs: "chargeback.report", key: "c" },
  { group: "Usage", title: "Requests", to: "/requests", icon: ListTree, needs: "requests.find", key: "r" },
  { group: "Access", title: "Keys", to: "/keys", icon: KeyRound, needs: "keys.list", key: "k" },
  { group: "Access", title: "Limits and budgets", to: "/limits", icon: Gauge, needs: "limits.list", key: "l" },
  { group: "Access", title: "Projects", to: "/projects", icon: FolderTree, needs: "projects.list", key: "p" },
  { group: "Access", title: "Users", to: "/users", icon: UserRound, needs: "users.list", key: "u" },
  { group: "Access", title: "Members", to: "/members", icon: Users, needs: "people.list", key: "m" },
  { group: "Access", title: "Safety", to: "/safety", icon: Shield, needs: "safety.merged", key: "y" },
  { group: "Access", title: "Audit log", to: "/audit", icon: ScrollText, needs: "audit.list", key: "a" },
];

// The pages that the sidebar, the search and the keys know. `needs`: an operation that a
// caller must have to see the page.

import { Activity, Boxes, Building2, ListTree, type LucideIcon } from "lucide-react";

export type PageEntry = { group: string; title: string; to: "/" | "/requests" | "/pools" | "/tenants"; icon: LucideIcon; needs?: string; key?: string };

export const PAGES: readonly PageEntry[] = [
  { group: "", title: "Overview", to: "/", icon: Activity, needs: "overview.show", key: "o" },
  { group: "", title: "Requests", to: "/requests", icon: ListTree, needs: "requests.find", key: "r" },
  { group: "Fleet", title: "Pools", to: "/pools", icon: Boxes, needs: "overview.show", key: "p" },
  { group: "Customers", title: "Tenants", to: "/tenants", icon: Building2, needs: "tenants.list", key: "t" },
];

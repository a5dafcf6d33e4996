// The pages that the sidebar, the search and the keys know.

import { Activity, Boxes, Building2, ListTree } from "lucide-react";
import type { PageEntry } from "../shared/shell-parts";

export const PAGES: readonly PageEntry<"/" | "/requests" | "/pools" | "/tenants">[] = [
  { group: "", title: "Overview", to: "/", icon: Activity, needs: "overview.show", key: "o" },
  { group: "", title: "Requests", to: "/requests", icon: ListTree, needs: "requests.find", key: "r" },
  { group: "Fleet", title: "Pools", to: "/pools", icon: Boxes, needs: "overview.show", key: "p" },
  { group: "Customers", title: "Tenants", to: "/tenants", icon: Building2, needs: "tenants.list", key: "t" },
];

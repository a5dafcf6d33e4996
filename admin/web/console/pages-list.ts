// The pages that the sidebar, the search and the keys know.

import { Activity, Boxes, BrainCircuit, Building2, ListTree } from "lucide-react";
import type { PageEntry } from "../shared/shell-parts";

export const PAGES: readonly PageEntry<"/" | "/requests" | "/pools" | "/models" | "/tenants">[] = [
  { group: "", title: "Overview", to: "/", icon: Activity, needs: "overview.show", key: "o" },
  { group: "", title: "Requests", to: "/requests", icon: ListTree, needs: "requests.find", key: "r" },
  { group: "Fleet", title: "Pools", to: "/pools", icon: Boxes, needs: "overview.show", key: "p" },
  { group: "Fleet", title: "Models", to: "/models", icon: BrainCircuit, needs: "models.list", key: "m" },
  { group: "Customers", title: "Tenants", to: "/tenants", icon: Building2, needs: "tenants.list", key: "t" },
];

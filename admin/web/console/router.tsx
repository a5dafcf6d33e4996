// The console's pages by their paths. Each page is a file of its own, loaded when it is opened.

import { createRootRoute, createRoute, createRouter, lazyRouteComponent } from "@tanstack/react-router";
import { tenantSearchOf } from "./pages/tenant/search-params";
import { filterOf } from "../shared/requests/filter";
import { NotThere, WentWrong } from "../shared/shell-parts";
import { Shell } from "./shell";

const root = createRootRoute({ component: Shell, notFoundComponent: () => <NotThere home="Overview" />, errorComponent: WentWrong });

const overview = createRoute({
  getParentRoute: () => root,
  path: "/",
  component: lazyRouteComponent(() => import("./pages/overview"), "OverviewPage"),
});

const requests = createRoute({
  getParentRoute: () => root,
  path: "/requests",
  validateSearch: filterOf,
  component: lazyRouteComponent(() => import("./pages/requests"), "RequestsPage"),
});

const request = createRoute({
  getParentRoute: () => root,
  path: "/requests/$request",
  validateSearch: (given: Record<string, unknown>): { tenant?: string } => (given["tenant"] ? { tenant: String(given["tenant"]).slice(0, 200) } : {}),
  component: lazyRouteComponent(() => import("./pages/request"), "RequestPage"),
});

const tenants = createRoute({
  getParentRoute: () => root,
  path: "/tenants",
  validateSearch: (given: Record<string, unknown>): { name?: string; state?: "open" | "closed" } => ({
    ...(typeof given["name"] === "string" && given["name"] ? { name: given["name"].slice(0, 200) } : {}),
    ...(given["state"] === "open" || given["state"] === "closed" ? { state: given["state"] } : {}),
  }),
  component: lazyRouteComponent(() => import("./pages/tenants"), "TenantsPage"),
});

const tenant = createRoute({
  getParentRoute: () => root,
  path: "/tenants/$tenant",
  validateSearch: tenantSearchOf,
  component: lazyRouteComponent(() => import("./pages/tenant/tenant"), "TenantPage"),
});

const pools = createRoute({
  getParentRoute: () => root,
  path: "/pools",
  component: lazyRouteComponent(() => import("./pages/pools"), "PoolsPage"),
});

const pool = createRoute({
  getParentRoute: () => root,
  path: "/pools/$pool",
  component: lazyRouteComponent(() => import("./pages/pool/pool"), "PoolPage"),
});

const models = createRoute({
  getParentRoute: () => root,
  path: "/models",
  component: lazyRouteComponent(() => import("./pages/models/models"), "ModelsPage"),
});

const idleCost = createRoute({
  getParentRoute: () => root,
  path: "/idle-cost",
  validateSearch: (given: Record<string, unknown>): { month?: string; pool?: string } => ({
    ...(typeof given["month"] === "string" && /^\d{4}-\d{2}$/.test(given["month"]) ? { month: given["month"] } : {}),
    ...(typeof given["pool"] === "string" && given["pool"] ? { pool: given["pool"].slice(0, 200) } : {}),
  }),
  component: lazyRouteComponent(() => import("./pages/idle-cost"), "IdleCostPage"),
});

export const router = createRouter({
  routeTree: root.addChildren([overview, requests, request, tenants, tenant, pools, pool, models, idleCost]),
  basepath: "/console",
  defaultPreload: "intent",
  defaultErrorComponent: WentWrong,
});

declare module "@tanstack/react-router" {
  interface Register {
    router: typeof router;
  }
}

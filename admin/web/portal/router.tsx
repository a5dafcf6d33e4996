// The portal's pages by their paths. Each page is a file of its own, loaded when it is opened.

import { createRootRoute, createRoute, createRouter, lazyRouteComponent, Navigate } from "@tanstack/react-router";
import { patiently } from "../shared/patience";
import { filterOf } from "../shared/requests/filter";
import { NotThere, PageLoading, useSeen, WentWrong } from "../shared/shell-parts";
import { keySearchOf } from "./pages/keys/search-params";
import { limitSearchOf } from "./pages/limits/search-params";
import { projectSearchOf } from "./pages/projects/search-params";
import { userSearchOf } from "./pages/users/search-params";
import { explainSearchOf } from "./pages/explain/search";
import { PAGES } from "./pages-list";
import { reportOf } from "./pages/chargeback/search";
import { spendSearchOf } from "./pages/spend/search";
import { Shell } from "./shell";

const root = createRootRoute({ component: Shell, notFoundComponent: () => <NotThere home="To the first page" />, errorComponent: WentWrong });

/** The first page that the member's role may see. */
function FirstPage() {
  const [first] = useSeen(PAGES);
  return first ? <Navigate to={first.to as "/"} replace /> : <NotThere home="To the first page" />;
}

const home = createRoute({ getParentRoute: () => root, path: "/", component: FirstPage });

const spend = createRoute({
  getParentRoute: () => root,
  path: "/spend",
  validateSearch: spendSearchOf,
  component: lazyRouteComponent(() => patiently(() => import("./pages/spend/spend")), "SpendPage"),
});

const requests = createRoute({
  getParentRoute: () => root,
  path: "/requests",
  validateSearch: filterOf,
  component: lazyRouteComponent(() => patiently(() => import("./pages/requests/requests")), "RequestsPage"),
});

const request = createRoute({
  getParentRoute: () => root,
  path: "/requests/$request",
  component: lazyRouteComponent(() => patiently(() => import("./pages/explain/request")), "RequestPage"),
});

const explain = createRoute({
  getParentRoute: () => root,
  path: "/explain",
  validateSearch: explainSearchOf,
  component: lazyRouteComponent(() => patiently(() => import("./pages/explain/explain")), "ExplainPage"),
});

const keys = createRoute({
  getParentRoute: () => root,
  path: "/keys",
  validateSearch: keySearchOf,
  component: lazyRouteComponent(() => patiently(() => import("./pages/keys/keys")), "KeysPage"),
});

const projects = createRoute({
  getParentRoute: () => root,
  path: "/projects",
  validateSearch: projectSearchOf,
  component: lazyRouteComponent(() => patiently(() => import("./pages/projects/projects")), "ProjectsPage"),
});

const users = createRoute({
  getParentRoute: () => root,
  path: "/users",
  validateSearch: userSearchOf,
  component: lazyRouteComponent(() => patiently(() => import("./pages/users/users")), "UsersPage"),
});

const members = createRoute({
  getParentRoute: () => root,
  path: "/members",
  component: lazyRouteComponent(() => patiently(() => import("./pages/members/members")), "MembersPage"),
});

const limits = createRoute({
  getParentRoute: () => root,
  path: "/limits",
  validateSearch: limitSearchOf,
  component: lazyRouteComponent(() => patiently(() => import("./pages/limits/limits")), "LimitsPage"),
});

const safety = createRoute({
  getParentRoute: () => root,
  path: "/safety",
  component: lazyRouteComponent(() => patiently(() => import("./pages/safety/safety")), "SafetyPage"),
});

const audit = createRoute({
  getParentRoute: () => root,
  path: "/audit",
  component: lazyRouteComponent(() => patiently(() => import("./pages/audit/audit")), "AuditPage"),
});

const chargeback = createRoute({
  getParentRoute: () => root,
  path: "/chargeback",
  component: lazyRouteComponent(() => patiently(() => import("./pages/chargeback/chargeback")), "ChargebackPage"),
  validateSearch: reportOf,
});

const account = createRoute({
  getParentRoute: () => root,
  path: "/account",
  component: lazyRouteComponent(() => patiently(() => import("./pages/account/account")), "AccountPage"),
});

export const router = createRouter({
  routeTree: root.addChildren([home, spend, explain, chargeback, requests, request, limits, safety, audit, keys, projects, users, members, account]),
  basepath: "/portal",
  defaultPreload: "intent",
  defaultErrorComponent: WentWrong,
  defaultPendingComponent: PageLoading,
});

declare module "@tanstack/react-router" {
  interface Register {
    router: typeof router;
  }
}

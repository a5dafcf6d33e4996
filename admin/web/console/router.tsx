// The console's pages by their paths. Each page is a file of its own, loaded when it is opened.

import { createRootRoute, createRoute, createRouter, lazyRouteComponent } from "@tanstack/react-router";
import { NotThere, Shell, WentWrong } from "./shell";

const root = createRootRoute({ component: Shell, notFoundComponent: NotThere, errorComponent: WentWrong });

const overview = createRoute({
  getParentRoute: () => root,
  path: "/",
  component: lazyRouteComponent(() => import("./pages/overview"), "OverviewPage"),
});

export const router = createRouter({
  routeTree: root.addChildren([overview]),
  basepath: "/console",
  defaultPreload: "intent",
  defaultErrorComponent: WentWrong,
});

declare module "@tanstack/react-router" {
  interface Register {
    router: typeof router;
  }
}

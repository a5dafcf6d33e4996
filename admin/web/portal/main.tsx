// The tenants' portal: its page's start.

import { RouterProvider } from "@tanstack/react-router";
import { start } from "../shared/start";
import { router } from "./router";

start("portal", <RouterProvider router={router} />);

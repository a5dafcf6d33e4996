// The console: its page's start.

import { RouterProvider } from "@tanstack/react-router";
import { start } from "../shared/start";
import { router } from "./router";

start("console", <RouterProvider router={router} />);

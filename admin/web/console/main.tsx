// The console: its page's start.

import "@fontsource-variable/inter/wght.css";
import "../shared/mantine.css";
import "../shared/tokens.css";
import "../shared/base.css";
import { MantineProvider } from "@mantine/core";
import { QueryClient, QueryClientProvider } from "@tanstack/react-query";
import { RouterProvider } from "@tanstack/react-router";
import { StrictMode } from "react";
import { createRoot } from "react-dom/client";
import { SignedIn } from "../shared/session";
import { schemes, theme } from "../shared/theme";
import { router } from "./router";

const queries = new QueryClient({
  defaultOptions: { queries: { retry: 1, staleTime: 1000, refetchOnWindowFocus: true } },
});

createRoot(document.getElementById("root") as HTMLElement).render(
  <StrictMode>
    <MantineProvider
      theme={theme}
      defaultColorScheme="auto"
      colorSchemeManager={schemes}
      withCssVariables={false}
      withGlobalClasses={false}
    >
      <QueryClientProvider client={queries}>
        <SignedIn product="console">
          <RouterProvider router={router} />
        </SignedIn>
      </QueryClientProvider>
    </MantineProvider>
  </StrictMode>,
);

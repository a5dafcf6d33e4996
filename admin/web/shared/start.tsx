// The start of an entry: Mantine under our tokens, the questions' cache, and its pages for whoever is signed in.

import "@fontsource-variable/inter/wght.css";
import "./mantine.css";
import "./tokens.css";
import "./base.css";
import { MantineProvider } from "@mantine/core";
import { QueryClient, QueryClientProvider } from "@tanstack/react-query";
import { StrictMode, type ReactNode } from "react";
import { createRoot } from "react-dom/client";
import { SignedIn } from "./session";
import { schemes, theme } from "./theme";

const queries = new QueryClient({
  defaultOptions: { queries: { networkMode: "always", retry: 1, staleTime: 1000, refetchOnWindowFocus: true } },
});

/** Show `pages` in the document. `product`: what the sign-in names. */
export function start(product: string, pages: ReactNode): void {
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
          <SignedIn product={product}>{pages}</SignedIn>
        </QueryClientProvider>
      </MantineProvider>
    </StrictMode>,
  );
}

// The keys of both entries: g and a letter go to a page, / and Ctrl K search, ? helps. Not while somebody types.

import { useNavigate } from "@tanstack/react-router";
import { useEffect, useRef } from "react";
import type { PageEntry } from "./shell-parts";

const GO_MS = 1500;

/** `search` undefined: the entry has none. */
export function useKeys({ pages, search, help }: { pages: readonly PageEntry[]; search?: () => void; help: () => void }): void {
  const navigate = useNavigate();
  const gone = useRef(0); // until when a letter goes to a page, also where the page is drawn anew between the two keys
  useEffect(() => {
    const pressed = (event: KeyboardEvent) => {
      if (search && (event.metaKey || event.ctrlKey) && event.key.toLowerCase() === "k") {
        event.preventDefault();
        search();
        return;
      }
      if (event.metaKey || event.ctrlKey || event.altKey || typing(event.target)) return;
      if (Date.now() < gone.current) {
        gone.current = 0;
        const page = pages.find((each) => each.key === event.key);
        if (page) void navigate({ to: page.to });
        return;
      }
      if (event.key === "g") gone.current = Date.now() + GO_MS;
      else if (search && event.key === "/") {
        event.preventDefault();
        search();
      } else if (event.key === "?") help();
    };
    addEventListener("keydown", pressed);
    return () => removeEventListener("keydown", pressed);
  }, [navigate, pages, search, help]);
}

function typing(target: EventTarget | null): boolean {
  if (!(target instanceof HTMLElement)) return false;
  return target.isContentEditable || /^(INPUT|TEXTAREA|SELECT)$/.test(target.tagName) || target.closest("[role=dialog]") !== null;
}

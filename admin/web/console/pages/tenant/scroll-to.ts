// Shows a section that the address names, once there is something in it.

import { useRouterState } from "@tanstack/react-router";
import { useEffect } from "react";

export function useScrollTo(id: string, ready: boolean): void {
  const named = useRouterState({ select: (state) => state.location.hash === id });
  useEffect(() => {
    if (named && ready) document.getElementById(id)?.scrollIntoView();
  }, [id, named, ready]);
}

// The frame round every page: sidebar, top bar, search, keys.

import { ActionIcon, Drawer, Modal } from "@mantine/core";
import { Link, Outlet, useRouterState } from "@tanstack/react-router";
import { Menu as MenuIcon, Search, Table2 } from "lucide-react";
import { useEffect, useState } from "react";
import { Mark } from "../shared/components/mark";
import { FreshnessProvider } from "../shared/freshness";
import { useKeys } from "../shared/keys";
import { useChanges } from "../shared/live";
import { Account, KeyHelp, LiveBadge, PageLinks, Scheme, useSeen } from "../shared/shell-parts";
import { PAGES } from "./pages-list";
import { SearchDialog } from "./search";
import "../shared/shell.css";

export function Shell() {
  useChanges();
  const [searching, setSearching] = useState(false);
  const [helping, setHelping] = useState(false);
  const [menu, setMenu] = useState(false);
  const mine = useMyPages();
  const path = useRouterState({ select: (state) => state.location.pathname });
  useKeys({ pages: PAGES, search: () => setSearching(true), help: () => setHelping(true) });
  useEffect(() => setMenu(false), [path]);
  return (
    <FreshnessProvider>
      <a className="skip" href="#main">To the page</a>
      <div className="shell">
        <nav className="sidebar" aria-label="Pages"><Brand /><Pages /></nav>
        <div className="beside">
          <TopBar onMenu={() => setMenu(true)} onSearch={() => setSearching(true)} />
          <main id="main" className="page" tabIndex={-1}><Outlet /></main>
        </div>
      </div>
      <Drawer opened={menu} onClose={() => setMenu(false)} size={260} title="Pages">
        <nav aria-label="All pages" className="drawer"><Pages /></nav>
      </Drawer>
      <SearchDialog opened={searching} onClose={() => setSearching(false)} />
      <Modal opened={helping} onClose={() => setHelping(false)} title="Keys"><KeyHelp pages={mine} more={[[`${COMMAND}K  or  /`, "search"]]} /></Modal>
    </FreshnessProvider>
  );
}

function Brand() {
  return <p className="shell-brand"><Mark /><span className="label"><b>Parley</b> <span className="soft">console</span></span></p>;
}

/** The pages that this caller may see, by group. */
export function useMyPages() {
  return useSeen(PAGES);
}

function Pages() {
  return (
    <PageLinks pages={useMyPages()}>
      <div className="nav-group nav-last">
        <a className="nav-link" href="/tables/" title="All tables"><Table2 size={16} aria-hidden /> <span className="label">All tables</span></a>
      </div>
    </PageLinks>
  );
}

function TopBar({ onMenu, onSearch }: { onMenu: () => void; onSearch: () => void }) {
  return (
    <div className="topbar" role="region" aria-label="Top bar">
      <ActionIcon className="only-phone" variant="subtle" color="gray" aria-label="Pages" onClick={onMenu}><MenuIcon size={18} /></ActionIcon>
      <Here />
      <LiveBadge />
      <button type="button" className="search-button" onClick={onSearch} aria-label="Search or jump to" aria-keyshortcuts="Control+K Meta+K /">
        <Search size={16} aria-hidden /> <span className="wide soft">Search or jump to</span> <kbd className="wide">{COMMAND}K</kbd>
      </button>
      <Scheme />
      <Account />
    </div>
  );
}

const COMMAND = /Mac|iPhone|iPad/.test(navigator.userAgent) ? "⌘" : "Ctrl ";

function Here() {
  const path = useRouterState({ select: (state) => state.location.pathname });
  const parts = path.replace(/^\/console/, "").split("/").filter(Boolean);
  const page = PAGES.find((each) => each.to.slice(1) === (parts[0] ?? ""));
  return (
    <p className="here">
      {page && parts.length > 1 ? <><Link to={page.to}>{page.title}</Link> <span className="soft">/</span> <b>{decodeURIComponent(parts[1] ?? "")}</b></> : <b>{page?.title ?? "Console"}</b>}
    </p>
  );
}

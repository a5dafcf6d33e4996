// The frame round every page: sidebar, top bar, search, keys.

import { ActionIcon, Drawer, Menu, Modal, useComputedColorScheme, useMantineColorScheme } from "@mantine/core";
import { Link, Outlet, useRouterState, type ErrorComponentProps } from "@tanstack/react-router";
import { LogOut, Menu as MenuIcon, Moon, Search, Sun, Table2, WifiOff } from "lucide-react";
import { useEffect, useState } from "react";
import { Problem } from "../shared/api";
import { Mark } from "../shared/components/mark";
import { clock, lasting } from "../shared/format";
import { FreshnessProvider, usePageAge } from "../shared/freshness";
import { STALE_MS, useChanges } from "../shared/live";
import { useSession } from "../shared/session";
import { sentence } from "../shared/words";
import { useKeys } from "./keys";
import { PAGES, type PageEntry } from "./pages-list";
import { SearchDialog } from "./search";
import "./shell.css";

export function Shell() {
  useChanges();
  const [searching, setSearching] = useState(false);
  const [helping, setHelping] = useState(false);
  const [menu, setMenu] = useState(false);
  const path = useRouterState({ select: (state) => state.location.pathname });
  useKeys({ search: () => setSearching(true), help: () => setHelping(true) });
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
      <Modal opened={helping} onClose={() => setHelping(false)} title="Keys"><KeyHelp /></Modal>
    </FreshnessProvider>
  );
}

function Brand() {
  return <p className="shell-brand"><Mark /><span className="label"><b>Parley</b> <span className="soft">console</span></span></p>;
}

/** The pages that this caller may see, by group. */
export function useMyPages(): PageEntry[] {
  const { may } = useSession();
  return PAGES.filter((page) => !page.needs || may(page.needs));
}

function Pages() {
  const mine = useMyPages();
  const groups = [...new Set(mine.map((page) => page.group))];
  return (
    <>
      {groups.map((group) => (
        <div key={group} className="nav-group">
          {group && <p className="nav-title label">{group}</p>}
          <ul>
            {mine.filter((page) => page.group === group).map((page) => (
              <li key={page.to}>
                <Link to={page.to} className="nav-link" activeOptions={{ exact: page.to === "/" }} title={page.title}>
                  <page.icon size={16} aria-hidden /> <span className="label">{page.title}</span>
                </Link>
              </li>
            ))}
          </ul>
        </div>
      ))}
      <div className="nav-group nav-last">
        <a className="nav-link" href="/tables/" title="All tables"><Table2 size={16} aria-hidden /> <span className="label">All tables</span></a>
      </div>
    </>
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

function LiveBadge() {
  const { updatedAt, age } = usePageAge();
  if (age === null) return <span className="live" />;
  if (age > STALE_MS) return <span className="live stale-badge" role="status"><WifiOff size={14} aria-hidden /> Stale {lasting(age / 1000)}</span>;
  return <span className="live soft"><span className="live-dot" aria-hidden /> Live <span className="wide tabular">{clock(new Date(updatedAt))} UTC</span></span>;
}

function Scheme() {
  const { setColorScheme } = useMantineColorScheme({ keepTransitions: true });
  const dark = useComputedColorScheme("light") === "dark";
  return (
    <ActionIcon className="not-phone" variant="subtle" color="gray" aria-label={dark ? "Light theme" : "Dark theme"} onClick={() => setColorScheme(dark ? "light" : "dark")}>
      {dark ? <Sun size={16} /> : <Moon size={16} />}
    </ActionIcon>
  );
}

function Account() {
  const { me, signOut } = useSession();
  const { setColorScheme } = useMantineColorScheme({ keepTransitions: true });
  const dark = useComputedColorScheme("light") === "dark";
  const letters = me.name.split(/[\s._-]+/).filter(Boolean).map((word) => word[0]).join("").slice(0, 2).toUpperCase();
  return (
    <Menu position="bottom-end" transitionProps={{ duration: 0 }} width={220} withinPortal={false}>
      <Menu.Target><button type="button" className="account" aria-label={`Account of ${me.name}`}>{letters || "?"}</button></Menu.Target>
      <Menu.Dropdown>
        <Menu.Label>{me.name}<br />{me.role}{me.email ? `, ${me.email}` : ""}</Menu.Label>
        <Menu.Item leftSection={dark ? <Sun size={14} /> : <Moon size={14} />} onClick={() => setColorScheme(dark ? "light" : "dark")}>{dark ? "Light theme" : "Dark theme"}</Menu.Item>
        <Menu.Item leftSection={<LogOut size={14} />} onClick={() => void signOut()}>Sign out</Menu.Item>
      </Menu.Dropdown>
    </Menu>
  );
}

function KeyHelp() {
  const mine = useMyPages();
  const rows = [[`${COMMAND}K  or  /`, "search"], ["?", "this help"], ...mine.filter((page) => page.key).map((page) => [`g ${page.key}`, page.title])];
  return (
    <table className="table"><tbody>{rows.map(([keys, what]) => <tr key={keys}><td><kbd>{keys}</kbd></td><td>{what}</td></tr>)}</tbody></table>
  );
}

/** What is shown for a path that no page has. */
export function NotThere() {
  return (
    <div className="empty"><h1>There is no such page</h1><p>The address may be of another version of the console.</p><Link to="/">Overview</Link></div>
  );
}

/** What is shown where a page broke or could not be loaded. */
export function WentWrong({ error }: ErrorComponentProps) {
  const told = error instanceof Problem ? sentence(error.detail) : "This page could not be shown. The console may have been updated meanwhile: load it again.";
  return (
    <div className="empty" role="alert"><h1>Something went wrong</h1><p>{told}</p><button type="button" className="plain" onClick={() => location.reload()}>Load again</button></div>
  );
}

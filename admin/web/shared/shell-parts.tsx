// What stands round every page of both entries: theme, account, freshness, the list of pages, what to show for a page that
// is not there.

import { ActionIcon, Menu, useComputedColorScheme, useMantineColorScheme } from "@mantine/core";
import { Link, type ErrorComponentProps } from "@tanstack/react-router";
import { LogOut, Moon, Sun, UserRound, WifiOff, type LucideIcon } from "lucide-react";
import { useState, type ReactNode } from "react";
import { Problem } from "./api";
import { clock, lasting } from "./format";
import { usePageAge } from "./freshness";
import { STALE_MS, useLate } from "./live";
import { isThere } from "./patience";
import { useSession } from "./session";
import { sentence } from "./words";

/** A page of the sidebar, the search and the keys. `needs`: operations, one of which its caller must have. */
export type PageEntry<To extends string = string> = { group: string; title: string; to: To; icon: LucideIcon; needs?: string | readonly string[]; key?: string };

/** Those of `pages` that this caller may see. */
export function useSeen<To extends string>(pages: readonly PageEntry<To>[]): PageEntry<To>[] {
  const { may } = useSession();
  return pages.filter((page) => page.needs === undefined || [page.needs].flat().some(may));
}

/** The pages as links, by group. */
export function PageLinks<To extends string>({ pages, children }: { pages: readonly PageEntry<To>[]; children?: ReactNode }) {
  const groups = [...new Set(pages.map((page) => page.group))];
  return (
    <>
      {groups.map((group) => (
        <div key={group} className="nav-group">
          {group && <p className="nav-title label">{group}</p>}
          <ul>
            {pages.filter((page) => page.group === group).map((page) => (
              <li key={page.to}>
                <Link to={page.to as string} className="nav-link" activeOptions={{ exact: page.to === "/" }} title={page.title}>
                  <page.icon size={16} aria-hidden /> <span className="label">{page.title}</span>
                </Link>
              </li>
            ))}
          </ul>
        </div>
      ))}
      {children}
    </>
  );
}

export function LiveBadge() {
  const { updatedAt, age } = usePageAge();
  if (age === null) return <span className="live" />;
  if (age > STALE_MS) return <span className="live stale-badge" role="status"><WifiOff size={14} aria-hidden /> Stale {lasting(age / 1000)}</span>;
  return <span className="live soft"><span className="live-dot" aria-hidden /> Live <span className="wide tabular">{clock(new Date(updatedAt))} UTC</span></span>;
}

function useTheme(): { dark: boolean; other: string; turn: () => void } {
  const { setColorScheme } = useMantineColorScheme({ keepTransitions: true });
  const dark = useComputedColorScheme("light") === "dark";
  return { dark, other: dark ? "Light theme" : "Dark theme", turn: () => setColorScheme(dark ? "light" : "dark") };
}

export function Scheme() {
  const { dark, other, turn } = useTheme();
  return <ActionIcon className="not-phone" variant="subtle" color="gray" aria-label={other} onClick={turn}>{dark ? <Sun size={16} /> : <Moon size={16} />}</ActionIcon>;
}

/** `onAccount`: opens the page of the account, where there is one. */
export function Account({ onAccount }: { onAccount?: () => void }) {
  const { me, signOut } = useSession();
  const { dark, other, turn } = useTheme();
  const letters = me.name.split(/[\s._-]+/).filter(Boolean).map((word) => word[0]).join("").slice(0, 2).toUpperCase();
  return (
    <Menu position="bottom-end" transitionProps={{ duration: 0 }} width={220} withinPortal={false}>
      <Menu.Target><button type="button" className="account" aria-label={`Account of ${me.name}`}>{letters || "?"}</button></Menu.Target>
      <Menu.Dropdown>
        <Menu.Label><bdi>{me.name}</bdi><br />{me.role}{me.email ? `, ${me.email}` : ""}</Menu.Label>
        {onAccount && <Menu.Item leftSection={<UserRound size={14} />} onClick={onAccount}>Account</Menu.Item>}
        <Menu.Item leftSection={dark ? <Sun size={14} /> : <Moon size={14} />} onClick={turn}>{other}</Menu.Item>
        <Menu.Item leftSection={<LogOut size={14} />} onClick={() => void signOut()}>Sign out</Menu.Item>
      </Menu.Dropdown>
    </Menu>
  );
}

/** The keys that pages listen to. `more`: keys and what they do. */
export function KeyHelp({ pages, more = [] }: { pages: readonly PageEntry[]; more?: readonly (readonly [string, string])[] }) {
  const rows = [...more, ["?", "this help"] as const, ...pages.filter((page) => page.key).map((page) => [`g ${page.key}`, page.title] as const)];
  return <table className="table"><tbody>{rows.map(([keys, what]) => <tr key={keys}><td><kbd>{keys}</kbd></td><td>{what}</td></tr>)}</tbody></table>;
}

/** What is shown for a path that no page has. `home`: the title of the first page. */
export function NotThere({ home }: { home: string }) {
  return <div className="empty"><h1>There is no such page</h1><p>The address may be of another version of Parley.</p><Link to="/">{home}</Link></div>;
}

/** What is shown where a page broke or could not be loaded. */
export function WentWrong({ error }: ErrorComponentProps) {
  const told = error instanceof Problem ? sentence(error.detail) : "This page could not be shown. Parley may have been updated meanwhile: load it again.";
  const [away, setAway] = useState(false);
  const again = () => void isThere().then((there) => (there ? location.reload() : setAway(true)));
  return (
    <div className="empty" role="alert"><h1>Something went wrong</h1><p>{away ? "Parley does not answer now." : told}</p><button type="button" className="plain" onClick={again}>Load again</button></div>
  );
}

/** What is shown until the file of a page is there. */
export function PageLoading() {
  return useLate() ? <p className="soft" role="status">The page is not there yet: Parley takes long to answer, and is asked again.</p> : null;
}

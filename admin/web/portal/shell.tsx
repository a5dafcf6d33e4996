// The frame round every page of the portal: the tenant, its pages, who is signed in.

import { ActionIcon, Drawer, Modal } from "@mantine/core";
import { Link, Outlet, useNavigate, useRouter, useRouterState } from "@tanstack/react-router";
import { Menu as MenuIcon } from "lucide-react";
import { useEffect, useState, type ReactNode } from "react";
import { Mark } from "../shared/components/mark";
import { FreshnessProvider } from "../shared/freshness";
import { useKeys } from "../shared/keys";
import { useChanges } from "../shared/live";
import { useSession } from "../shared/session";
import { Account, KeyHelp, PageLinks, Scheme, useSeen } from "../shared/shell-parts";
import { ZoneProvider } from "../shared/zone";
import { PAGES } from "./pages-list";
import { Whom } from "./read-only";
import { roleName } from "./roles";
import { useTenant } from "./tenant";
import "../shared/shell.css";
import "./shell.css";

export function Shell() {
  useChanges();
  usePagesAhead();
  const [helping, setHelping] = useState(false);
  const [menu, setMenu] = useState(false);
  const pages = useSeen(PAGES);
  const path = useRouterState({ select: (state) => state.location.pathname });
  const navigate = useNavigate();
  const account = <Account onAccount={() => void navigate({ to: "/account" })} />;
  const closed = PAGES.find((page) => page.to === path.replace(/^\/portal/, "").replace(/\/$/, "") && !pages.includes(page));
  useKeys({ pages, help: () => setHelping(true) });
  useEffect(() => setMenu(false), [path]);
  return (
    <FreshnessProvider>
      <a className="skip" href="#main">To the page</a>
      <div className="shell">
        <nav className="sidebar" aria-label="Pages">
          <p className="shell-brand"><Mark /><b className="label">Parley</b></p>
          <TenantName />
          <PageLinks pages={pages} />
          <div className="portal-foot"><Scheme /><Who />{account}</div>
        </nav>
        <div className="beside">
          <div className="topbar only-phone" role="region" aria-label="Top bar">
            <ActionIcon variant="subtle" color="gray" aria-label="Pages" onClick={() => setMenu(true)}><MenuIcon size={18} /></ActionIcon>
            <div className="here"><TenantName /></div>
            {account}
          </div>
          <main id="main" className="page portal-page" tabIndex={-1}><NoPassword path={path} />{closed ? <NotForRole title={closed.title} /> : <Zoned><Outlet /></Zoned>}</main>
        </div>
      </div>
      <Drawer opened={menu} onClose={() => setMenu(false)} size={260} title="Pages">
        <nav aria-label="All pages" className="drawer"><PageLinks pages={pages} /></nav>
      </Drawer>
      <Modal opened={helping} onClose={() => setHelping(false)} title="Keys"><KeyHelp pages={pages} /></Modal>
    </FreshnessProvider>
  );
}

const AHEAD_MS = 3000;

/** Load the files of all pages once the first one is shown: they open at once, and also while nobody answers. */
function usePagesAhead(): void {
  const router = useRouter();
  useEffect(() => {
    const waiting = setTimeout(() => Object.values(router.routesById).forEach((route) => void router.loadRouteChunk(route)), AHEAD_MS);
    return () => clearTimeout(waiting);
  }, [router]);
}

/** A page that was opened by its address, and is not for the member's role. */
function NotForRole({ title }: { title: string }) {
  const { me } = useSession();
  return (
    <>
      <h1 className="page-title">{title}</h1>
      <p className="read-only" role="note"><b>Your role is {roleName(me.role)}:</b> this page is not part of it. <Whom /></p>
    </>
  );
}

/** Who has no password is locked out when the session ends, unless an admin makes a link. */
function NoPassword({ path }: { path: string }) {
  const { me } = useSession();
  if (me.has_password || !me.email || path.endsWith("/account")) return null;
  return <p className="read-only no-password" role="status"><b>You have no password.</b> When this session ends, at most 12 hours after it began, only a new link from an admin lets you in. <Link to="/account">Set a password</Link></p>;
}

/** Pages in the time zone of the tenant. */
function Zoned({ children }: { children: ReactNode }) {
  return <ZoneProvider zone={useTenant().facts?.time_zone}>{children}</ZoneProvider>;
}

function TenantName() {
  const { name } = useTenant();
  return <p className="portal-tenant label" title={name}><bdi>{name}</bdi></p>;
}

function Who() {
  const { me } = useSession();
  return <span className="label soft portal-who"><bdi>{me.name}</bdi>, {roleName(me.role)}</span>;
}

// The search (Ctrl K): pages, and what a request's, tenant's, user's, key's or worker's name begins.

import { Modal } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { useNavigate } from "@tanstack/react-router";
import { Building2, Cpu, FileText, KeyRound, ListTree, Search, User, type LucideIcon } from "lucide-react";
import { useEffect, useId, useState, type KeyboardEvent } from "react";
import { get } from "../shared/api";
import { useSession } from "../shared/session";
import { useMyPages } from "./shell";
import "./search.css";

type Hit = { id: string; group: string; title: string; detail: string; icon: LucideIcon; open: () => void };
type Found = { kind: string; id: string; tenant: string | null; tenant_name?: string; title: string; detail?: string; pool?: string };

const KINDS: Record<string, { group: string; icon: LucideIcon; command: (found: Found) => string; section?: string }> = {
  request: { group: "Requests", icon: ListTree, command: (found) => `parley requests explain ${found.id}` },
  tenant: { group: "Tenants", icon: Building2, command: () => "", section: "" },
  user: { group: "Users", icon: User, command: () => "", section: "users" },
  key: { group: "Keys", icon: KeyRound, command: () => "", section: "keys" },
  worker: { group: "Workers", icon: Cpu, command: () => "parley workers list" },
};

export function SearchDialog({ opened, onClose }: { opened: boolean; onClose: () => void }) {
  return (
    <Modal.Root opened={opened} onClose={onClose} size={620} yOffset={72} lockScroll={false} transitionProps={{ duration: 0 }} classNames={{ content: "search-dialog" }}>
      <Modal.Overlay />
      <Modal.Content aria-label="Search">
        {opened && <SearchBox onClose={onClose} />}
      </Modal.Content>
    </Modal.Root>
  );
}

function SearchBox({ onClose }: { onClose: () => void }) {
  const [text, setText] = useState("");
  const [chosen, setChosen] = useState(0);
  const list = useId();
  const { hits, asking, command } = useHits(text.trim(), onClose);
  useEffect(() => setChosen(0), [text]);
  const at = Math.min(chosen, Math.max(0, hits.length - 1));
  const pressed = (event: KeyboardEvent) => {
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (step) {
      event.preventDefault();
      setChosen((at + step + hits.length) % Math.max(1, hits.length));
    } else if (event.key === "Enter") hits[at]?.open();
  };
  useEffect(() => {
    void document.getElementById(`${list}-${at}`)?.scrollIntoView({ block: "nearest" });
  }, [at, list]);
  return (
    <div className="search">
      <div className="search-field">
        <Search size={18} aria-hidden />
        <input
          data-autofocus
          role="combobox"
          aria-expanded={hits.length > 0}
          aria-controls={list}
          aria-autocomplete="list"
          {...(hits.length ? { "aria-activedescendant": `${list}-${at}` } : {})}
          aria-label="Search for a request, tenant, user, key or worker"
          placeholder="Request, tenant, user, key, worker or page"
          value={text}
          maxLength={200}
          spellCheck={false}
          autoComplete="off"
          onChange={(event) => setText(event.currentTarget.value)}
          onKeyDown={pressed}
        />
      </div>
      <div className="search-list" id={list} role="listbox" aria-label="What was found">
        {hits.map((hit, index) => (
          <div key={hit.id} role="presentation">
            {hit.group !== hits[index - 1]?.group && <p className="search-group" role="presentation">{hit.group}</p>}
            <div id={`${list}-${index}`} role="option" aria-selected={index === at} className="search-hit" onClick={hit.open} onMouseMove={() => setChosen(index)}>
              <hit.icon size={16} aria-hidden /> <b>{hit.title}</b> <span className="soft">{hit.detail}</span>
            </div>
          </div>
        ))}
      </div>
      {!hits.length && <p className="search-none soft" role="status">{asking ? "Searching…" : "Nothing is called so. Names need their beginning. The id of a request is needed whole, or of one that has ended as pages shorten it."}</p>}
      {command && <p className="search-none" role="status">This has no page yet. <code>{command}</code> shows it.</p>}
      <p className="search-foot soft"><kbd>↑</kbd> <kbd>↓</kbd> choose <kbd>↵</kbd> open <kbd>esc</kbd> close</p>
    </div>
  );
}

function useHits(text: string, onClose: () => void) {
  const { may } = useSession();
  const navigate = useNavigate();
  const pages = useMyPages();
  const [command, setCommand] = useState("");
  useEffect(() => setCommand(""), [text]);
  const asked = useDelayed(text, 120);
  const searching = asked.length > 1 && may("search.find");
  const { data, isFetching } = useQuery({
    queryKey: ["search", asked],
    queryFn: async () => ((await get(`/api/search?q=${encodeURIComponent(asked)}`)) as { items?: Found[] }).items ?? [],
    enabled: searching,
    retry: false,
    placeholderData: (before) => before,
  });
  const named = pages.filter((page) => page.title.toLowerCase().includes(text.toLowerCase()));
  const pageHits = named.map((page): Hit => ({
    id: page.to,
    group: "Pages",
    title: page.title,
    detail: page.group,
    icon: FileText,
    open: () => {
      onClose();
      void navigate({ to: page.to });
    },
  }));
  const found = (searching ? (data ?? []) : []).map((each): Hit => {
    const kind = KINDS[each.kind] ?? { group: "Other", icon: FileText, command: () => "" };
    return {
      id: `${each.kind} ${each.tenant ?? ""} ${each.id}`,
      group: kind.group,
      title: each.title,
      detail: each.detail ?? (each.kind === "tenant" ? "" : each.pool || (each.tenant_name ?? each.tenant ?? "")),
      icon: kind.icon,
      open: () => {
        if (each.kind === "worker" && each.pool) {
          onClose();
          return void navigate({ to: "/pools/$pool", params: { pool: each.pool } });
        }
        if (each.kind !== "request" && kind.section === undefined) return setCommand(kind.command(each));
        onClose();
        if (each.kind === "request") return void navigate({ to: "/requests/$request", params: { request: each.id }, search: each.tenant ? { tenant: each.tenant } : {} });
        const tenant = each.tenant_name || each.tenant || each.id;
        void navigate({ to: "/tenants/$tenant", params: { tenant }, ...(kind.section ? { hash: kind.section } : {}) });
      },
    };
  });
  const hits = [...found, ...pageHits].sort((one, other) => order(one) - order(other));
  return { hits, asking: isFetching, command };
}

const GROUPS = ["Requests", "Tenants", "Users", "Keys", "Workers", "Other", "Pages"];
const order = (hit: Hit) => GROUPS.indexOf(hit.group);

function useDelayed(text: string, ms: number): string {
  const [delayed, setDelayed] = useState(text);
  useEffect(() => {
    const waiting = setTimeout(() => setDelayed(text), ms);
    return () => clearTimeout(waiting);
  }, [text, ms]);
  return delayed;
}

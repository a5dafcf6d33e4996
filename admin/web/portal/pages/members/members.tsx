// Who may sign in for the tenant: invitations that wait, members with their roles, and what each role sees.

import { Button } from "@mantine/core";
import { useState } from "react";
import { DataTable, type Column } from "../../../shared/components/data-table";
import { EditDialog, terms } from "../../../shared/components/edit-dialog";
import { LoadMore, usePages } from "../../../shared/components/load-more";
import { Section } from "../../../shared/components/section";
import { Unanswered, type Question } from "../../../shared/components/unanswered";
import { StateShape } from "../../../shared/components/state";
import { api, answered, type Schemas } from "../../../shared/api";
import { count, NOBODY_KNOWS } from "../../../shared/format";
import { useSession } from "../../../shared/session";
import { useZone } from "../../../shared/zone";
import { zonedDay, zonedMinute } from "../../../shared/zoned";
import { MEMBER_ROLES, roleName, roleSays } from "../../roles";
import { OldFigures } from "../../old-figures";
import { useTenant } from "../../tenant";
import { ChangeRole, Invite, LetInAgain, Remove, SignInLink } from "./member-edits";

export type Member = Schemas["PersonFacts"];
type Invitation = Schemas["InvitationFacts"];
type Opened = { what: "invite" } | { what: "withdraw"; invitation: Invitation } | { what: "role" | "link" | "remove" | "again"; member: Member };

export function MembersPage() {
  const { name } = useTenant();
  const [opened, setOpened] = useState<Opened | null>(null);
  const zone = useZone().name;
  const members = usePages<Member>(["members"], (after) => answered(api.GET("/api/people", { params: { query: { after } } })), 10_000);
  const invited = usePages<Invitation>(["invitations"], (after) => answered(api.GET("/api/invitations", { params: { query: { after } } })), 10_000);
  const close = () => setOpened(null);
  return (
    <>
      <header className="page-head">
        <div><h1 className="page-title">Members</h1><p className="soft">{summary(members.items, members.more.has, invited.items, name)} Times are those of {zone}.</p></div>
        <Button onClick={() => setOpened({ what: "invite" })}>Invite</Button>
      </header>
      <OldFigures />
      <Section title="Invitations" note="a link that works once, for 7 days">
        {invited.items?.length ? <DataTable label="Invitations" columns={invitationColumns(zone, setOpened)} rows={invited.items} keyOf={(each) => each.invitation} /> : <Known list={invited} none="Nobody is invited now." />}
        <LoadMore more={invited.more} what="invitations" />
      </Section>
      <Section title="Members">
        {members.items ? <MemberTable members={members.items} zone={zone} onOpen={setOpened} /> : <Known list={members} none="" />}
        <LoadMore more={members.more} what="members" />
      </Section>
      <Section title="What each role sees">
        <dl className="role-list">{MEMBER_ROLES.map((role) => <div key={role}><dt>{roleName(role)}</dt><dd className="soft">{roleSays(role)}</dd></div>)}</dl>
      </Section>
      {opened?.what === "invite" && <Invite onClose={close} />}
      {opened?.what === "withdraw" && <Withdraw invitation={opened.invitation} onClose={close} />}
      {opened?.what === "role" && <ChangeRole member={opened.member} onClose={close} />}
      {opened?.what === "link" && <SignInLink member={opened.member} onClose={close} />}
      {opened?.what === "remove" && <Remove member={opened.member} onClose={close} />}
      {opened?.what === "again" && <LetInAgain member={opened.member} onClose={close} />}
    </>
  );
}

function summary(members: Member[] | undefined, more: boolean, invited: Invitation[] | undefined, tenant: string): string {
  if (!members || !invited) return "";
  const active = members.filter((each) => each.state === "active").length;
  const waiting = invited.length === 1 ? "1 invitation waits" : `${invited.length ? count(invited.length) : "no"} invitations wait`;
  return `${more ? "More than " : ""}${count(active)} ${active === 1 && !more ? "person signs" : "people sign"} in for ${tenant}; ${waiting}.`;
}

type List = { items: unknown[] | undefined; asked: Question };

const Known = ({ list, none }: { list: List; none: string }) => (list.items ? <p className="soft">{none}</p> : <Unanswered asked={list.asked} />);

const invitationColumns = (zone: string, onOpen: (opened: Opened) => void): Column<Invitation>[] => [
  { title: "E-mail", cell: (each) => <b><bdi>{each.email}</bdi></b> },
  { title: "As", phone: "end", cell: (each) => roleName(each.role) },
  { title: "Works until", right: true, cell: (each) => zonedMinute(each.expires, zone) },
  { title: "", number: true, cell: (each) => <button type="button" className="link" aria-label={`Withdraw the invitation of ${each.email}`} onClick={() => onOpen({ what: "withdraw", invitation: each })}>Withdraw…</button> },
];

function MemberTable({ members, zone, onOpen }: { members: Member[]; zone: string; onOpen: (opened: Opened) => void }) {
  const { me } = useSession();
  const isMe = (each: Member) => each.name === me.name && each.email === me.email;
  const columns: Column<Member>[] = [
    { title: "Name", cell: (each) => <><b><bdi>{each.name}</bdi></b>{isMe(each) && <span className="soft"> (you)</span>}</> },
    { title: "E-mail", cell: (each) => <bdi>{each.email ?? NOBODY_KNOWS}</bdi> },
    { title: "Role", phone: "end", cell: (each) => <span title={roleSays(each.role)}>{roleName(each.role)}</span> },
    { title: "State", cell: (each) => <span className="state"><StateShape state={each.state === "active" ? "well" : "cancelled"} /> {each.state}</span> },
    { title: "Password", narrow: "hide", cell: (each) => (each.password ? "yes" : "no") },
    { title: "Second factor", narrow: "hide", cell: (each) => (each.second_factor ? "yes" : "no") },
    { title: "Since", right: true, cell: (each) => zonedDay(each.since, zone) },
    { title: "", number: true, cell: (each) => <MemberLinks of={each} me={isMe(each)} onOpen={onOpen} /> },
  ];
  return <DataTable label="Members" columns={columns} rows={members} keyOf={(each) => each.person} />;
}

function MemberLinks({ of, me, onOpen }: { of: Member; me: boolean; onOpen: (opened: Opened) => void }) {
  if (of.state !== "active") return of.state === "removed" && <button type="button" className="link" aria-label={`Let ${of.name} in again`} onClick={() => onOpen({ what: "again", member: of })}>Let in again…</button>;
  return (
    <span className="row-links">
      <button type="button" className="link" aria-label={`Make a sign-in link for ${of.name}`} onClick={() => onOpen({ what: "link", member: of })}>Sign-in link…</button>
      {!me && <button type="button" className="link" aria-label={`Change the role of ${of.name}`} onClick={() => onOpen({ what: "role", member: of })}>Role…</button>}
      {!me && <button type="button" className="link" aria-label={`Remove ${of.name}`} onClick={() => onOpen({ what: "remove", member: of })}>Remove…</button>}
    </span>
  );
}

function Withdraw({ invitation, onClose }: { invitation: Invitation; onClose: () => void }) {
  return (
    <EditDialog
      title={`Withdraw the invitation of ${invitation.email}`}
      save="Withdraw"
      harmful
      onClose={onClose}
      typed=""
      send={(how) => answered(api.POST("/api/invitations/{invitation}/withdraw", { params: { path: { invitation: invitation.invitation }, ...terms(how) }, body: { reason: how.reason } }))}
      preview={() => <p>Its link is good no more. They can be invited again.</p>}
    />
  );
}

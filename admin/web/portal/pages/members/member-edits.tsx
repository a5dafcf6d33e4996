// Dialogs of members: inviting, another role, a link that signs in, removing, letting in again.

import { NativeSelect, TextInput } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { CopyOnce } from "../../../shared/components/command";
import type { FromTo, Standing } from "../../../shared/components/edit-conflict";
import { EditDialog, terms } from "../../../shared/components/edit-dialog";
import { api, answered, answeredWithTag } from "../../../shared/api";
import { MEMBER_ROLES, roleName, roleSays, type MemberRole } from "../../roles";
import type { Member } from "./members";

type RoleInput = { value: MemberRole; onChange: (role: MemberRole) => void; error: string | undefined };

/** A role to choose, with what it sees. */
function Role({ value, onChange, error }: RoleInput) {
  return <NativeSelect label="Role" description={`${roleName(value)} ${roleSays(value)}`} value={value} onChange={(event) => onChange(event.currentTarget.value as MemberRole)} data={MEMBER_ROLES.map((role) => ({ value: role, label: roleName(role) }))} error={error} />;
}

export function Invite({ onClose }: { onClose: () => void }) {
  const [email, setEmail] = useState("");
  const [role, setRole] = useState<MemberRole>("developer");
  const body = { email: email.trim(), role };
  return (
    <EditDialog
      title="Invite a member"
      save="Invite"
      onClose={onClose}
      closes="I have passed it on"
      stays
      note="A link that works once, for 7 days."
      typed={body.email ? JSON.stringify(body) : ""}
      send={(how) => answered(api.POST("/api/invitations", { params: terms(how), body: { ...body, reason: how.reason } }))}
      preview={(would) => <p className="soft">{would.mailed ? "A mail with the link goes to them." : "The link is shown here once: no mail goes out."}</p>}
      saved={(made) => (made.link ? <CopyOnce label={`Invitation of ${made.invitation.email}`} secret={made.link} note="It works once, for 7 days, and is shown this once. No mail went out: give it to them yourself." /> : undefined)}
    >
      {(errorOf) => (
        <>
          <TextInput type="email" label="E-mail" description="They sign in with it." value={email} onChange={(event) => setEmail(event.currentTarget.value)} error={errorOf("email")} autoComplete="off" data-autofocus />
          <Role value={role} onChange={setRole} error={errorOf("role")} />
        </>
      )}
    </EditDialog>
  );
}

export function ChangeRole({ member, onClose }: { member: Member; onClose: () => void }) {
  const [role, setRole] = useState(member.role as MemberRole);
  const path = { person: member.person };
  const read = () => answeredWithTag(api.GET("/api/people/{person}", { params: { path } }));
  const { data: known, refetch } = useQuery({ queryKey: ["member as they were", member.person], queryFn: read, staleTime: Infinity, gcTime: 0 });
  const reread = async (): Promise<Standing> => {
    const now = (await refetch()).data;
    const fill = () => now && setRole(now.data.role as MemberRole);
    return now ? { tag: now.tag, take: { label: `Take ${roleName(now.data.role)}`, fill } } : { tag: undefined };
  };
  if (!known) return null;
  return (
    <EditDialog
      title={`Role of ${member.name}`}
      save="Save"
      onClose={onClose}
      tag={known.tag}
      reread={reread}
      of="this role"
      fromTo={fromTo}
      typed={role !== known.data.role ? JSON.stringify({ role, person: member.person }) : ""}
      send={(how) => answered(api.PATCH("/api/people/{person}", { params: { path, ...terms(how) }, body: { role, reason: how.reason } }))}
      preview={() => <p>{roleName(known.data.role)} → {roleName(role)}. Their sessions end: they sign in again with the new role, {member.password ? "by their password" : "which takes a sign-in link from you, as they have no password"}.</p>}
    >
      {(errorOf) => <Role value={role} onChange={setRole} error={errorOf("role") ?? errorOf("person")} />}
    </EditDialog>
  );
}

export function SignInLink({ member, onClose }: { member: Member; onClose: () => void }) {
  const path = { person: member.person };
  return (
    <EditDialog
      title={`Sign-in link for ${member.name}`}
      save="Make the link"
      onClose={onClose}
      stays
      closes="Done"
      note="It works once, within an hour."
      typed=""
      send={(how) => answered(api.POST("/api/people/{person}/link", { params: { path, ...terms(how) }, body: { reason: how.reason } }))}
      preview={(would) => <p>{would.mailed ? `A mail with the link goes to ${member.email}; you do not see it.` : "The link is shown here once: no mail goes out. Whoever opens it is signed in as them."} {!member.password && "They have no password: they can set one under Account then."}</p>}
      saved={(made) => (made.link ? <CopyOnce label={`Sign-in link for ${member.name}`} secret={made.link} note="It works once, within an hour, and is shown this once. Give it to them yourself." /> : <p role="status">A mail with the link goes to <bdi>{member.email}</bdi>. It works once, within an hour.</p>)}
    />
  );
}

/** From Viewer to Finance. */
const fromTo: FromTo = (before, after) => (before["role"] && after["role"] && before["role"] !== after["role"] ? `from ${roleName(String(before["role"]))} to ${roleName(String(after["role"]))}` : "");

export function Remove({ member, onClose }: { member: Member; onClose: () => void }) {
  return (
    <EditDialog
      title={`Remove ${member.name}`}
      save="Remove"
      harmful
      onClose={onClose}
      typed=""
      send={(how) => answered(api.POST("/api/people/{person}/close", { params: { path: { person: member.person }, ...terms(how) }, body: { reason: how.reason } }))}
      preview={() => <p>Their sessions end at once, and tokens that they made are refused. Keys that they made go on. They can be let in again.</p>}
    />
  );
}

export function LetInAgain({ member, onClose }: { member: Member; onClose: () => void }) {
  return (
    <EditDialog
      title={`Let ${member.name} in again`}
      save="Let in"
      onClose={onClose}
      typed=""
      send={(how) => answered(api.POST("/api/people/{person}/reopen", { params: { path: { person: member.person }, ...terms(how) }, body: { reason: how.reason } }))}
      preview={() => <p>They sign in again, as {roleName(member.role)}.</p>}
    />
  );
}

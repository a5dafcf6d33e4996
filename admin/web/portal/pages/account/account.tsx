// The member's own account: who they are here, their password, second factor, and the browsers that they are signed in at.

import { Button, PasswordInput } from "@mantine/core";
import { useMutation, useQuery } from "@tanstack/react-query";
import { useState, type FormEvent } from "react";
import { answered, api, Problem, setUpSecondFactor, type Schemas } from "../../../shared/api";
import { DataTable, type Column } from "../../../shared/components/data-table";
import { Section } from "../../../shared/components/section";
import { Unanswered } from "../../../shared/components/unanswered";
import { useSession } from "../../../shared/session";
import { sentence } from "../../../shared/words";
import { useZone } from "../../../shared/zone";
import { zonedMinute } from "../../../shared/zoned";
import { OldFigures } from "../../old-figures";
import { roleName, roleSays } from "../../roles";
import { useTenant } from "../../tenant";
import "./account.css";

type Browser = Schemas["PersonSessionFacts"];

const PASSWORD_CHARACTERS_MIN = 12;

export function AccountPage() {
  const { me } = useSession();
  const { name } = useTenant();
  return (
    <>
      <h1 className="page-title">Account</h1>
      <OldFigures />
      <Section title="You">
        <dl className="role-list">
          <div><dt>Name</dt><dd><bdi>{me.name}</bdi></dd></div>
          <div><dt>E-mail</dt><dd><bdi>{me.email ?? "none"}</bdi> <span className="soft">Another address is for an admin to invite.</span></dd></div>
          <div><dt>Role</dt><dd>{roleName(me.role)} in <bdi>{name}</bdi>: <span className="soft">{roleSays(me.role)}</span></dd></div>
        </dl>
      </Section>
      <Section title="Password"><Password /></Section>
      <Section title="Second factor"><SecondFactor /></Section>
      <Browsers />
    </>
  );
}

function Password() {
  const { me, renew } = useSession();
  const [told, setTold] = useState<{ field?: string; text: string } | null>(null);
  const [busy, setBusy] = useState(false);
  const errorOf = (field: string) => (told?.field === field ? told.text : undefined);
  const submit = async (event: FormEvent<HTMLFormElement>) => {
    event.preventDefault();
    const form = event.currentTarget;
    const given = new FormData(form);
    setBusy(true);
    setTold(null);
    try {
      const body = { password: String(given.get("password")), current: String(given.get("current") ?? "") };
      const { ended } = await answered(api.PUT("/api/me/password", { body }));
      form.reset();
      setTold({ text: `It is set.${ended ? ` ${ended === 1 ? "Another session" : `${ended} other sessions`} of yours ended.` : ""}` });
      await renew();
    } catch (error) {
      const problem = error instanceof Problem ? error : new Problem(0, String(error));
      setTold({ field: problem.field === "current" ? "current" : "password", text: sentence(problem.detail) });
    } finally {
      setBusy(false);
    }
  };
  if (!me.email) return <p className="soft">A password signs in with an e-mail address, and you have none: you sign in by links.</p>;
  const lead = me.has_password ? "You sign in with your e-mail address and a password." : "You have none. Without one you need a new link from an admin each time that a session ends, which is after 12 hours, a sign-out or another role.";
  return (
    <form className="account-form" onSubmit={(event) => void submit(event)}>
      <p className={me.has_password ? "soft" : ""}>{lead}</p>
      <input type="email" name="username" value={me.email} autoComplete="username" readOnly hidden />
      {me.has_password && <PasswordInput name="current" label="Present password" autoComplete="current-password" error={errorOf("current")} required visibilityToggleButtonProps={{ "aria-label": "Show the present password" }} />}
      <PasswordInput name="password" label="New password" description={`${PASSWORD_CHARACTERS_MIN} characters or more, of any kind.`} autoComplete="new-password" error={errorOf("password")} required maxLength={200} visibilityToggleButtonProps={{ "aria-label": "Show the new password" }} />
      {told && !told.field && <p role="status">{told.text}</p>}
      <Button type="submit" loading={busy}>{me.has_password ? "Change password" : "Set password"}</Button>
    </form>
  );
}

function SecondFactor() {
  const { me } = useSession();
  if (me.has_second_factor) return <p className="soft">It is set up: changes wait for a code of your authenticator where this console asks for one.</p>;
  return (
    <div className="account-form">
      <p className="soft">An app on your telephone shows a code that you give beside your password.</p>
      <Button variant="default" onClick={() => void setUpSecondFactor()}>Set up a second factor</Button>
    </div>
  );
}

function Browsers() {
  const zone = useZone().name;
  const path = { person: "me" };
  const asked = useQuery({ queryKey: ["my browsers"], queryFn: () => answered(api.GET("/api/people/{person}/sessions", { params: { path } })) });
  const end = useMutation<void, Problem, Browser[]>({
    mutationFn: async (browsers) => {
      for (const { session } of browsers) await answered(api.POST("/api/people/{person}/sessions/{session}/end", { params: { path: { ...path, session } }, body: {} }));
    },
    onSettled: () => asked.refetch(),
  });
  const rows = asked.data?.items;
  const others = rows?.filter((each) => !each.this) ?? [];
  const all = others.length > 1 && <button type="button" className="link" disabled={end.isPending} onClick={() => end.mutate(others)}>End the others</button>;
  return (
    <Section title="Where you are signed in" note={`Times are those of ${zone}. A session ends by itself after 12 hours.`} end={all}>
      {end.error && <p className="bad" role="alert">{sentence(end.error.detail)}</p>}
      {rows ? <DataTable label="Where you are signed in" columns={columns(zone, (each) => end.mutate([each]))} rows={rows} keyOf={(each) => each.session} /> : <Unanswered asked={asked} />}
    </Section>
  );
}

const columns = (zone: string, onEnd: (browser: Browser) => void): Column<Browser>[] => [
  { title: "Browser", cell: (each) => <span className="account-agent" title={each.agent}>{each.this ? <b>This one</b> : each.agent || "unknown"}</span> },
  { title: "Address", cell: (each) => each.address },
  { title: "Signed in", right: true, cell: (each) => zonedMinute(each.made, zone) },
  { title: "Last seen", right: true, cell: (each) => zonedMinute(each.seen, zone) },
  { title: "", number: true, phone: "end", cell: (each) => !each.this && <button type="button" className="link" aria-label={`End the session of ${each.address}`} onClick={() => onEnd(each)}>End</button> },
];

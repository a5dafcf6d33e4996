// Who is signed in, and the view that lets somebody in.

import { Button, Modal, PasswordInput, TextInput } from "@mantine/core";
import { useQueryClient } from "@tanstack/react-query";
import { createContext, use, useEffect, useState, type FormEvent, type ReactNode } from "react";
import { get, post, Problem, rememberToken } from "./api";
import { Mark } from "./components/mark";
import { useLate } from "./live";
import { SecondFactorDialog } from "./second-factor";
import { sentence } from "./words";
import "./session.css";

/** The answer of GET /api/me. `may`: names of operations; `gateway`: the URL that keys are used at. */
export type Me = {
  side: string;
  name: string;
  email: string | null;
  tenant: string | null;
  role: string;
  may: string[];
  csrf: string | null;
  second_factor: "shown" | "needed";
  gateway: string;
  has_password: boolean;
  has_second_factor: boolean;
};

/** `renew`: reads `me` again. */
type Session = { me: Me; may: (operation: string) => boolean; renew: () => Promise<void>; signOut: () => Promise<void> };
const SessionContext = createContext<Session | null>(null);

/** The session of whoever looks at this page. */
export function useSession(): Session {
  const session = use(SessionContext);
  if (!session) throw new Error("no session");
  return session;
}

type Opened = { link: string; invitation: string };

/** The codes of a link that was opened, which leave the address at once. */
function opened(): Opened {
  const given = new URLSearchParams(location.hash.slice(1));
  const found = { link: given.get("p") ?? "", invitation: given.get("i") ?? "" };
  if (found.link || found.invitation) history.replaceState(null, "", location.pathname + location.search);
  return found;
}

const LINK = opened();

/** Shows `children` to whoever is signed in, and lets others sign in. A session that ends leaves the page as it
 * is, with what was typed, under a dialog of its own. */
export function SignedIn({ children, product }: { children: ReactNode; product: string }) {
  const [me, setMe] = useState<Me | null>(null);
  const [ended, setEnded] = useState(false);
  const [state, setState] = useState<"asking" | "out" | "away">("asking");
  const [why, setWhy] = useState("");
  const late = useLate();
  const queries = useQueryClient();

  const enter = (who: Me) => {
    rememberToken(who.csrf);
    setMe((was) => (was && JSON.stringify(was) === JSON.stringify(who) ? was : who));
    setEnded(false);
    void queries.invalidateQueries();
  };
  const ask = async () => {
    try {
      if (LINK.link) {
        const code = LINK.link;
        LINK.link = "";
        await post("/api/sign-in", { by: "link", code });
      }
    } catch (error) {
      setWhy(error instanceof Problem ? error.detail : "");
    }
    try {
      enter((await get("/api/me")) as Me);
    } catch (error) {
      const refused = error instanceof Problem && error.status === 401;
      setState(refused ? "out" : "away");
      if (!refused) setTimeout(() => void ask(), 2000);
    }
  };
  useEffect(() => {
    void ask();
    const again = () => /^#[ip]=/.test(location.hash) && location.reload(); // a link opened in this very tab
    addEventListener("hashchange", again);
    return () => removeEventListener("hashchange", again);
  }, []);
  useEffect(
    () =>
      queries.getQueryCache().subscribe((event) => {
        const error = event.type === "updated" ? event.query.state.error : null;
        if (error instanceof Problem && error.status === 401) setEnded(true);
      }),
    [queries],
  );

  if (!me) {
    if (state === "asking") return late ? <Card product={product}><p role="status">Parley takes long to answer…</p></Card> : null;
    if (state === "away") return <Card product={product}><p role="status">Parley does not answer. It is tried again every 2 s.</p></Card>;
    return <Card product={product}><SignInForm product={product} why={why} onSignedIn={enter} /></Card>;
  }
  const renew = async () => enter((await get("/api/me")) as Me);
  const session: Session = {
    me,
    renew,
    may: (operation) => me.may.includes(operation),
    signOut: async () => {
      await post("/api/sign-out", {});
      location.assign(location.pathname);
    },
  };
  return (
    <SessionContext value={session}>
      {children}
      <SecondFactorDialog onShown={renew} />
      <Modal
        opened={ended}
        onClose={() => undefined}
        title="Your session has ended"
        withCloseButton={false}
        closeOnEscape={false}
        closeOnClickOutside={false}
        zIndex={500}
      >
        <p className="soft session-kept">What you typed is kept on this page. Sign in again to go on.</p>
        <SignInForm product={product} why="" onSignedIn={enter} titled={false} />
      </Modal>
    </SessionContext>
  );
}

function Card({ product, children }: { product: string; children: ReactNode }) {
  return (
    <main className="session-page">
      <div className="session-card">
        <p className="brand"><Mark /> <b>Parley</b> <span className="soft">{product}</span></p>
        {children}
      </div>
    </main>
  );
}

function SignInForm({ product, why, onSignedIn, titled = true }: { product: string; why: string; onSignedIn: (me: Me) => void; titled?: boolean }) {
  const invited = LINK.invitation;
  const [refused, setRefused] = useState(why);
  const [busy, setBusy] = useState(false);
  const [needsCode, setNeedsCode] = useState(false);
  const [needsPassword, setNeedsPassword] = useState(false);
  const submit = async (event: FormEvent<HTMLFormElement>) => {
    event.preventDefault();
    const given = Object.fromEntries(new FormData(event.currentTarget)) as Record<string, string>;
    setBusy(true);
    try {
      const how = invited ? { by: "invitation", code: invited, name: given["name"]?.trim(), password: given["password"] ?? "" } : { by: "password", ...given };
      await post("/api/sign-in", how);
      const me = (await get("/api/me").catch((error: unknown) => {
        throw error instanceof Problem && error.status === 401
          ? new Problem(401, "This browser kept no cookie: allow cookies here, then try again.")
          : error;
      })) as Me;
      LINK.invitation = "";
      onSignedIn(me);
    } catch (error) {
      const problem = error instanceof Problem ? error : new Problem(0, String(error));
      if (problem.field === "totp") setNeedsCode(true);
      if (invited && problem.field === "password") setNeedsPassword(true);
      setRefused(sentence(problem.detail));
    } finally {
      setBusy(false);
    }
  };
  return (
    <form className="session-form" onSubmit={(event) => void submit(event)}>
      {titled && <h1>{invited ? "You are invited" : "Sign in"}</h1>}
      {refused && <p role="alert" className="bad">{refused}</p>}
      {invited ? (
        <>
          <TextInput name="name" label="Your name" description="As others are to see it. The invitation is good once." required maxLength={200} autoComplete="name" data-autofocus />
          {needsPassword && <PasswordInput name="password" label="Password of your account" required autoComplete="current-password" visibilityToggleButtonProps={{ "aria-label": "Show the password" }} />}
        </>
      ) : (
        <>
          <TextInput name="email" type="email" label="E-mail" required autoComplete="username" />
          <PasswordInput name="password" label="Password" required autoComplete="current-password" visibilityToggleButtonProps={{ "aria-label": "Show the password" }} />
          {needsCode && <TextInput name="totp" label="Code of your authenticator" inputMode="numeric" autoComplete="one-time-code" />}
        </>
      )}
      <Button type="submit" loading={busy} fullWidth>{invited ? "Join" : "Sign in"}</Button>
      {!invited && (
        <p className="note">
          {product === "portal" ? "Without a password, ask an admin of your organisation for a new link, then set a password under Account." : <>Without a password, open a link that signs you in. On the platform's machine this prints one: <code>parley people link NAME</code></>}
        </p>
      )}
    </form>
  );
}

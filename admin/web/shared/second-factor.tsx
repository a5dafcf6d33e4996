// The second factor: a write that waits for a code asks for it here, and is then sent again. Who has no authenticator
// yet sets one up in the same dialog.

import { Button, Modal, TextInput } from "@mantine/core";
import { useEffect, useRef, useState, type FormEvent } from "react";
import { api, answered, askSecondFactorWith, post, Problem } from "./api";
import { sentence } from "./words";

type Secret = { secret: string; uri: string };

export function SecondFactorDialog({ onShown }: { onShown: () => Promise<void> }) {
  const waiting = useRef<((shown: boolean) => void) | null>(null);
  const [opened, setOpened] = useState<"code" | "setUp" | null>(null);
  useEffect(() => {
    askSecondFactorWith(
      (setUp = false) =>
        new Promise<boolean>((resolve) => {
          waiting.current?.(false);
          waiting.current = resolve;
          setOpened(setUp ? "setUp" : "code");
        }),
    );
    return () => askSecondFactorWith(null);
  }, []);
  const end = (shown: boolean) => {
    setOpened(null);
    waiting.current?.(shown);
    waiting.current = null;
  };
  return (
    <Modal opened={opened !== null} onClose={() => end(false)} title={opened === "setUp" ? "Set up a second factor" : "Show your second factor"} zIndex={450}>
      {opened && <CodeForm setUp={opened === "setUp"} onShown={async () => {
        await onShown();
        end(true);
      }} />}
    </Modal>
  );
}

function CodeForm({ setUp, onShown }: { setUp: boolean; onShown: () => Promise<void> }) {
  const [secret, setSecret] = useState<Secret | null>(null);
  const [refused, setRefused] = useState("");
  const [busy, setBusy] = useState(false);
  const trying = async (what: () => Promise<void>) => {
    setBusy(true);
    setRefused("");
    try {
      await what();
    } catch (error) {
      setRefused(error instanceof Problem ? sentence(error.detail) : String(error));
    } finally {
      setBusy(false);
    }
  };
  const submit = (event: FormEvent<HTMLFormElement>) => {
    event.preventDefault();
    const code = String(new FormData(event.currentTarget).get("code")).replaceAll(" ", "");
    void trying(async () => {
      if (secret) await answered(api.POST("/api/me/totp/confirm", { body: { code } }));
      else await post("/api/second-factor", { totp: code });
      await onShown();
    });
  };
  const enroll = () => void trying(async () => setSecret((await answered(api.POST("/api/me/totp"))) as Secret));
  const begun = useRef(false);
  useEffect(() => {
    if (setUp && !begun.current) enroll();
    begun.current = true;
  });
  return (
    <form className="session-form" onSubmit={submit}>
      <p className="soft">{setUp && "It is set up once you give a code of it. "}Changes wait for the code that your authenticator shows now.</p>
      {secret && (
        <p>
          Give your authenticator this key, or <a href={secret.uri}>open it there</a>: <code className="secret">{secret.secret}</code>
        </p>
      )}
      <TextInput name="code" label="Code" inputMode="numeric" autoComplete="one-time-code" required maxLength={10} error={refused} data-autofocus />
      <Button type="submit" loading={busy}>Go on</Button>
      {!secret && !setUp && <button type="button" className="link" onClick={enroll}>No authenticator yet? Set one up</button>}
    </form>
  );
}

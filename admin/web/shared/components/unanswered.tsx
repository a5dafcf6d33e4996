// What stands in place of an answer: that it is waited for, or what happened, with a button that asks again.

import { useRef, type ReactNode } from "react";
import { Problem } from "../api";
import { sentence } from "../words";

/** A question, as the cache of questions has it. */
export type Question = { data: unknown; error: Error | null; errorUpdateCount: number; refetch: () => unknown };

/** Why a question has no answer; null where it has one, or none was refused yet. It stays while it is asked again. */
export function useFailure({ data, error, errorUpdateCount }: Question): Problem | null {
  const last = useRef<Problem | null>(null);
  if (data !== undefined || errorUpdateCount === 0) last.current = null;
  else if (error) last.current = error instanceof Problem ? error : new Problem(0, String(error));
  return last.current;
}

export function TryAgain({ ask }: { ask: () => unknown }) {
  return <button type="button" className="link try-again" onClick={() => void ask()}>Try again</button>;
}

/** `loading`: what is shown until it is known that there is no answer. */
export function Unanswered({ asked, loading = <span className="skeleton" role="status" aria-label="Loading" /> }: { asked: Question; loading?: ReactNode }) {
  const failure = useFailure(asked);
  return failure ? <Failed problem={failure} ask={asked.refetch} /> : loading;
}

export function Failed({ problem, ask }: { problem: Problem; ask: () => unknown }) {
  return <p className="bad" role="alert">{sentence(problem.detail)} <TryAgain ask={ask} /></p>;
}

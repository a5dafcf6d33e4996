/** Parley's mark: a speech bubble in the accent. */
export function Mark() {
  return (
    <svg width="18" height="18" viewBox="0 0 18 18" aria-hidden="true">
      <path fill="var(--accent)" d="M4 2h10a2.5 2.5 0 0 1 2.5 2.5v6A2.5 2.5 0 0 1 14 13H8l-4.2 3.2c-.5.4-1.3 0-1.3-.6V4.5A2.5 2.5 0 0 1 4 2Z" />
    </svg>
  );
}

// A bar: how much of something is used. Grey while all is well, amber near its end, red at it.

import "./meter.css";

const [NEAR, FULL] = [0.9, 1];

/** `share`: 0 to 1, more than 1 where more than the limit is used. */
export function Meter({ share, label }: { share: number; label: string }) {
  const filled = Math.max(0, Math.min(1, share)) * 100;
  const state = share >= FULL ? "full" : share >= NEAR ? "near" : "";
  return (
    <span className={`meter ${state}`} role="meter" aria-label={label} aria-valuemin={0} aria-valuemax={100} aria-valuenow={Math.round(filled)}>
      <span style={{ width: `${filled}%` }} />
    </span>
  );
}

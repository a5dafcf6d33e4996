// A bar: how much of something is used. Grey while all is well, amber near its end, red at it.

import "./meter.css";

const [NEAR, FULL] = [0.9, 1];

/** `share`: 0 to 1, more than 1 where more than the limit is used. `tone`: a colour of its own, where being full is no harm. */
export function Meter({ share, label, tone }: { share: number; label: string; tone?: "calm" | "near" | "full" }) {
  const filled = Math.max(0, Math.min(1, share)) * 100;
  const state = tone ?? (share >= FULL ? "full" : share >= NEAR ? "near" : "");
  return (
    <span className={`meter ${state}`} role="meter" aria-label={label} aria-valuemin={0} aria-valuemax={100} aria-valuenow={Math.round(filled)}>
      <span style={{ width: `${filled}%` }} />
    </span>
  );
}

// Why a month costs more or less than the one before it: a table with a bar a row, whose zero is what the earlier days cost.

import { NativeSelect } from "@mantine/core";
import { Section } from "../../../shared/components/section";
import { Unanswered } from "../../../shared/components/unanswered";
import { answered, api, type Schemas } from "../../../shared/api";
import { centsOf, centsText, changeText } from "../../../shared/cents";
import { useLive } from "../../../shared/live";
import { StepBar, stepsOf, type Step } from "./bridge-bars";
import { monthName } from "./months";
import "./why.css";

type Bridge = Schemas["SpendBridge"];
export type Against = Bridge["against"];
type Props = { tenant: string; month?: string | undefined; against?: Against | undefined; change: (changed: { against: Against }) => void };

const EVERY_MS = 30_000;
const TITLES: Record<Bridge["steps"][number]["part"], string> = { volume: "Volume", mix: "Mix", price: "Price", tiers: "Tiers", corrections: "Corrections" };

export function WhySection({ tenant, month, against, change }: Props) {
  const query = { ...(month ? { month } : {}), ...(against ? { against } : {}) };
  const asked = useLive(["spend.bridge", tenant, query], () => answered(api.GET("/api/tenants/{tenant}/spend/bridge", { params: { path: { tenant }, query } })), EVERY_MS);
  const { data } = asked;
  if (!data) return <Section title="Why is it more or less than the month before?"><Unanswered asked={asked} /></Section>;
  const earlier = monthName(data.before.month);
  const choices = [{ value: "days", label: `With the same days of ${earlier}` }, { value: "month", label: `With all of ${earlier}` }];
  return (
    <Section title={titleOf(data, earlier)} end={<NativeSelect className="why-against" size="xs" aria-label="Compared" value={data.against} data={choices} onChange={(event) => change({ against: event.currentTarget.value as Against })} />}>
      <Lead bridge={data} />
      {data.after.days > 0 && <BridgeTable bridge={data} />}
    </Section>
  );
}

/** What the later days cost more, in the cents that are shown. */
const differenceOf = (bridge: Bridge) => centsOf(bridge.after.cost) - centsOf(bridge.before.cost);

function titleOf(bridge: Bridge, earlier: string): string {
  const difference = differenceOf(bridge);
  if (bridge.after.days === 0) return `Why is it more or less than ${earlier}?`;
  if (difference === 0n) return `Why is it as much as ${earlier}?`;
  return `Why is it ${difference > 0n ? "more" : "less"} than ${earlier}?`;
}

function Lead({ bridge }: { bridge: Bridge }) {
  const { before, after, open_day: open } = bridge;
  const left = open ? " Today is left out, it is not over." : "";
  if (after.days === 0) return <p className="soft">No day of {monthName(after.month)} is over yet.</p>;
  const difference = differenceOf(bridge);
  if (difference === 0n) return <p className="soft">{after.name} cost as much as {before.name}.{left}</p>;
  const size = centsText(difference < 0n ? -difference : difference);
  return <p className="soft">{after.name} cost <b className="why-size">{size}</b> {difference > 0n ? "more" : "less"} than {before.name}. {mostOf(bridge)}{left}</p>;
}

/** The part that makes more than half of it. */
function mostOf(bridge: Bridge): string {
  const whole = BigInt(bridge.difference.nano);
  const part = bridge.steps.find((step) => BigInt(step.amount.nano) * whole > 0n && absolute(BigInt(step.amount.nano)) * 2n > absolute(whole));
  return part ? `Most of it is ${part.part}.` : "";
}

const absolute = (value: bigint) => (value < 0n ? -value : value);

function BridgeTable({ bridge }: { bridge: Bridge }) {
  const steps = stepsOf(bridge.before.cost, bridge.after.cost, bridge.steps.map((step) => step.amount));
  const rounding = differenceOf(bridge) - bridge.steps.reduce((sum, step) => sum + centsOf(step.amount), 0n);
  return (
    <table className="table why">
      <thead><tr><th scope="col">Part</th><th scope="col" className="why-why">Why</th><th scope="col">Step</th><th scope="col" className="number">Amount</th></tr></thead>
      <tbody>
        <tr><th scope="row">{bridge.before.name}</th><td className="why-why" /><td className="why-step"><StepBar steps={steps} at={steps.start} /></td><td className="number">{centsText(centsOf(bridge.before.cost))}</td></tr>
        {bridge.steps.map((step, index) => <PartRow key={step.part} title={TITLES[step.part]} why={step.why} amount={changeText(centsOf(step.amount))} steps={steps} at={steps.parts[index] as Step} />)}
        {rounding !== 0n && <tr className="rounding"><th scope="row">Rounding to cents</th><td className="why-why" /><td className="why-step"><StepBar steps={steps} at={steps.start} /></td><td className="number">{changeText(rounding)}</td></tr>}
      </tbody>
      <tfoot><tr><th scope="row">{bridge.after.name}</th><td className="why-why" /><td className="why-step"><StepBar steps={steps} at={steps.end} /></td><td className="number">{centsText(centsOf(bridge.after.cost))}</td></tr></tfoot>
    </table>
  );
}

type PartProps = { title: string; why: string; amount: string; steps: ReturnType<typeof stepsOf>; at: Step };

/** On a phone the reason is a row of its own. */
function PartRow({ title, why, amount, steps, at }: PartProps) {
  return (
    <>
      <tr className="why-part"><th scope="row">{title}</th><td className="why-why soft">{why}</td><td className="why-step"><StepBar steps={steps} at={at} /></td><td className="number">{amount}</td></tr>
      <tr className="why-row"><td colSpan={3} className="soft">{why}</td></tr>
    </>
  );
}

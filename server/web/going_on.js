// An answer that went on behind its length limit: its parts are one article, parsed as one text. Pure.

/** @typedef {import("./answer_view.js").Shown} Shown */

/**
 * What is shown of two parts: the second one's state with the texts of both.
 * @param {Shown | null} before
 * @param {Shown} answer
 * @returns {Shown}
 */
export function joined(before, answer) {
  if (before === null) return answer;
  const { id, status, reason, queue, error, cancelling, verified, paused, movedBecause, safety } = answer;
  const behind = Array.from(before.text).length; // places count code points
  const flags = (answer.flags ?? []).map((flag) => ({ ...flag, p: flag.p + behind }));
  return {
    ...{ id, status, reason, queue, error, cancelling, verified, paused, movedBecause, safety },
    text: before.text + answer.text,
    flags: [...(before.flags ?? []), ...flags],
    usage: sum(before.usage, answer.usage),
    cost: before.cost && answer.cost ? { ...answer.cost, nano: before.cost.nano + answer.cost.nano } : answer.cost,
  };
}

/**
 * What both parts used; before the second one's end nothing yet.
 * @param {Shown["usage"]} before
 * @param {Shown["usage"]} after
 */
function sum(before, after) {
  if (!before || !after) return after;
  const { input, output, total } = before;
  return { input: input + after.input, output: output + after.output, total: total + after.total };
}

/**
 * Where an answer was cut.
 * @param {Shown["usage"]} usage of the part that was cut
 */
export function cutText(usage) {
  return usage ? `Cut off at its length limit, ${usage.output.toLocaleString("en")} tokens.` : "Cut off at its length limit.";
}

// What the address of the keys' page holds: a part of a name, and whether ended keys are shown. Pure.

export type KeySearch = { name?: string; ended?: true };

export function keySearchOf(given: Record<string, unknown>): KeySearch {
  return {
    ...(typeof given["name"] === "string" && given["name"] ? { name: given["name"].slice(0, 100) } : {}),
    ...(given["ended"] === true ? { ended: true } : {}),
  };
}

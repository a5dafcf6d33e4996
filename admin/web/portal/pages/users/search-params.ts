// What the address of the page of users holds: a part of a name. Pure.

export type UserSearch = { name?: string };

export const userSearchOf = (given: Record<string, unknown>): UserSearch => (typeof given["name"] === "string" && given["name"] ? { name: given["name"].slice(0, 100) } : {});

// What the address of the page of projects holds: a part of a project's name, and of a cost center's code or name. Pure.

export type ProjectSearch = { name?: string; center?: string };

const text = (given: unknown, name: string) => (typeof given === "string" && given ? { [name]: given.slice(0, 100) } : {});

export const projectSearchOf = (given: Record<string, unknown>): ProjectSearch => ({ ...text(given["name"], "name"), ...text(given["center"], "center") });

// As whom the page talks. A browser has one sign-in for all of its tabs, so whoever signs in in one of them is whom the
// server takes the others for. Each reply says whom it is for (docs/protocol.md, `x-parley-person`).

const HEADER = "x-parley-person";
const others = new BroadcastChannel("parley-person");
let person = "";
let over = false;
let onOther = () => {};

/**
 * From now on the page is this person's. Tabs that are somebody else's hear it, and end.
 * @param {string} id
 * @param {() => void} leave somebody else has signed in: called once
 */
export function actAs(id, leave) {
  person = id;
  onOther = leave;
  others.onmessage = ({ data }) => void isAnother(data);
  others.postMessage(id);
}

/**
 * Whether a reply is for somebody else, or the page has ended for one that was.
 * @param {Response} reply
 */
export function isForAnother(reply) {
  return isAnother(reply.headers.get(HEADER));
}

/**
 * The name under which this browser stores something of the person.
 * @param {string} name
 */
export function ownKey(name) {
  return `${name}:${person}`;
}

/** @param {unknown} id */
function isAnother(id) {
  if (person !== "" && !over && typeof id === "string" && id !== person) {
    over = true;
    onOther();
  }
  return over;
}

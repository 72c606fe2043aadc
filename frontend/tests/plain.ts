/** node:assert/strict, for which a no-break space is a space and a word joiner nothing: tests are written with those of a keyboard. */
import strict from "node:assert";

function plain(value: unknown): unknown {
  if (typeof value === "string") return value.replaceAll("\u00a0", " ").replaceAll("\u2060", "");
  if (Array.isArray(value)) return value.map(plain);
  if (value && Object.getPrototypeOf(value) === Object.prototype) return Object.fromEntries(Object.entries(value).map(([key, one]) => [key, plain(one)]));
  return value;
}

const told = strict.strict;
export default Object.assign((value: unknown, message?: string) => told(value, message), told, {
  equal: (a: unknown, b: unknown, message?: string) => (typeof a === "string" ? told.equal(plain(a), plain(b), message) : told.equal(a, b, message)),
  deepEqual: (a: unknown, b: unknown, message?: string) => told.deepEqual(plain(a), plain(b), message),
  match: (text: string, pattern: RegExp, message?: string) => told.match(String(plain(text)), pattern, message),
});

/** The colours of the values: readable on every ground, and apart for colour-blind people, too. */
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";

const CSS = readFileSync("src/styles/base.css", "utf8");
const [LIGHT = "", SYSTEM = "", CHOSEN = ""] = CSS.split(/:root(?=[\s:[])/).slice(1);
const KINDS = ["util", "memory", "heat", "power"];
const APART = 0.08; // in OKLab: four times what an eye can just tell

type Triple = [number, number, number];

/** Linear light of a colour as a dichromat sees it (Machado, Oliveira and Fernandes 2009). */
const EYES: Record<string, Triple[]> = {
  usual: [[1, 0, 0], [0, 1, 0], [0, 0, 1]],
  protanopia: [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]],
  deuteranopia: [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.01182, 0.04294, 0.968881]],
  tritanopia: [[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602], [0.004733, 0.691367, 0.3039]],
};
const CONES: Triple[] = [[0.4122214708, 0.5363325363, 0.0514459929], [0.2119034982, 0.6806995451, 0.1073969566], [0.0883024619, 0.2817188376, 0.6299787005]];
const LAB: Triple[] = [[0.2104542553, 0.793617785, -0.0040720468], [1.9779984951, -2.428592205, 0.4505937099], [0.0259040371, 0.7827717662, -0.808675766]];

const times = (by: Triple[], [a, b, c]: Triple) => by.map(([x, y, z]) => x * a + y * b + z * c) as Triple;

function linear(css: string, name: string): Triple {
  const hex = new RegExp(`--${name}: #([0-9a-f]{6})`).exec(css)?.[1];
  assert.ok(hex, `--${name} is a colour`);
  return [0, 2, 4].map((at) => {
    const part = parseInt(hex.slice(at, at + 2), 16) / 255;
    return part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4;
  }) as Triple;
}

function seen(colour: Triple, eye: Triple[]): Triple {
  const light = times(eye, colour).map((one) => Math.min(1, Math.max(0, one))) as Triple;
  return times(LAB, times(CONES, light).map(Math.cbrt) as Triple);
}

const brightness = ([r, g, b]: Triple) => 0.2126 * r + 0.7152 * g + 0.0722 * b + 0.05;
const contrast = (a: Triple, b: Triple) => Math.max(brightness(a), brightness(b)) / Math.min(brightness(a), brightness(b));

for (const [theme, css] of [["light", LIGHT], ["dark", CHOSEN]] as const) {
  test(`${theme}: a value's colour can be read on the page and on a panel`, () => {
    for (const kind of KINDS) {
      for (const ground of ["ground", "panel"]) {
        const found = contrast(linear(css, `value-${kind}`), linear(css, ground));
        assert.ok(found >= 4.5, `${kind} on ${ground}: ${found.toFixed(2)}`);
      }
    }
  });
  for (const [name, eye] of Object.entries(EYES)) {
    test(`${theme}, ${name}: no two values look alike`, () => {
      for (const [place, one] of KINDS.entries()) {
        for (const other of KINDS.slice(place + 1)) {
          const [a, b] = [one, other].map((kind) => seen(linear(css, `value-${kind}`), eye)) as [Triple, Triple];
          const far = Math.hypot(a[0] - b[0], a[1] - b[1], a[2] - b[2]);
          assert.ok(far >= APART, `${one} and ${other}: ${far.toFixed(3)}`);
        }
      }
    });
  }
}

test("the dark theme is the same whether the system or the person chose it", () => {
  const all = (css: string) => [...css.matchAll(/--[\w-]+: [^;]+;/g)].map(String);
  assert.deepEqual(all(SYSTEM), all(CHOSEN.split("}", 1)[0] ?? ""));
});

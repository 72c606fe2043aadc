/** What is shown, to take away: as values (CSV) or as a picture (PNG) of the charts as they stand. */
import type { Point } from "./data";
import { stampOf } from "./span";

/** One device's columns by what they are called, such as "power W mean". */
export interface Sheet {
  gpu: string;
  at: number[];
  columns: Record<string, Point[]>;
}

const cell = (text: string): string => (/[",\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text);

/** A row for each time of each device; an empty cell where nothing was read. */
export function csvOf(sheets: Sheet[], since: number, until: number): string {
  const names = [...new Set(sheets.flatMap((sheet) => Object.keys(sheet.columns)))];
  const rows = sheets.flatMap((sheet) => sheet.at.flatMap((at, place) => {
    if (at < since || at > until) return [];
    const values = names.map((name) => sheet.columns[name]?.[place]);
    return [[stampOf(at), cell(sheet.gpu), ...values.map((value) => (typeof value === "number" ? String(Number(value.toFixed(3))) : ""))].join(",")];
  }));
  return [["time", "gpu", ...names.map(cell)].join(","), ...rows, ""].join("\n");
}

/** "andon SIMULATED node4 2026-11-17T10-15": what a file is called. */
export function fileName(title: string, until: number, simulated: boolean): string {
  const words = ["andon", simulated && "SIMULATED", title, stampOf(until).slice(0, 16)].filter(Boolean).join(" ");
  return words.replaceAll(":", "-").replace(/[^\w.-]+/g, "_");
}

export function save(content: Blob, name: string): void {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(content);
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
}

const MARGIN = 20;
const HEAD = 48;
const SCALE = 2;
const LEFT_OUT = ".ranges, .surface, .hidden, .readout, .notice";

/** Everything of an element that is drawn or written, with a title above it. */
export function pictureOf(place: HTMLElement, title: string): Promise<Blob | null> {
  const frame = place.getBoundingClientRect();
  const shown = [...place.querySelectorAll<HTMLElement>("figure")].map((one) => one.getBoundingClientRect());
  const top = Math.min(...shown.map((one) => one.top));
  const canvas = document.createElement("canvas");
  canvas.width = (frame.width + 2 * MARGIN) * SCALE;
  canvas.height = (Math.max(...shown.map((one) => one.bottom)) - top + HEAD + 2 * MARGIN) * SCALE;
  const ctx = canvas.getContext("2d") as CanvasRenderingContext2D;
  const root = getComputedStyle(document.documentElement);
  ctx.fillStyle = root.getPropertyValue("--ground");
  ctx.fillRect(0, 0, canvas.width, canvas.height);
  ctx.scale(SCALE, SCALE);
  ctx.fillStyle = root.getPropertyValue("--ink");
  ctx.font = `600 18px ${root.getPropertyValue("--font")}`;
  ctx.fillText(title, MARGIN, MARGIN + 18, frame.width);
  ctx.translate(MARGIN - frame.left, MARGIN + HEAD - top);
  for (const figure of place.querySelectorAll("figure")) paint(ctx, figure);
  return new Promise((done) => canvas.toBlob(done, "image/png"));
}

function paint(ctx: CanvasRenderingContext2D, element: Element): void {
  if (element.matches(LEFT_OUT)) return;
  const style = getComputedStyle(element);
  const box = element.getBoundingClientRect();
  if (style.display === "none" || style.visibility === "hidden") return;
  if (element instanceof HTMLCanvasElement) ctx.drawImage(element, box.left, box.top, box.width, box.height);
  else if (element instanceof SVGGeometryElement) paintShape(ctx, element, style);
  else if (element instanceof HTMLElement) {
    ctx.fillStyle = style.backgroundColor;
    ctx.fillRect(box.left, box.top, box.width, box.height);
  }
  for (const child of element.childNodes) {
    if (child instanceof Element) paint(ctx, child);
    else if (child.textContent?.trim()) paintText(ctx, child, style);
  }
}

function paintShape(ctx: CanvasRenderingContext2D, shape: SVGGeometryElement, style: CSSStyleDeclaration): void {
  const drawn = shape instanceof SVGRectElement
    ? `M${shape.x.baseVal.value} ${shape.y.baseVal.value}h${shape.width.baseVal.value}v${shape.height.baseVal.value}h${-shape.width.baseVal.value}z`
    : shape.getAttribute("d") ?? circle(shape);
  const path = new Path2D();
  path.addPath(new Path2D(drawn), shape.getScreenCTM() ?? undefined);
  ctx.save();
  ctx.globalAlpha = Number(style.opacity);
  if (style.fill !== "none" && !style.fill.startsWith("url")) (ctx.fillStyle = style.fill, ctx.fill(path));
  if (style.stroke !== "none") {
    ctx.strokeStyle = style.stroke;
    ctx.lineWidth = parseFloat(style.strokeWidth);
    ctx.setLineDash(style.strokeDasharray === "none" ? [] : style.strokeDasharray.split(/[ ,]+/).map(parseFloat));
    ctx.stroke(path);
  }
  ctx.restore();
}

function circle(shape: SVGGeometryElement): string {
  const [x, y, r] = ["cx", "cy", "r"].map((name) => Number(shape.getAttribute(name) ?? 0)) as [number, number, number];
  return `M${x - r} ${y}a${r} ${r} 0 1 0 ${2 * r} 0a${r} ${r} 0 1 0 ${-2 * r} 0z`;
}

function paintText(ctx: CanvasRenderingContext2D, node: ChildNode, style: CSSStyleDeclaration): void {
  const range = document.createRange();
  range.selectNodeContents(node);
  const box = range.getBoundingClientRect();
  ctx.font = `${style.fontWeight} ${style.fontSize} ${style.fontFamily}`;
  ctx.fillStyle = style.color;
  ctx.textBaseline = "middle";
  ctx.fillText((node.textContent as string).replace(/\s+/g, " "), box.left, box.top + box.height / 2 + 1);
}

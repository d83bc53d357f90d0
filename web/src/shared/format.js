// Numbers and values as texts.
const numbers = new Intl.NumberFormat("en");

export const count = (value) => numbers.format(value);

export function percent(share) {
  if (share > 0 && share < 0.005) return "<1 %";
  if (share < 1 && share >= 0.995) return ">99 %";
  return `${Math.round(share * 100)} %`;
}

export const plural = (value, word) => `${count(value)} ${word}${value === 1 ? "" : "s"}`;

export function shown(value) {
  if (value === null || value === undefined) return "";
  return typeof value === "object" ? JSON.stringify(value) : String(value);
}

export const same = (one, other) => one === other || JSON.stringify(one) === JSON.stringify(other);

const short = new Intl.NumberFormat("en", { notation: "compact", maximumFractionDigits: 1 });

export const compact = (value) => short.format(value);

export const rate = (value) => (value > 0 && value < 10 ? value.toFixed(1) : compact(value));

export function seconds(value) {
  if (value === null || value === undefined) return "–";
  if (value < 1) return `${Math.round(value * 1000)} ms`;
  if (value < 120) return `${value.toFixed(value < 10 ? 1 : 0)} s`;
  return value < 7200 ? `${Math.round(value / 60)} min` : `${Math.round(value / 3600)} h`;
}

export const bytes = (value) => (value < 1024 ? `${value} B` : value < 1 << 20 ? `${Math.round(value / 1024)} KiB` : `${(value / (1 << 20)).toFixed(1)} MiB`);

export const time = (text) => new Date(text).toLocaleString([], { dateStyle: "medium", timeStyle: "medium" });

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

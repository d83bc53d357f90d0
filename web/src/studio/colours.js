// Fields have colours in the order in which they occur in the lines; after ten they repeat.
const COLOURS = 10;

export function fieldColours(rows) {
  const order = new Map();
  for (const row of rows) {
    for (const [field] of row.spans ?? []) {
      if (!order.has(field)) order.set(field, order.size % COLOURS);
    }
  }
  return order;
}

/** Spans → pieces of the text one after the other; of nested spans the outer one is shown around the inner ones. */
export function pieces(text, spans) {
  const found = [];
  const points = [...text]; // Python counts characters, JavaScript UTF-16 units
  const slice = (from, to) => points.slice(from, to).join("");
  let at = 0;
  for (const [field, start, end] of spans) {
    if (start < at) continue;
    if (start > at) found.push({ text: slice(at, start) });
    found.push({ text: slice(start, end), field });
    at = end;
  }
  if (at < points.length) found.push({ text: slice(at, points.length) });
  return found;
}

export function cut(text, at) {
  const points = [...text];
  return [points.slice(0, at).join(""), points.slice(at).join("")];
}

// The lines that two texts do not share, by the longest common subsequence; large texts are compared as a whole.
const MAX_CELLS = 4_000_000;

export function difference(before, after) {
  const [old, now] = [before.split("\n"), after.split("\n")];
  if (old.length * now.length > MAX_CELLS) return [...old.map((text) => ({ sign: "-", text })), ...now.map((text) => ({ sign: "+", text }))];
  const width = now.length + 1;
  const common = new Uint32Array((old.length + 1) * width);
  for (let a = old.length - 1; a >= 0; a -= 1) {
    for (let b = now.length - 1; b >= 0; b -= 1) {
      common[a * width + b] = old[a] === now[b] ? common[(a + 1) * width + b + 1] + 1 : Math.max(common[(a + 1) * width + b], common[a * width + b + 1]);
    }
  }
  const rows = [];
  let [a, b] = [0, 0];
  while (a < old.length || b < now.length) {
    if (a < old.length && b < now.length && old[a] === now[b]) rows.push({ sign: " ", text: old[a] }), (a += 1), (b += 1);
    else if (b < now.length && (a === old.length || common[a * width + b + 1] >= common[(a + 1) * width + b])) rows.push({ sign: "+", text: now[b] }), (b += 1);
    else rows.push({ sign: "-", text: old[a] }), (a += 1);
  }
  return rows;
}

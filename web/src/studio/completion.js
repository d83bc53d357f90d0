// Completion in YAML from the JSON Schema of pipelines: options of the component around the cursor, types, choices, fields.
let schema = null;
const load = () => (schema ??= fetch("/static/schema.json").then((response) => response.json()));

const FAMILIES = { source: "source", sources: "source", steps: "step", sink: "sink", sinks: "sink", tables: "table", dead_letters: "sink" };

export async function completeOption(context, fieldsAt) {
  const line = context.state.doc.lineAt(context.pos);
  const before = line.text.slice(0, context.pos - line.from);
  const rows = context.state.doc.toString().split("\n");
  const inner = flowAround(before, line.text.slice(before.length));
  const around = inner ? { ...contextOf(rows, line.number - 1), ...inner.around(rows, line.number - 1) } : contextOf(rows, line.number - 1);
  const entry = inner ? inner.entry : before;
  const value = /^\s*(?:- )?([\w.]+):\s+("?)([^"]*)$/.exec(entry);
  const { $defs, properties } = await load();
  if (value) {
    const from = context.pos - /[\w.]*$/.exec(value[3])[0].length;
    const options = value[1] === "type" ? types($defs, around) : choices(optionSchema($defs, around, value[1]));
    const fields = fieldsAt(line.number).map((field) => ({ label: field.name, detail: field.type, type: "field", boost: -1 }));
    const found = options.length ? options : fields;
    return found.length && (context.explicit || value[3]) ? { from, options: found, validFor: /^[\w.]*$/ } : null;
  }
  const key = /^\s*(?:- )?([\w.]*)$/.exec(entry);
  if (!key || (!context.explicit && !key[1])) return null;
  const known = around.family ? $defs[`${around.family}.${around.type}`]?.properties : around.depth === 0 ? properties : null;
  const options = Object.entries(known ?? {}).map(([label, one]) => ({ label, apply: `${label}: `, info: one.description, type: "option" }));
  if (around.family && !around.type) options.push({ label: "type", apply: "type: " });
  return options.length ? { from: context.pos - key[1].length, options, validFor: /^[\w.]*$/ } : null;
}

/** The mapping in braces around the cursor, such as ``{type: file, pa``: its entry at the cursor, and its component; null outside of
 * braces and in inner ones, which are not components. */
function flowAround(before, after) {
  const open = [];
  for (let at = 0; at < before.length; at += 1) {
    if (before[at] === "{") open.push(at);
    else if (before[at] === "}") open.pop();
  }
  if (open.length !== 1) return null;
  const inside = before.slice(open[0] + 1);
  const type = /(?:^|,)\s*type:\s*"?(\w+)/.exec(`${inside}${after}`)?.[1] ?? null;
  return {
    entry: inside.slice(inside.lastIndexOf(",") + 1),
    around: (rows, at) => {
      const owner = /^\s*([\w.-]+)\s*:\s*$/.exec(before.slice(0, open[0]))?.[1];
      const family = FAMILIES[owner] ?? contextOf([...rows.slice(0, at), `${/^\s*/.exec(before)[0]}  x:`], at).family;
      return { family, type: family && type };
    },
  };
}

/** The component around a row: its family by the key above it, and the type that it has. */
function contextOf(rows, at) {
  const depth = indentOf(rows[at]);
  let family = null;
  let level = depth;
  for (let row = at; row >= 0 && level > 0; row -= 1) {
    const indent = rows[row].search(/\S/);
    if (indent < 0 || indent >= level) continue;
    level = indent;
    const name = /^\s*(?:- )?([\w.-]+)\s*:/.exec(rows[row])?.[1];
    if (FAMILIES[name] && !family) family = FAMILIES[name];
  }
  return { depth, family, type: family && typeAround(rows, at, depth) };
}

const indentOf = (row) => Math.max(0, row.replace(/^(\s*)- /, "$1  ").search(/\S|$/));

function typeAround(rows, at, depth) {
  const typeOf = (row) => /^\s*(?:- )?type:\s*"?(\w+)/.exec(rows[row])?.[1];
  const scan = (step) => {
    for (let row = at; row >= 0 && row < rows.length; row += step) {
      if (!rows[row].trim()) continue;
      if (indentOf(rows[row]) < depth) return undefined;
      if (step > 0 && row > at && /^\s*- /.test(rows[row])) return undefined;
      if (indentOf(rows[row]) === depth && typeOf(row)) return typeOf(row);
      if (step < 0 && /^\s*- /.test(rows[row]) && indentOf(rows[row]) === depth) return undefined;
    }
    return undefined;
  };
  return scan(-1) ?? scan(1);
}

function types($defs, { family }) {
  return Object.keys($defs)
    .filter((name) => name.startsWith(`${family}.`))
    .map((name) => ({ label: name.slice(family.length + 1), info: $defs[name].description?.split("\n")[0], type: "type" }));
}

const optionSchema = ($defs, { family, type }, name) => (family && type ? $defs[`${family}.${type}`]?.properties?.[name] : null);

function choices(option) {
  if (!option) return [];
  const all = [option, ...(option.anyOf ?? [])].flatMap((one) => (one.type === "boolean" ? ["true", "false"] : one.enum ?? (one.const ? [one.const] : [])));
  return all.map((label) => ({ label: String(label), type: "choice" }));
}

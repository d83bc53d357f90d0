// Steps to add: what each is for, and its text for the fields that reach it.
const first = (fields, test, otherwise) => fields.find(test)?.name ?? fields[0]?.name ?? otherwise;
const text = (fields) => first(fields, (field) => field.type === "string" && field.name !== "message", "message");
const time = (fields) => fields.find((field) => field.type.startsWith("timestamp"))?.name;

export const TEMPLATES = {
  filter: { about: "keep the events for which a condition is true", lines: (fields) => ["type: filter", `where: ${text(fields)} is not null`] },
  set: { about: "compute fields", lines: (fields) => ["type: set", "fields:", `  copy_of_${text(fields).replaceAll(/\W/g, "_")}: upper(${text(fields)})`] },
  rename: { about: "give fields other names", lines: (fields) => ["type: rename", `fields: {${text(fields)}: renamed}`] },
  drop: { about: "remove fields", lines: (fields) => ["type: drop", `fields: [${text(fields)}]`] },
  rules: {
    about: "match many rules, Sigma or SQL",
    lines: (fields) => ["type: rules", "rules:", `  - {name: my rule, where: "${text(fields)} like '%root%'", level: high}`, "output: annotate"],
  },
  lookup: {
    about: "add columns of a table",
    lines: (fields) => ["type: lookup", "table: known", `on: ${text(fields)}`, "add: {known.label: label}"],
    table: ["known:", "  type: inline", "  key: name", "  columns: {name: string, label: string}", "  rows:", "    - {name: root, label: administrator}"],
  },
  window: {
    about: "aggregate by time and fields",
    lines: (fields) => [
      "type: window", ...(time(fields) ? [`time: ${time(fields)}`] : []), "size: 1m", `group_by: [${text(fields)}]`, "aggregates:", '  events: "count(*)"',
    ],
  },
};

/** The pipeline's text with a step after the one on ``line`` (from one), or as the first step. */
export function addStep(yaml, line, lines) {
  const rows = yaml.split("\n");
  if (!line) {
    const at = rows.findIndex((row) => /^(sink|sinks|tests)\s*:/.test(row));
    rows.splice(at < 0 ? rows.length : at, 0, "steps:", ...item(lines, 2));
    return rows.join("\n");
  }
  const indent = Math.max(0, rows[line - 1].search(/\S/));
  let end = line;
  while (end < rows.length && (!rows[end].trim() || rows[end].search(/\S/) > indent)) end += 1;
  while (end > line && !rows[end - 1].trim()) end -= 1;
  rows.splice(end, 0, ...item(lines, indent));
  return rows.join("\n");
}

const item = (lines, indent) => lines.map((line, index) => `${" ".repeat(indent)}${index ? "  " : "- "}${line}`);

/** The text with a table, if it has none of its name. */
export function addTable(yaml, lines) {
  if (yaml.includes(`\n  ${lines[0]}`)) return yaml;
  const own = lines.map((line) => `  ${line}`);
  const rows = yaml.split("\n");
  const at = rows.findIndex((row) => /^tables\s*:\s*$/.test(row));
  if (at >= 0) rows.splice(at + 1, 0, ...own);
  else rows.splice(Math.max(0, rows.findIndex((row) => /^(sink|sinks|tests)\s*:/.test(row))), 0, "tables:", ...own);
  return rows.join("\n");
}

// Builds the page into etl/server/static: scripts, styles, the document, and the licences of the packages inside.
import { build } from "esbuild";
import { createHash } from "node:crypto";
import { copyFileSync, existsSync, mkdirSync, readFileSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";

const out = "../etl/server/static";
rmSync(out, { recursive: true, force: true });
mkdirSync(out, { recursive: true });

const result = await build({
  entryPoints: { app: "src/main.jsx", style: "src/style.css" },
  bundle: true,
  splitting: true,
  format: "esm",
  target: ["es2022"],
  minify: true,
  legalComments: "none",
  jsx: "automatic",
  jsxImportSource: "preact",
  entryNames: "[name]",
  chunkNames: "part-[hash]",
  outdir: out,
  metafile: true,
});

copyFileSync("src/index.html", join(out, "index.html"));
copyFileSync("src/icon.svg", join(out, "icon.svg"));
writeFileSync(join(out, "LICENSES.txt"), licences(Object.keys(result.metafile.inputs)));
writeFileSync(join(out, "SOURCES.sha256"), `${sourceHash()}\n`);

/** The licence texts of all packages of which a file is in the output. */
function licences(inputs) {
  const names = inputs.map((path) => /node_modules\/((?:@[^/]+\/)?[^/]+)\//.exec(path)?.[1]).filter(Boolean);
  return [...new Set(names)].sort().map(licence).join("\n");
}

function licence(name) {
  const folder = join("node_modules", name);
  const { version, license } = JSON.parse(readFileSync(join(folder, "package.json"), "utf8"));
  const file = ["LICENSE", "LICENSE.md", "license"].map((one) => join(folder, one)).find(existsSync);
  const text = file ? readFileSync(file, "utf8").trim() : "";
  return `${name} ${version} (${license})\n\n${text}\n\n${"─".repeat(80)}\n`;
}

/** One hash over the sources: a test compares it, so that nobody forgets to build. */
function sourceHash() {
  const hash = createHash("sha256");
  for (const path of ["package-lock.json", "build.mjs", ...walk("src")].sort()) {
    hash.update(path).update("\0").update(readFileSync(path)).update("\0");
  }
  return hash.digest("hex");
}

function walk(folder) {
  return readdirSync(folder, { withFileTypes: true }).flatMap((entry) => {
    const path = `${folder}/${entry.name}`;
    return entry.isDirectory() ? walk(path) : [path];
  });
}

// The graph of a pipeline from left to right, with events a second on the edges and what died or was filtered on the nodes.
import { compact, rate } from "../shared/format.js";

const WIDTH = 190;
const GAP = 110;
const HEIGHT = 64;
const ROW = 88;

/** Each node one column after the last of its inputs; the nodes of a column below each other. */
export function layOut(graph) {
  const column = new Map(graph.nodes.map((node) => [node.id, 0]));
  for (let round = 0; round < graph.nodes.length; round += 1) {
    for (const { origin, target } of graph.edges) column.set(target, Math.max(column.get(target), column.get(origin) + 1));
  }
  const rows = new Map();
  const places = new Map();
  for (const node of graph.nodes) {
    const at = column.get(node.id);
    const row = rows.get(at) ?? 0;
    rows.set(at, row + 1);
    places.set(node.id, { x: 8 + at * (WIDTH + GAP), y: 8 + row * ROW });
  }
  return { places, width: (Math.max(0, ...column.values()) + 1) * (WIDTH + GAP) - GAP + 16, height: Math.max(1, ...rows.values()) * ROW };
}

export function Graph({ graph, rates, chosen, onChoose }) {
  const { places, width, height } = layOut(graph);
  return (
    <div class="scroll flat" tabIndex={0} role="region" aria-label="Graph">
      <svg class="graph" viewBox={`0 0 ${width} ${height}`} width={width} height={height} role="group" aria-label="Graph of the pipeline">
        <clipPath id="graph-node-text"><rect x="12" width={WIDTH - 20} height={HEIGHT} /></clipPath>
        {graph.edges.map(({ origin, target }) => <Edge key={`${origin} ${target}`} from={places.get(origin)} to={places.get(target)} events={rates.get(origin) ?? 0} />)}
        {graph.nodes.map((node) => <GraphNode key={node.id} node={node} place={places.get(node.id)} chosen={node.id === chosen} onChoose={onChoose} />)}
      </svg>
    </div>
  );
}

function Edge({ from, to, events }) {
  const [x1, y1, x2, y2] = [from.x + WIDTH, from.y + HEIGHT / 2, to.x, to.y + HEIGHT / 2];
  const bend = (x2 - x1) / 2;
  return (
    <g class={events > 0 ? "edge-line live" : "edge-line"}>
      <path d={`M${x1},${y1} C${x1 + bend},${y1} ${x2 - bend},${y2} ${x2 - 4},${y2}`} />
      <text x={(x1 + x2) / 2} y={(y1 + y2) / 2 - 7}>{rate(events)}/s</text>
    </g>
  );
}

const cut = (text, length) => (text.length > length ? `${text.slice(0, length - 1)}…` : text);

function GraphNode({ node, place, chosen, onChoose }) {
  const title = node.kind === "stream" ? node.steps.join(" → ") || "union" : node.type;
  const marks = [node.filtered && `${compact(node.filtered)} filtered`, node.dead && `${compact(node.dead)} dead`].filter(Boolean).join(", ");
  const choose = (event) => {
    if (event.type === "keydown" && event.key !== "Enter" && event.key !== " ") return;
    event.preventDefault();
    onChoose(node.id);
  };
  return ( // attributes of SVG are case-sensitive: tabIndex would be none
    <g class={`graph-node ${node.kind}${chosen ? " chosen" : ""}`} transform={`translate(${place.x},${place.y})`} role="button" tabindex={0} aria-pressed={chosen} aria-label={`${node.kind} ${node.name}`} onClick={choose} onKeyDown={choose}>
      <title>{`${node.name}: ${title}`}</title>
      <rect width={WIDTH} height={HEIGHT} rx="10" />
      <g clip-path="url(#graph-node-text)">
        <text class="title" x="12" y="20">{cut(node.name, 21)}</text>
        <text class="type" x="12" y="37">{cut(title, 27)}</text>
        <text class={node.dead ? "marks bad" : "marks"} x="12" y="54">{compact(node.events)} events{marks && `, ${marks}`}</text>
      </g>
    </g>
  );
}

// The pasted lines with the captures of the first parser in colour, and a mark where a line stops matching.
import { useMemo, useState } from "preact/hooks";
import { cut, fieldColours, pieces } from "./colours.js";

export function Lines({ rows, total, hovered, onHover }) {
  const colours = useMemo(() => fieldColours(rows), [rows]);
  const [onlyFailed, setOnlyFailed] = useState(false);
  const failed = rows.filter((row) => row.fate === "dead").length;
  const shown = onlyFailed && failed ? rows.filter((row) => row.fate === "dead") : rows;
  return (
    <div class="lines-pane">
      {failed > 0 && (
        <label class="check">
          <input type="checkbox" checked={onlyFailed} onChange={(event) => setOnlyFailed(event.target.checked)} /> only lines that
          stop matching ({failed})
        </label>
      )}
      <ol class="lines" aria-label="Lines" tabIndex={0}>
        {shown.map((row) => (
          <Line key={row.offset} row={row} colours={colours} hovered={hovered} onHover={onHover} />
        ))}
      </ol>
      {total > rows.length && <p class="note">{rows.length} of {total} events are shown; all are counted.</p>}
      <Legend colours={colours} hovered={hovered} onHover={onHover} />
    </div>
  );
}

function Line({ row, colours, hovered, onHover }) {
  return (
    <li class={row.fate}>
      <span class="number" aria-hidden="true">{row.line}</span>
      <code>
        {row.stop ? <Stopped row={row} /> : row.fate === "dead" ? <span class="failed">{row.text}</span> : (
          pieces(row.text, row.spans ?? []).map((piece, index) =>
            piece.field ? (
              <span
                key={index}
                class={`cap f${colours.get(piece.field)}${hovered === piece.field ? " hot" : ""}`}
                title={piece.field}
                onMouseEnter={() => onHover(piece.field)}
                onMouseLeave={() => onHover(null)}
              >
                {piece.text}
              </span>
            ) : (
              piece.text
            ),
          )
        )}
      </code>
    </li>
  );
}

/** A line that fails: the part that matches, a mark, the rest, and what the pattern expects at the mark. */
export function Stopped({ row }) {
  const [before, after] = cut(row.text, row.stop.at);
  const within = row.stop.within.length ? ` in ${row.stop.within.join(", ")}` : "";
  return (
    <>
      <span class="matched">{before}</span>
      <span class="stop" aria-hidden="true" />
      <span class="failed">{after}</span>
      <span class="why">
        stops at column {row.stop.at + 1}: expected <b>{row.stop.expected}</b>
        {within}
      </span>
    </>
  );
}

function Legend({ colours, hovered, onHover }) {
  if (!colours.size) return null;
  return (
    <ul class="legend" aria-label="Fields">
      {[...colours].map(([field, colour]) => (
        <li key={field}>
          <button
            class={`chip cap f${colour}${hovered === field ? " hot" : ""}`}
            onMouseEnter={() => onHover(field)}
            onMouseLeave={() => onHover(null)}
            onFocus={() => onHover(field)}
            onBlur={() => onHover(null)}
          >
            {field}
          </button>
        </li>
      ))}
    </ul>
  );
}

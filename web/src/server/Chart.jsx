// A chart over time by uPlot, which is loaded after the page has painted.
import { useEffect, useRef } from "preact/hooks";

const style = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

/** ``series``: name, colour (a variable of the style) and values; ``time``: seconds since the epoch. */
export function Chart({ title, time, series, unit }) {
  const place = useRef(null);
  const chart = useRef(null);
  const latest = useRef(null);
  latest.current = [time, ...series.map((one) => one.values)];
  useEffect(() => {
    let gone = false;
    let watcher;
    import("uplot").then(({ default: Plot }) => {
      if (gone) return;
      const axis = { stroke: style("--muted"), grid: { stroke: style("--line"), width: 1 }, ticks: { show: false }, font: "11px system-ui" };
      const size = () => ({ width: Math.max(120, place.current?.clientWidth ?? 0), height: 170 });
      chart.current = new Plot({
        ...size(),
        cursor: { points: { show: false } },
        legend: { live: true },
        axes: [axis, { ...axis, size: 52, values: (_, ticks) => ticks.map((tick) => `${tick.toLocaleString("en")}${unit}`) }],
        series: [{}, ...series.map((one) => ({ label: one.name, stroke: style(one.colour), width: 1.75, points: { show: false }, fill: `${style(one.colour)}18`, value: (_, value) => (value == null ? "–" : value.toLocaleString("en", { maximumFractionDigits: 2 })) }))],
      }, latest.current, place.current);
      watcher = new ResizeObserver(() => chart.current?.setSize(size()));
      watcher.observe(place.current);
    });
    return () => ((gone = true), watcher?.disconnect(), chart.current?.destroy(), (chart.current = null));
  }, []);
  useEffect(() => chart.current?.setData(latest.current), [time]);
  return <figure class="chart"><figcaption>{title}</figcaption><div ref={place} /></figure>;
}

/** Sums → amounts a second between neighbours. */
export const perSecond = (time, sums) => sums.map((sum, index) => (index ? Math.max(0, (sum - sums[index - 1]) / Math.max(0.001, time[index] - time[index - 1])) : null));

// One chart of uPlot, with a band for each second in which writes stalled.
import { html, useEffect, useRef } from "./preact-htm.js";
import { clock } from "./format.js";
import { causeOf } from "./health.js";
import { usePalette } from "./palette.js";

const HEIGHT_OF_MARK = 5;
const AXIS_SIZE = 48;
const RIGHT_SPACE = 8;
// Distance of two labels of the vertical axis at least.
const LABEL_HEIGHT = 14;
const { uPlot } = globalThis;

// Colours with an alpha channel, for areas: all colours of the palette are #rrggbb.
const faint = (colour) => `${colour}22`;

function timeLabels(plot, ticks) {
  const step = ticks.length > 1 ? ticks[1] - ticks[0] : 0;
  const hasSeconds = step < 60;
  // A label needs space up to the edge of the chart, and up to the labels of the other axis.
  const half = hasSeconds ? 26 : 18;
  const width = plot.bbox.width / devicePixelRatio;
  return ticks.map((at) => {
    const place = plot.valToPos(at, "x");
    if (place < half || place > width + RIGHT_SPACE - half) return "";
    const date = new Date(at * 1000);
    return step >= 86400 ? date.toLocaleDateString("en-GB", { day: "numeric", month: "short" }) : clock(date, hasSeconds);
  });
}

function drawMarks(plot, chart, marks, step, colours) {
  const { ctx, bbox } = plot;
  const { min, max } = plot.scales.x;
  const height = chart.causes ? bbox.height : HEIGHT_OF_MARK * devicePixelRatio;
  ctx.save();
  for (const mark of marks) {
    // The mark of a past stall is its end. The page itself marks each second of a stall.
    const end = mark.at / 1000;
    const begin = Math.max(min, end - Math.max(step, mark.isLive ? 0 : mark.seconds));
    if (mark.kind !== "stall" && mark.kind !== "refused") continue;
    if (end < min || begin > max) continue;
    const left = plot.valToPos(begin, "x", true);
    ctx.fillStyle = colours[causeOf(mark.cause).colour];
    if (chart.causes) ctx.globalAlpha = 0.22;
    ctx.fillRect(left, bbox.top + bbox.height - height, Math.max(1, plot.valToPos(end, "x", true) - left) + 0.5, height);
  }
  ctx.restore();
}

function drawLimit(plot, limit, colours) {
  if (!limit) return;
  const y = plot.valToPos(limit, "y", true);
  const { ctx, bbox } = plot;
  if (y < bbox.top) return;
  ctx.save();
  ctx.strokeStyle = colours.muted;
  ctx.setLineDash([4, 4]);
  ctx.lineWidth = devicePixelRatio;
  ctx.beginPath();
  ctx.moveTo(bbox.left, y);
  ctx.lineTo(bbox.left + bbox.width, y);
  ctx.stroke();
  ctx.restore();
}

function seriesOf(chart, colours) {
  return chart.series.map(([, label, colour, more = {}]) => ({
    label, stroke: colours[colour], width: 1.25, points: { show: false }, spanGaps: false,
    fill: more.area ? faint(colours[colour]) : undefined,
    paths: more.stepped ? uPlot.paths.stepped({ align: 1 }) : undefined,
  }));
}

// Lines of a logarithmic axis: as many powers of ten as have space for their labels.
function powers(plot, _, min, max) {
  const decades = Math.round(Math.log10(max / min));
  const step = Math.max(1, Math.ceil((decades * LABEL_HEIGHT * devicePixelRatio) / plot.bbox.height));
  return Array.from({ length: Math.floor(decades / step) + 1 }, (__, i) => min * 10 ** (i * step));
}

// Labels have no digits that say nothing: "1 MiB" instead of "1.0 MiB".
const short = (text) => text.replace(/\.0(?!\d)/, "");

function rangeY(chart, latest) {
  if (chart.log) {
    return (_, min, max) => [10 ** Math.floor(Math.log10(Math.max(1, min || 1))), 10 ** Math.ceil(Math.log10(Math.max(100, max || 100)))];
  }
  return (_, __, max) => [0, chart.top ?? Math.max(chart.causes ? 0.1 : 1, (max || 1) * 1.1, latest.current.limit ?? 0)];
}

function options(chart, colours, latest, size, onMoment) {
  const axis = { stroke: colours.muted, font: `11px ${colours.font}`, grid: { stroke: colours.line, width: 1 }, ticks: { show: false } };
  return {
    ...size,
    padding: [6, RIGHT_SPACE, 0, 0],
    legend: { show: false },
    cursor: { sync: { key: "charts" }, drag: { x: false, y: false }, points: { size: 5 }, y: false },
    scales: {
      x: { time: true, range: () => [latest.current.from, latest.current.to] },
      y: { distr: chart.log ? 3 : 1, range: rangeY(chart, latest) },
    },
    axes: [
      { ...axis, size: 20, gap: 2, space: 64, values: timeLabels },
      { ...axis, size: AXIS_SIZE, gap: 4, space: 28, incrs: chart.steps, splits: chart.log ? powers : undefined, filter: (___, ticks) => ticks, values: (_, ticks) => ticks.map((tick) => short(chart.format(tick))) },
    ],
    series: [{}, ...seriesOf(chart, colours)],
    hooks: {
      drawAxes: [(plot) => drawMarks(plot, chart, latest.current.marks, latest.current.step, colours)],
      draw: [(plot) => drawLimit(plot, latest.current.limit, colours)],
      setCursor: [(plot) => onMoment(plot.data[0][plot.cursor.idx] ?? null)],
    },
  };
}

export function Chart({ chart, data, marks, step, range, limit, mark, word, onMoment, index }) {
  const holder = useRef(null);
  const plot = useRef(null);
  const latest = useRef({});
  const colours = usePalette();
  Object.assign(latest.current, { ...range, marks, step, limit });
  const rows = [data.at, ...chart.series.map(([column]) => data[column] ?? [])];
  useEffect(() => {
    const box = holder.current;
    const size = () => ({ width: Math.max(80, box.clientWidth), height: Math.max(60, box.clientHeight) });
    plot.current = new uPlot(options(chart, colours, latest, size(), onMoment), rows, box);
    const observer = new ResizeObserver(() => plot.current.setSize(size()));
    observer.observe(box);
    return () => {
      observer.disconnect();
      plot.current.destroy();
    };
  }, [chart, colours]);
  useEffect(() => plot.current.setData(rows), [data.at, data.at?.length, data.at?.[data.at.length - 1], range.from]);
  const at = index ?? rows[0].length - 1;
  return html`<figure class="chart" data-mark=${mark} data-chart=${chart.id}>
    <figcaption><b title=${chart.unit}>${chart.title}</b>${mark && html`<span class="mark-word">${word}</span>`}
      <span class="chart-keys">${chart.series.map(([column, label, colour]) => html`<span class="key" key=${column}><i style=${{ background: `var(--${colour})` }}></i>${label} <output>${data[column]?.[at] == null ? "–" : short(chart.format(data[column][at]))}</output></span>`)}</span>
    </figcaption>
    <div class="plot" ref=${holder}></div>
  </figure>`;
}

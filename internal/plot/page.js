"use strict";
// Draws the panels of a figure with uPlot. Panels that share their x axis are zoomed together.
function draw(panels) {
  const place = document.getElementById("panels");
  const charts = window.charts = [];
  const font = '12px system-ui, "Liberation Sans", Arial, sans-serif';

  const figures = v => v.toLocaleString("en-US", { maximumSignificantDigits: 6 });

  // format prints a value of an axis with its unit.
  function format(axis, v) {
    if (v == null) return "–";
    if (!axis.base) return figures(v) + (axis.unit ? " " + axis.unit : "");
    let unit = axis.steps[0];
    for (const s of axis.steps) if (Math.abs(v) * (1 + 1e-9) >= (["min", "h", "days"].includes(s.name) ? 3 : 1) * s.factor) unit = s;
    return figures(v / unit.factor) + (unit.name ? " " + unit.name : "");
  }

  // logTicks are at the powers of an axis's base (uPlot's own begin at its end, whatever that is); of ten also between
  // them. Those that have a number are few.
  function logTicks(axis) {
    const power = v => Math.log(v) / Math.log(axis.base);
    const between = axis.base == 10 ? [1, 2, 3, 4, 5, 6, 7, 8, 9] : [1];
    const span = (min, max) => [Math.floor(power(min) + 1e-9), Math.floor(power(max) + 1e-9)];
    return {
      splits: (u, i, min, max) => {
        const [low, high] = span(min, max), ticks = [];
        for (let p = low; p <= high; p++) for (const m of between) {
          const v = Math.pow(axis.base, p) * m;
          if (v >= min * (1 - 1e-9) && v <= max * (1 + 1e-9)) ticks.push(v);
        }
        return ticks;
      },
      filter: (u, ticks) => {
        if (!ticks.length) return ticks;
        const [low, high] = span(ticks[0], ticks[ticks.length - 1]), every = Math.max(1, Math.ceil((high - low + 1) / 9));
        const shown = axis.base == 10 && high - low < 3 ? [1, 2, 5] : [1];
        return ticks.map(v => {
          const p = Math.floor(power(v) + 1e-9), m = Math.round(v / Math.pow(axis.base, p));
          return shown.includes(m) && (p - low) % every == 0 ? v : null;
        });
      },
    };
  }

  // marker draws one shape of a radius.
  function marker(ctx, shape, x, y, r) {
    ctx.beginPath();
    const corners = (size, ...angles) => {
      angles.forEach((a, i) => {
        const px = x + size * r * Math.cos(a * Math.PI / 180), py = y - size * r * Math.sin(a * Math.PI / 180);
        if (i == 0) ctx.moveTo(px, py); else ctx.lineTo(px, py);
      });
      ctx.closePath();
    };
    const cross = turn => {
      for (const a of [turn, turn + 90]) {
        const c = 1.3 * r * Math.cos(a * Math.PI / 180), s = 1.3 * r * Math.sin(a * Math.PI / 180);
        ctx.moveTo(x - c, y - s);
        ctx.lineTo(x + c, y + s);
      }
    };
    switch (shape) {
      case "circle": ctx.arc(x, y, r, 0, 2 * Math.PI); break;
      case "square": corners(1.25, 45, 135, 225, 315); break;
      case "triangle": corners(1.35, 90, 210, 330); break;
      case "diamond": corners(1.35, 0, 90, 180, 270); break;
      case "cross": cross(45); ctx.stroke(); return;
      case "plus": cross(0); ctx.stroke(); return;
      default: return;
    }
    ctx.fill();
  }

  // sample is a series' colour, dash and marker for the legend.
  function sample(s) {
    const canvas = document.createElement("canvas"), ratio = window.devicePixelRatio || 1;
    canvas.width = 30 * ratio;
    canvas.height = 12 * ratio;
    canvas.style.width = "30px";
    canvas.style.height = "12px";
    const ctx = canvas.getContext("2d");
    ctx.scale(ratio, ratio);
    ctx.strokeStyle = ctx.fillStyle = s.color;
    ctx.lineWidth = 2;
    if (s.kind == "band") {
      ctx.globalAlpha = .27;
      ctx.fillRect(0, 1, 30, 10);
      return canvas;
    }
    if (s.kind != "markers") {
      ctx.setLineDash(s.dash);
      ctx.beginPath();
      ctx.moveTo(0, 6);
      ctx.lineTo(30, 6);
      ctx.stroke();
      ctx.setLineDash([]);
    }
    marker(ctx, s.marker, 15, 6, 3.5);
    return canvas;
  }

  // markers draws the shapes of all series: each point of few, else some along the line.
  function markers(u, panel, index) {
    const ctx = u.ctx, ratio = uPlot.pxRatio, { left, top, width, height } = u.bbox;
    ctx.save();
    ctx.beginPath();
    ctx.rect(left - 4, top - 4, width + 8, height + 8);
    ctx.clip();
    panel.series.forEach((s, i) => {
      if (!u.series[index[i]].show || s.kind == "band" || !s.marker) return;
      ctx.strokeStyle = ctx.fillStyle = s.color;
      ctx.lineWidth = 1.3 * ratio;
      let gap = width / 9, next = left + gap * i / panel.series.length;
      if (s.kind == "markers" || s.xs.length <= 18) [gap, next] = [3 * ratio, -Infinity];
      for (let k = 0; k < s.xs.length; k++) {
        if (s.ys[k] == null) continue;
        const x = u.valToPos(s.xs[k], "x", true);
        if (x < left - 1 || x > left + width + 1 || s.kind != "markers" && x < next) continue;
        marker(ctx, s.marker, x, u.valToPos(s.ys[k], "y", true), 3.2 * ratio);
        next = Math.max(next + gap, x + gap / 2);
      }
    });
    ctx.restore();
  }

  // marks writes the texts at points and lines.
  function marks(u, panel) {
    const ctx = u.ctx, ratio = uPlot.pxRatio, { left, top, width, height } = u.bbox, taken = [];
    ctx.save();
    ctx.font = 12 * ratio + "px system-ui, 'Liberation Sans', Arial, sans-serif";
    ctx.textBaseline = "bottom";
    ctx.textAlign = "left";
    ctx.lineWidth = ratio;
    for (const m of panel.marks) {
      const x = u.valToPos(m.at, "x", true);
      if (m.at == null || x < left || x > left + width) continue;
      let y = top + 18 * ratio;
      ctx.strokeStyle = ctx.fillStyle = "#222";
      ctx.beginPath();
      if (m.line) {
        ctx.setLineDash([3 * ratio, 3 * ratio]);
        ctx.moveTo(x, top);
        ctx.lineTo(x, top + height);
      } else {
        if (m.y == null) continue;
        y = u.valToPos(m.y, "y", true);
        if (y < top - 1 || y > top + height + 1) continue;
        ctx.arc(x, y, 5 * ratio, 0, 2 * Math.PI);
        y -= 6 * ratio;
      }
      ctx.stroke();
      ctx.setLineDash([]);
      const room = ctx.measureText(m.text).width, tall = 15 * ratio;
      const at = x + 8 * ratio + room > left + width ? x - 8 * ratio - room : x + 8 * ratio;
      y = Math.max(y, top + tall);
      for (const t of taken) if (at < t.right && t.left < at + room && y - tall < t.bottom && t.top < y) y = t.bottom + tall;
      taken.push({ left: at, right: at + room, top: y - tall, bottom: y });
      ctx.fillStyle = "rgba(255,255,255,.85)";
      ctx.fillRect(at - 2 * ratio, y - tall, room + 4 * ratio, tall);
      ctx.fillStyle = "#222";
      ctx.fillText(m.text, at, y);
    }
    ctx.restore();
  }

  let zooming = false;
  function zoomed(u, key) {
    if (key != "x" || zooming) return;
    zooming = true;
    const { min, max } = u.scales.x;
    for (const other of charts) if (other.chart != u && u.shared && other.chart.shared) other.chart.setScale("x", { min, max });
    zooming = false;
  }

  for (const panel of panels) {
    if (panel.title) place.appendChild(document.createElement("h2")).textContent = panel.title;
    const box = place.appendChild(document.createElement("div"));
    const series = [{ label: panel.x.label, value: (u, v) => format(panel.x, v) }], tables = [], bands = [], index = [];
    for (const s of panel.series) {
      const one = {
        label: s.name, stroke: s.color, width: 2, dash: s.dash, points: { show: false }, spanGaps: false,
        value: (u, v) => format(panel.y, v),
      };
      index.push(series.length);
      if (s.kind == "step") one.paths = uPlot.paths.stepped({ align: 1 });
      if (s.kind == "markers") one.paths = () => null;
      if (s.kind == "band") {
        one.width = 0;
        bands.push({ series: [series.length, series.length + 1], fill: s.color + "46" });
        series.push(one, { ...one, label: s.name + ", from", points: { show: false } });
        tables.push([s.xs, s.ys, s.lows]);
      } else {
        series.push(one);
        tables.push([s.xs, s.ys]);
      }
    }
    const scale = a => ({
      time: false, distr: a.base ? 3 : 1, log: a.base || 10, auto: false, range: (u, min, max) => [min, max],
    });
    const ticks = a => ({
      label: a.label, font, labelFont: font, labelSize: 20, ...(a.base ? logTicks(a) : {}), stroke: "#222", grid: { stroke: "#e4e4e4", width: 1 }, ticks: { stroke: "#999", width: 1 },
      values: (u, splits) => splits.map(v => v == null ? "" : a.base ? format(a, v) : figures(v)),
    });
    const y = scale(panel.y);
    y.auto = !panel.y.fixed;
    y.range = (u, min, max) => panel.y.fixed || min == null ? [panel.y.min, panel.y.max]
      : panel.y.base ? [Math.min(min, panel.y.min), Math.max(max, panel.y.max)] : [Math.min(min, 0), max > 0 ? max * 1.06 : panel.y.max];
    const all = () => chart.setScale("x", { min: panel.x.min, max: panel.x.max });
    const chart = new uPlot({
      width: box.clientWidth, height: 300, series, bands, scales: { x: scale(panel.x), y }, legend: { live: true },
      axes: [{ ...ticks(panel.x), size: 36 }, { ...ticks(panel.y), size: 76 }],
      cursor: {
        sync: { key: panel.shared ? "shared" : String(charts.length), setSeries: false, filters: { pub: type => type == "mousemove" || type == "mouseleave" } },
        drag: { x: true, y: false }, bind: { dblclick: () => () => { all(); return null; } }, points: { size: 6 },
      },
      hooks: { draw: [u => markers(u, panel, index), u => marks(u, panel)], setScale: [zoomed] },
    }, tables.length ? uPlot.join(tables) : [[], []], box);
    chart.shared = panel.shared;
    const rows = box.querySelectorAll(".u-legend .u-series");
    panel.series.forEach((s, i) => rows[index[i]].querySelector("th").prepend(sample(s)));
    all();
    charts.push({ chart, box });
  }
  addEventListener("resize", () => charts.forEach(({ chart, box }) => chart.setSize({ width: box.clientWidth, height: 300 })));
}

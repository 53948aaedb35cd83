"use strict";
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const colors = data.colors;
  const color = (i) => colors[i % colors.length];
  const $ = (id) => document.getElementById(id);
  const format = (v) => {
    if (v === 0) return "0";
    const size = Math.abs(v);
    return size >= 1e6 || size < 1e-3 ? v.toExponential(2) : String(Number(v.toPrecision(4)));
  };
  const fixed = (v, decimals) => (Math.abs(v) < 1e15 ? v.toFixed(decimals) : v.toPrecision(6));
  const percent = (v) => (100 * v).toFixed(v < 0.1 ? 2 : 1) + " %";

  // -- light and dark -----------------------------------------------------------------------------
  const root = document.documentElement;
  const redraws = [];
  const setTheme = (name) => {
    root.dataset.theme = name;
    $("theme").textContent = name === "dark" ? "Light" : "Dark";
    redraws.forEach((draw) => draw());
  };
  const wished = matchMedia("(prefers-color-scheme: dark)");
  $("theme").onclick = () => setTheme(root.dataset.theme === "dark" ? "light" : "dark");
  wished.addEventListener("change", () => setTheme(wished.matches ? "dark" : "light"));
  const css = (name) => getComputedStyle(root).getPropertyValue(name).trim();

  // -- drawing ------------------------------------------------------------------------------------
  const node = (tag, attributes, parent) => {
    const element = document.createElementNS("http://www.w3.org/2000/svg", tag);
    for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
    if (parent) parent.append(element);
    return element;
  };
  const text = (parent, x, y, words, attributes = {}) => {
    node("text", { x, y, ...attributes }, parent).textContent = words;
  };
  const ticks = (low, high, log, most = 6) => {
    if (log) {
      const from = Math.ceil(Math.log10(low) - 1e-9), to = Math.floor(Math.log10(high) + 1e-9);
      const step = Math.max(1, Math.ceil((to - from) / most));
      const out = [];
      for (let e = from; e <= to; e += step) out.push(10 ** e);
      if (out.length < 2) return [low, Math.sqrt(low * high), high];
      return out;
    }
    const raw = (high - low) / most, unit = 10 ** Math.floor(Math.log10(raw));
    const step = [1, 2, 5, 10].map((f) => f * unit).find((s) => s >= raw);
    const out = [];
    for (let i = Math.ceil(low / step - 1e-9); i * step <= high + 1e-9 * step; i++) out.push(i * step);
    return out;
  };
  class Chart {
    // one unit is one pixel, so that text has its size on a phone too; marks that can be chosen need role "group"
    constructor(host, { x, y, labels, logX, logY, height = 420, xTicks, role = "img" }) {
      host.textContent = "";
      this.width = Math.min(1000, Math.max(280, host.clientWidth || 1000));
      this.height = height = Math.min(height, Math.max(240, Math.round(0.9 * this.width)));
      this.box = { left: this.width < 500 ? 62 : 74, right: 16, top: 12, bottom: 46 };
      this.host = host;
      this.svg = node("svg", { viewBox: `0 0 ${this.width} ${height}`, role });
      host.append(this.svg);
      const scale = (range, log, from, to) => {
        const f = log ? Math.log : (v) => v, a = f(range[0]), b = f(range[1]);
        return (v) => from + ((f(v) - a) / (b - a || 1)) * (to - from);
      };
      this.x = scale(x, logX, this.box.left, this.width - this.box.right);
      this.y = scale(y, logY, height - this.box.bottom, this.box.top);
      const bottom = height - this.box.bottom;
      this.svg.setAttribute("aria-label", `${labels[1]} against ${labels[0]}`);
      // as many digits as the step between ticks needs, also far from zero
      const named = (all, log) => {
        const step = all.length > 1 && !log ? Math.abs(all[1] - all[0]) : 0;
        const top = Math.max(...all.map(Math.abs));
        const plain = step >= 1e-6 && top < 1e12 && top / step > 1e3;
        return (t) => (plain ? t.toFixed(Math.max(0, -Math.floor(Math.log10(step) + 1e-9))) : format(!log && Math.abs(t) < 1e-9 * top ? 0 : t));
      };
      const most = Math.max(2, Math.min(6, Math.floor(this.width / 90)));
      const every = xTicks ? Math.ceil((26 * xTicks.length) / this.width) : 1;
      const across = xTicks ? xTicks.filter((_, i) => i % every === 0) : ticks(...x, logX, most), up = ticks(...y, logY);
      const nameX = named(across, logX), nameY = named(up, logY);
      for (const t of across) {
        node("line", { x1: this.x(t), x2: this.x(t), y1: this.box.top, y2: bottom, class: "axis" }, this.svg);
        text(this.svg, this.x(t), bottom + 17, nameX(t), { "text-anchor": "middle" });
      }
      for (const t of up) {
        node("line", { x1: this.box.left, x2: this.width - this.box.right, y1: this.y(t), y2: this.y(t), class: "axis" }, this.svg);
        text(this.svg, this.box.left - 8, this.y(t) + 4, nameY(t), { "text-anchor": "end" });
      }
      text(this.svg, (this.width + this.box.left) / 2, height - 6, labels[0], { "text-anchor": "middle" });
      text(this.svg, 0, 0, labels[1], { "text-anchor": "middle", transform: `translate(14 ${bottom / 2}) rotate(-90)` });
      const clip = `clip-${host.id}`;
      const frame = { x: this.box.left, y: this.box.top, width: this.width - this.box.right - this.box.left, height: bottom - this.box.top };
      node("rect", frame, node("clipPath", { id: clip }, node("defs", {}, this.svg)));
      this.inside = node("g", { "clip-path": `url(#${clip})` }, this.svg);
      this.frame = frame;
      this.tip = document.createElement("div");
      this.tip.className = "tip";
      host.append(this.tip);
    }
    line(points, stroke, dash, width = 2.2) {
      const d = points.map(([a, b], i) => `${i ? "L" : "M"}${this.x(a).toFixed(2)} ${this.y(b).toFixed(2)}`).join("");
      node("path", { d, fill: "none", stroke, "stroke-width": width, ...(dash ? { "stroke-dasharray": dash } : {}) }, this.inside);
    }
    hover(element, words) {
      const move = (event) => {
        const box = this.host.getBoundingClientRect();
        this.tip.textContent = words;
        this.tip.style.display = "block";
        const left = event.clientX - box.left + 14;
        this.tip.style.left = Math.max(0, Math.min(left, box.width - this.tip.offsetWidth - 4)) + "px";
        this.tip.style.top = event.clientY - box.top + 14 + "px";
      };
      element.addEventListener("pointermove", move);
      element.addEventListener("pointerleave", () => (this.tip.style.display = "none"));
    }
    legend(entries) {
      const list = document.createElement("div");
      list.className = "legend";
      for (const [words, stroke, dash] of entries) {
        const item = document.createElement("span"), mark = document.createElement("i");
        mark.style.borderTopColor = stroke;
        if (dash) mark.style.borderTopStyle = "dotted";
        item.append(mark, words);
        list.append(item);
      }
      this.host.append(list);
    }
  }

  // -- components ---------------------------------------------------------------------------------
  let chosen = null;
  const choose = (i) => {
    chosen = chosen === i ? null : i;
    for (const row of document.querySelectorAll("tr[data-component]"))
      row.classList.toggle("chosen", Number(row.dataset.component) === chosen);
    for (const mark of document.querySelectorAll("[data-mark]"))
      mark.classList.toggle("dim", chosen !== null && Number(mark.dataset.mark) !== chosen);
    for (const button of document.querySelectorAll("[data-choose], [data-mark]"))
      button.setAttribute("aria-pressed", String(Number(button.dataset.choose ?? button.dataset.mark) === chosen));
  };
  const clickable = (element, act) => {
    element.addEventListener("click", act);
    element.addEventListener("keydown", (event) => {
      if (event.key === "Enter" || event.key === " ") { event.preventDefault(); act(); }
    });
  };
  const restore = () => { const kept = chosen; chosen = null; if (kept !== null) choose(kept); };
  const entry = (covariances, l, a, b) => {
    const s = covariances[l];
    if (typeof s === "number") return a === b ? s : 0;
    if (typeof s[0] === "number") return a === b ? s[a] : 0;
    return s[a][b];
  };
  // a mixture along two directions: two columns, or the principal plane that came with the page
  const seen = (mixture, plane, a, b) => {
    if (a < 0) return plane;
    return {
      means: mixture.means.map((m) => [m[a], m[b]]),
      covariances: mixture.means.map((_, l) => {
        const c = entry(mixture.covariances, l, a, b);
        return [[entry(mixture.covariances, l, a, a), c], [c, entry(mixture.covariances, l, b, b)]];
      }),
    };
  };
  const range = (view, axis) => {
    let low = Infinity, high = -Infinity;
    view.means.forEach((m, l) => {
      const reach = 3 * Math.sqrt(Math.max(view.covariances[l][axis][axis], 0));
      low = Math.min(low, m[axis] - reach); high = Math.max(high, m[axis] + reach);
    });
    const room = 0.05 * (high - low) || 1;
    return [low - room, high + room];
  };
  const ellipse = (mean, s, radius) => {
    const half = (s[0][0] + s[1][1]) / 2, apart = Math.hypot((s[0][0] - s[1][1]) / 2, s[0][1]);
    const major = Math.sqrt(Math.max(half + apart, 0)) * radius, minor = Math.sqrt(Math.max(half - apart, 0)) * radius;
    const turn = 0.5 * Math.atan2(2 * s[0][1], s[0][0] - s[1][1]);
    return Array.from({ length: 73 }, (_, i) => {
      const t = (i / 72) * 2 * Math.PI, u = major * Math.cos(t), v = minor * Math.sin(t);
      return [mean[0] + u * Math.cos(turn) - v * Math.sin(turn), mean[1] + u * Math.sin(turn) + v * Math.cos(turn)];
    });
  };
  const shade = (chart, mixture, view, x, y) => {
    const box = chart.frame, columns = 250, rows = Math.round((columns * box.height) / box.width);
    const canvas = document.createElement("canvas");
    canvas.width = columns; canvas.height = rows;
    canvas.style.cssText = `left:${(100 * box.x) / chart.width}%;top:${(100 * box.y) / chart.height}%;width:${(100 * box.width) / chart.width}%;height:${(100 * box.height) / chart.height}%`;
    const layer = document.createElement("div");
    layer.style.cssText = `position:absolute;inset:0 0 auto 0;aspect-ratio:${chart.width}/${chart.height}`;
    layer.append(canvas);
    const sum = new Float64Array(columns * rows);
    const least = [((x[1] - x[0]) / columns) ** 2, ((y[1] - y[0]) / rows) ** 2];
    mixture.weights.forEach((weight, l) => {
      const s = view.covariances[l], p = s[0][0] + least[0], q = s[1][1] + least[1], c = s[0][1];
      const det = Math.max(p * q - c * c, 1e-12 * p * q), scale = weight / Math.sqrt(det);
      const reach = [6 * Math.sqrt(p), 6 * Math.sqrt(q)], m = view.means[l];
      const cell = [(x[1] - x[0]) / columns, (y[1] - y[0]) / rows];
      const i0 = Math.max(0, Math.floor((m[0] - reach[0] - x[0]) / cell[0])), i1 = Math.min(columns - 1, Math.ceil((m[0] + reach[0] - x[0]) / cell[0]));
      const j0 = Math.max(0, Math.floor((m[1] - reach[1] - y[0]) / cell[1])), j1 = Math.min(rows - 1, Math.ceil((m[1] + reach[1] - y[0]) / cell[1]));
      for (let j = j0; j <= j1; j++) {
        const v = y[0] + (j + 0.5) * cell[1] - m[1];
        for (let i = i0; i <= i1; i++) {
          const u = x[0] + (i + 0.5) * cell[0] - m[0];
          sum[(rows - 1 - j) * columns + i] += scale * Math.exp(-0.5 * (q * u * u - 2 * c * u * v + p * v * v) / det);
        }
      }
    });
    let top = 0;
    for (const v of sum) top = Math.max(top, v);
    const [r, g, b] = css("--above").split(",").map(Number);
    const context = canvas.getContext("2d"), image = context.createImageData(columns, rows);
    for (let i = 0; i < sum.length; i++) image.data.set([r, g, b, 215 * Math.sqrt(sum[i] / top)], 4 * i);
    context.putImageData(image, 0, 0);
    chart.host.prepend(layer);
  };
  const drawMap = () => {
    const a = Number($("axis-x").value), b = Number($("axis-y").value);
    const principal = a < 0 || b < 0;
    const [u, v] = principal ? [-1, -1] : [a, b];
    const plane = data.plane || {};
    const view = seen(data.components, plane.components, u, v);
    const x = range(view, 0), y = range(view, 1);
    const labels = principal ? plane.labels : [data.columns[a], data.columns[b]];
    const chart = new Chart($("map"), { x, y, labels, height: 520, role: "group" });
    if ($("show-density").checked && data.mixture) shade(chart, data.mixture, seen(data.mixture, plane.mixture, u, v), x, y);
    const heaviest = Math.max(...data.components.weights);
    const outlines = $("show-outlines").checked;
    data.components.weights.forEach((weight, l) => {
      const group = node("g", { class: "mark", "data-mark": l, tabindex: 0, role: "button", "aria-pressed": "false", "aria-label": `${data.thing} ${l}` }, chart.inside);
      if (outlines) {
        const d = ellipse(view.means[l], view.covariances[l], 2).map(([p, q], i) => `${i ? "L" : "M"}${chart.x(p).toFixed(1)} ${chart.y(q).toFixed(1)}`).join("");
        node("path", { d: d + "Z", fill: color(l), "fill-opacity": 0.1, stroke: color(l), "stroke-opacity": 0.8 }, group);
      }
      const [cx, cy] = [chart.x(view.means[l][0]), chart.y(view.means[l][1])];
      node("circle", { cx, cy, r: 5 + 12 * Math.sqrt(weight / heaviest), fill: color(l), stroke: css("--card"), "stroke-width": 1.5 }, group);
      if (data.components.weights.length <= 40) text(group, cx, cy + 4, String(l), { "text-anchor": "middle", class: "name" });
      const shown = data.columns.slice(0, 12).map((name, j) => `${name}: ${fixed(data.components.means[l][j], data.digits[j])}`);
      if (data.columns.length > 12) shown.push("...");
      chart.hover(group, [`${data.thing} ${l}: ${percent(weight)} of the rows`, ...shown].join("\n"));
      clickable(group, () => choose(l));
    });
    restore();
  };
  if ($("map")) {
    for (const id of ["axis-x", "axis-y"]) {
      const select = $(id), which = id === "axis-x" ? 0 : 1;
      if (data.plane) select.add(new Option(`principal component ${which + 1}`, -1));
      data.columns.forEach((name, j) => select.add(new Option(name, j)));
      select.value = data.plane ? -1 : Math.min(which, data.columns.length - 1);
      // the principal components are one plane: both axes or none
      select.onchange = () => {
        const other = $(which ? "axis-x" : "axis-y");
        if (Number(select.value) < 0) other.value = -1;
        else if (Number(other.value) < 0) other.value = Number(select.value) === 0 ? 1 : 0;
        drawMap();
      };
    }
    $("show-density").onchange = $("show-outlines").onchange = drawMap;
    redraws.push(drawMap);
  }
  for (const row of document.querySelectorAll("tr[data-component]"))
    row.addEventListener("click", () => choose(Number(row.dataset.component)));  // its button is for the keyboard

  // -- one column: a curve instead of a map ---------------------------------------------------------
  if ($("curve")) redraws.push(() => {
    const one = (mixture) => ({ means: mixture.means.map((m) => [m[0]]), covariances: mixture.means.map((_, l) => [[entry(mixture.covariances, l, 0, 0)]]) });
    const mixture = data.mixture || data.components, view = one(mixture), x = range(view, 0), count = 600;
    const least = ((x[1] - x[0]) / count) ** 2;
    const at = Array.from({ length: count + 1 }, (_, i) => x[0] + (i / count) * (x[1] - x[0]));
    const value = at.map((v) => mixture.weights.reduce((sum, weight, l) => {
      const s = view.covariances[l][0][0] + least;
      return sum + (weight / Math.sqrt(2 * Math.PI * s)) * Math.exp((-0.5 * (v - view.means[l][0]) ** 2) / s);
    }, 0));
    const top = 1.05 * Math.max(...value);
    const chart = new Chart($("curve"), { x, y: [0, top], labels: [data.columns[0], "density"], role: "group" });
    chart.line(at.map((v, i) => [v, value[i]]), css("--accent"));
    data.components.weights.forEach((weight, l) => {
      const group = node("g", { class: "mark", "data-mark": l, tabindex: 0, role: "button", "aria-pressed": "false", "aria-label": `${data.thing} ${l}` }, chart.inside);
      node("circle", { cx: chart.x(data.components.means[l][0]), cy: chart.y(0) - 7, r: 6, fill: color(l) }, group);
      chart.hover(group, `${data.thing} ${l}: ${percent(weight)} of the rows\n${data.columns[0]}: ${fixed(data.components.means[l][0], data.digits[0])}`);
      clickable(group, () => choose(l));
    });
    restore();
  });

  // -- misfit against noise, sweep, spectrum ----------------------------------------------------------
  const spread = (values) => [Math.min(...values) / 1.5, Math.max(...values) * 1.5];
  if ($("residual")) redraws.push(() => {
    const p = data.profile, lowest = 1e-6 * Math.max(...p.sampling);
    const lift = (values) => values.map((v) => Math.max(v, lowest));
    const [signal, misfit, floor, sampling] = [p.signal, p.misfit, p.floor, p.sampling].map(lift);
    const chart = new Chart($("residual"), {
      x: spread(p.radius), y: spread([...signal, ...misfit, ...floor]), logX: true, logY: true,
      labels: ["radius (1: one standard deviation of the data; larger: finer detail)", "mean squared modulus"],
    });
    const along = (values) => p.radius.map((r, i) => [r, values[i]]);
    chart.line(along(signal), css("--soft"));
    chart.line(along(sampling), css("--ink"), "2 5", 1.4);
    chart.line(along(floor), css("--good"));
    chart.line(along(misfit), css("--accent"));
    p.radius.forEach((r, i) => {
      const dot = node("circle", { cx: chart.x(r), cy: chart.y(misfit[i]), r: 4.5, fill: css("--accent"), class: "mark" }, chart.inside);
      chart.hover(dot, `radius ${format(r)}, ${p.size[i]} frequencies\nmisfit ${format(p.misfit[i])}\nnoise floor ${format(p.floor[i])}\nratio ${format(p.misfit[i] / Math.max(p.floor[i], 1e-300))}`);
    });
    chart.legend([["sketch", css("--soft")], ["misfit", css("--accent")], ["noise floor", css("--good")], ["sampling noise", css("--ink"), true]]);
  });
  if ($("sweep")) redraws.push(() => {
    const rows = data.sweep.rows, ks = rows.map((r) => r.k);
    const chart = new Chart($("sweep"), {
      x: [Math.min(...ks) - 0.5, Math.max(...ks) + 0.5], y: spread([...rows.map((r) => r.ratio), 1]), logY: true,
      labels: ["number of components", "misfit / noise floor"], xTicks: ks.length <= 25 ? ks : undefined, height: 340,
    });
    chart.line(rows.map((r) => [r.k, r.ratio]), css("--accent"));
    for (const r of rows) {
      const best = r.k === data.sweep.recommended;
      const dot = node("circle", { cx: chart.x(r.k), cy: chart.y(r.ratio), r: best ? 9 : 5, fill: css(r.reliable ? "--good" : "--accent"), class: "mark" }, chart.inside);
      chart.hover(dot, `k = ${r.k}${best ? " (recommended)" : ""}${r.reliable ? ", certified" : ""}\nmisfit / noise floor ${format(r.ratio)}\nmean squared distance ${format(r.inertia)}`);
    }
    chart.legend([["misfit / noise floor", css("--accent")], ["certified", css("--good")], ["large: recommended", css("--soft")]]);
  });
  const bars = (host, labels, values, errors, axis) => {
    const low = Math.min(0, ...values.map((v, i) => v - 2 * errors[i])), high = Math.max(0, ...values.map((v, i) => v + 2 * errors[i])) || 1;
    const room = 0.04 * (high - low), n = values.length;
    const chart = new Chart(host, { x: [-0.6, n - 0.4], y: [low < 0 ? low - room : 0, high + room], labels: axis, xTicks: [], height: 340 });
    values.forEach((v, i) => {
      const x0 = chart.x(i - 0.36), x1 = chart.x(i + 0.36), y0 = chart.y(Math.max(v, 0)), y1 = chart.y(Math.min(v, 0));
      const bar = node("rect", { x: x0, y: y0, width: x1 - x0, height: Math.max(y1 - y0, 1), fill: css("--accent"), class: "mark", rx: 2 }, chart.inside);
      if (errors[i] > 0) node("line", { x1: chart.x(i), x2: chart.x(i), y1: chart.y(v - 2 * errors[i]), y2: chart.y(v + 2 * errors[i]), stroke: css("--ink") }, chart.inside);
      chart.hover(bar, labels[i]);
      if (n <= 30 && 7 * axis[2][i].length < x1 - x0 + 8) text(chart.svg, chart.x(i), chart.height - chart.box.bottom + 17, axis[2][i], { "text-anchor": "middle" });
    });
  };
  if ($("spectrum")) redraws.push(() => {
    const { variances, shares } = data.spectrum;
    let sum = 0;
    const words = variances.map((v, i) => `component ${i + 1}: variance ${format(v)}\n${percent(shares[i])}, together ${percent((sum += shares[i]))}`);
    bars($("spectrum"), words, variances, variances.map(() => 0), ["principal component", "variance", variances.map((_, i) => String(i + 1))]);
  });
  if ($("eigenvalues")) redraws.push(() => {
    const { values, clusters } = data.eigenvalues;
    const words = values.map((v, i) => `eigenvalue ${i + 1}: ${format(v)}${i === clusters ? `\n${format(v / Math.max(values[i - 1], 1e-12))} times the one before` : ""}`);
    bars($("eigenvalues"), words, values, values.map(() => 0), ["eigenvalue", "of the Laplacian", values.map((_, i) => String(i + 1))]);
  });
  if ($("coefficients")) redraws.push(() => {
    const r = data.regression;
    const words = r.names.map((name, i) => `${name}\n${r.axis}: ${format(r.effects[i])}\ncoefficient ${format(r.coefficients[i])}`);
    bars($("coefficients"), words, r.effects, r.errors, ["column", r.axis, r.names.map((n) => (n.length > 10 ? n.slice(0, 9) + "…" : n))]);
  });

  if ($("drift")) redraws.push(() => {
    const rows = data.drift, n = rows.length, at = rows.map((_, i) => i);
    const top = 1.08 * Math.max(...rows.map((r) => Math.max(r.distance, r.edge)), 1e-9);
    const chart = new Chart($("drift"), { x: [-0.6, n - 0.4], y: [0, top], labels: ["", "distance (MMD)"], xTicks: [], height: 340 });
    for (const i of at)
      node("rect", { x: chart.x(i - 0.5), width: chart.x(i + 0.5) - chart.x(i - 0.5), y: chart.y(rows[i].edge), height: chart.y(0) - chart.y(rows[i].edge), fill: css("--bar") }, chart.inside);
    chart.line(at.map((i) => [i, rows[i].distance]), css("--soft"), undefined, 1.2);
    const every = Math.ceil((n * 92) / chart.width);
    rows.forEach((r, i) => {
      const dot = node("circle", { cx: chart.x(i), cy: chart.y(r.distance), r: r.differs ? 7 : 5, fill: css(r.differs ? "--warn" : "--good"), class: "mark" }, chart.inside);
      chart.hover(dot, `${r.label}: ${r.words}\ndistance ${format(r.distance)}\nnoise alone reaches ${format(r.edge)}`);
      const short = r.label.length > 11 ? r.label.slice(0, 10) + "…" : r.label;
      if (i % every === 0) text(chart.svg, chart.x(i), chart.height - chart.box.bottom + 17, short, { "text-anchor": "middle" });
    });
    chart.legend([["differs", css("--warn")], ["no alarm", css("--good")], ["what noise alone reaches", css("--bar")]]);
  });

  // -- tables -------------------------------------------------------------------------------------
  for (const table of document.querySelectorAll("table.sortable")) {
    const body = table.tBodies[0];
    [...table.tHead.rows[0].cells].forEach((head, column) => {
      let down = false;
      head.querySelector("button").addEventListener("click", () => {
        down = !down;
        for (const other of table.tHead.rows[0].cells) other.removeAttribute("aria-sort");
        head.setAttribute("aria-sort", down ? "descending" : "ascending");
        const key = (row) => Number(row.cells[column].dataset.value);
        const order = (a, b) => {
          const [x, y] = [key(a), key(b)];
          const by = Number.isNaN(x - y) ? a.cells[column].textContent.localeCompare(b.cells[column].textContent) : x - y;
          return down ? -by : by;
        };
        body.append(...[...body.rows].sort(order));
      });
    });
  }
  for (const button of document.querySelectorAll("button[data-table]"))
    button.onclick = () => {
      // a spreadsheet takes text that begins like a formula for one: names are somebody else's
      const plain = (words) => (/^[=+\-@\t\r]/.test(words) && Number.isNaN(Number(words)) ? "'" + words : words);
      const quote = (words) => (/[",\r\n]/.test(plain(words)) ? `"${plain(words).replaceAll('"', '""')}"` : plain(words));
      const rows = [...$(button.dataset.table).rows].map((row) => [...row.cells].map((c) => quote(c.dataset.value ?? c.textContent.trim())).join(","));
      const link = document.createElement("a");
      link.href = URL.createObjectURL(new Blob([rows.join("\n") + "\n"], { type: "text/csv" }));
      link.download = button.dataset.table + ".csv";
      link.click();
    };

  let drawn = innerWidth;
  addEventListener("resize", () => {
    if (innerWidth !== drawn) { drawn = innerWidth; redraws.forEach((draw) => draw()); }
  });
  setTheme(wished.matches ? "dark" : "light");
  root.dataset.ready = "yes";
})();

"use strict";
const COLOURS = ["#4e79a7", "#f28e2b", "#59a14f", "#e15759", "#76b7b2", "#b07aa1", "#edc948", "#ff9da7", "#9c755f", "#7f7f7f"];
const byId = (id) => document.getElementById(id);
let stored = {}, followed = [];

function element(name, attributes, ...children) {
  const svg = ["svg", "g", "rect", "line", "polyline", "circle", "text", "title"].includes(name);
  const made = svg ? document.createElementNS("http://www.w3.org/2000/svg", name) : document.createElement(name);
  for (const [key, value] of Object.entries(attributes || {})) made.setAttribute(key, value);
  for (const child of children) made.append(child);
  return made;
}

function fill(place, ...children) { place.replaceChildren(...children); }

async function ask(what, values) {
  const answer = await fetch(`/api/${what}?${new URLSearchParams(values || {})}`, {credentials: "same-origin"});
  if (answer.status === 401) { byId("login").hidden = false; throw new Error("this page needs the token"); }
  const found = await answer.json().catch(() => ({error: "no answer"}));
  if (!answer.ok) throw new Error(found.error || answer.statusText);
  return found;
}

function selection() { return Object.fromEntries([...new FormData(byId("selection"))].filter(([, v]) => v !== "")); }

async function guarded(work) {
  byId("problem").hidden = true;
  try { await work(); } catch (error) { byId("problem").textContent = error.message; byId("problem").hidden = false; }
}

function short(value) { return Math.abs(value) >= 1000 ? value.toLocaleString("en") : Number(value.toPrecision(3)).toString(); }

function drawTimeline(found) {
  const width = 1060, height = 220, left = 50, bottom = 24, periods = found.periods;
  const most = Math.max(...periods.map((p) => p.rows), 1);
  const logs = periods.map((p) => p.p === null ? null : Math.min(-Math.log10(Math.max(p.p, 1e-300)), 30));
  const highest = Math.max(5, ...logs.filter((v) => v !== null));
  const step = (width - left) / periods.length, x = (i) => left + step * (i + 0.5);
  const y = (value) => (height - bottom) * (1 - value);
  const picture = element("svg", {viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": `rows and drift of ${periods.length} periods`});
  periods.forEach((p, i) => picture.append(element("rect", {class: "bar", x: x(i) - 0.45 * step, y: y(p.rows / most), width: 0.9 * step, height: (height - bottom) * p.rows / most},
    element("title", {}, `${p.period}: ${short(p.rows)} rows` + (p.p === null ? "" : `, p = ${short(p.p)}`)))));
  const line = logs.map((v, i) => v === null ? null : `${x(i)},${y(v / highest)}`).filter((v) => v !== null).join(" ");
  picture.append(element("polyline", {class: "line", points: line}));
  for (const change of found.changes) {
    const i = periods.findIndex((p) => p.period === change.period);
    picture.append(element("line", {class: "change", x1: x(i) - step / 2, x2: x(i) - step / 2, y1: 0, y2: height - bottom}));
  }
  picture.append(element("text", {x: 0, y: 12}, short(most)), element("text", {x: left, y: height - 6}, periods[0].period),
    element("text", {x: width, y: height - 6, "text-anchor": "end"}, periods[periods.length - 1].period));
  fill(byId("timeline"), picture);
  fill(byId("changes"), ...found.changes.map((c) => element("li", {}, `${c.period}: changed (p = ${short(c.p)})${c.columns.length ? ", " + c.columns.join(", ") : ""}`)));
}

function scatter(points, label) {
  const width = 1060, height = 420, pad = 50;
  const xs = points.all.map((p) => p[0]), ys = points.all.map((p) => p[1]);
  const scale = (value, low, high, size) => pad + (size - 2 * pad) * (high > low ? (value - low) / (high - low) : 0.5);
  const picture = element("svg", {viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": label});
  for (const p of points.shown) {
    const x = scale(p.at[0], Math.min(...xs), Math.max(...xs), width), y = height - scale(p.at[1], Math.min(...ys), Math.max(...ys), height);
    picture.append(element("circle", {cx: x, cy: y, r: p.radius, fill: p.colour, "fill-opacity": 0.75}, element("title", {}, p.title)),
      element("text", {x: x + p.radius + 3, y: y + 4}, p.name));
  }
  return picture;
}

function drawPeriod(number) {
  const now = followed[number], before = number ? followed[number - 1] : null;
  const old = Object.fromEntries((before ? before.clusters : []).map((c) => [c.id, c.share]));
  byId("when").textContent = now.period + (now.born.length ? `, born: ${now.born}` : "") + (now.died.length ? `, gone: ${now.died}` : "");
  const shown = now.clusters.map((c) => ({at: c.at, radius: 6 + 60 * Math.sqrt(c.share) / 2, colour: COLOURS[c.id % COLOURS.length], name: String(c.id),
    title: `cluster ${c.id}: ${short(100 * c.share)} % at ${c.center.map(short).join(", ")}`}));
  fill(byId("clusters"), scatter({shown, all: followed.flatMap((p) => p.clusters.map((c) => c.at))}, `clusters of ${now.period}`));
  const head = element("tr", {}, ...["cluster", "share", "change"].map((t) => element("th", {scope: "col"}, t)));
  fill(byId("sizes").tBodies[0], head, ...[...now.clusters].sort((a, b) => b.share - a.share).map((c) => element("tr", {},
    element("td", {}, String(c.id)), element("td", {}, `${(100 * c.share).toFixed(1)} %`),
    element("td", {}, c.id in old ? `${c.share >= old[c.id] ? "+" : ""}${(100 * (c.share - old[c.id])).toFixed(1)}` : "new"))));
}

function offerModels() {
  const {every, ...cells} = selection(), k = new FormData(byId("clusters-form")).get("k");
  for (const what of ["model", "report"]) byId(what).href = `/api/${what}?${new URLSearchParams({...cells, k})}`;
}

async function followClusters() {
  const k = new FormData(byId("clusters-form")).get("k");
  followed = (await ask("clusters", {...selection(), k})).periods;
  const slider = byId("slider");
  slider.max = followed.length - 1; slider.value = followed.length - 1; slider.disabled = followed.length < 2;
  drawPeriod(followed.length - 1);
}

async function show() {
  const chosen = selection(), facts = stored[chosen.dataset];
  const {every, ...cells} = chosen;
  byId("sketch").href = `/api/sketch?${new URLSearchParams(cells)}`;
  offerModels();
  byId("facts").textContent = `${short(facts.rows)} rows, ${facts.dim} columns, ${facts.size} features` + (facts.since ? `, ${facts.since} to ${facts.until}, buckets of ${facts.every}` : "");
  fill(byId("groups-form").elements.by, ...Object.keys(facts.groups).map((name) => element("option", {value: name}, name)));
  if (facts.every) drawTimeline(await ask("timeline", chosen));
}

async function compareTwo() {
  const {every, ...cells} = selection();
  const found = await ask("compare", {...cells, ...Object.fromEntries(new FormData(byId("compare-form")))});
  byId("verdict").textContent = `${found.p < 0.01 ? "They differ" : "No difference found"}: distance ${short(found.distance)}, p = ${short(found.p)}, ${found.rows.map(short).join(" and ")} rows.`;
  const head = element("tr", {}, ...["column", "shift (sd)", "spread", "p"].map((t) => element("th", {scope: "col"}, t)));
  fill(byId("moved").tBodies[0], head, ...found.columns.map((c) => element("tr", {}, element("td", {}, c.column), element("td", {}, short(c.shift)),
    element("td", {}, c.spread === null ? "" : `${short(100 * c.spread)} %`), element("td", {}, short(c.p)))));
}

async function drawGroups() {
  const {every, ...cells} = selection();
  const found = (await ask("groups", {...cells, by: byId("groups-form").elements.by.value})).groups;
  const most = Math.max(...found.map((g) => g.rows));
  const shown = found.map((g, i) => ({at: g.at, radius: 4 + 12 * Math.sqrt(g.rows / most), colour: COLOURS[i % COLOURS.length], name: g.group,
    title: `${g.group}: ${short(g.rows)} rows; nearest: ${g.nearest.join(", ")}`}));
  fill(byId("groups"), scatter({shown, all: found.map((g) => g.at)}, `map of ${found.length} groups`));
}

function theme(name) {
  document.documentElement.dataset.theme = name;
  byId("theme").textContent = name === "dark" ? "Light" : "Dark";
}

theme(matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light");
byId("theme").addEventListener("click", () => theme(document.documentElement.dataset.theme === "dark" ? "light" : "dark"));
for (const [form, work] of [["selection", show], ["clusters-form", followClusters], ["compare-form", compareTwo], ["groups-form", drawGroups]]) {
  byId(form).addEventListener("submit", (event) => { event.preventDefault(); guarded(work); });
}
byId("clusters-form").elements.k.addEventListener("input", offerModels);
byId("slider").addEventListener("input", (event) => drawPeriod(Number(event.target.value)));
guarded(async () => {
  const found = await ask("datasets");
  stored = found.datasets;
  byId("place").textContent = found.place;
  const names = Object.keys(stored);
  if (!names.length) throw new Error("the store has no datasets yet");
  fill(byId("selection").elements.dataset, ...names.map((name) => element("option", {value: name}, name)));
  byId("content").hidden = false;
  await show();
});

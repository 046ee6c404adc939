// The controls of the cost explorer: settings in, decisions out.

const data = JSON.parse(document.getElementById("tl-data").textContent);
const root = document.getElementById("tl-explorer");
const model = modelOf(data);
const START = { person: data.person ?? null };
for (const key of ["matrix", "tables", "beta"]) if (key in data) START[key] = data[key];
const clone = (settings) => JSON.parse(JSON.stringify(settings));
const MOST_CELLS = 169, MOST_LABELS = 30, PAGE = 12;
let settings = clone(START), shown = PAGE, timing = 0, now = null;
const before = model.copy(model.evaluate(START).z);  // what the report's own costs decide
const buffer = model.fresh();

// -- building blocks --------------------------------------------------------------------------------------------------

const el = (tag, attributes = {}, ...children) => {
  const node = document.createElement(tag);
  for (const [key, value] of Object.entries(attributes)) {
    if (key.startsWith("on")) node.addEventListener(key.slice(2), value);
    else if (value === true) node.setAttribute(key, "");
    else if (value !== false && value !== null) node.setAttribute(key, value);
  }
  node.append(...children);
  return node;
};
const digits = new Intl.NumberFormat("en", { maximumSignificantDigits: 4 });
const round = (x) => digits.format(x).replace("-", "\u2212");
const share = (x) => `${new Intl.NumberFormat("en", { maximumSignificantDigits: 3 }).format(100 * x)} %`;
const plain = (x) => String(Number(x.toPrecision(6)));
const write = (field, value) => {
  if (field !== document.activeElement || Number(field.value) !== value) field.value = plain(value);
  field.removeAttribute("aria-invalid");
};

/** A number that is typed; what is none is marked, and the last one stays in use. */
const numberField = (label, set, attributes = {}) => el("input", {
  type: "number", step: "any", inputmode: "decimal", "aria-label": label, ...attributes,
  oninput: (event) => {
    const field = event.target, value = field.valueAsNumber, least = attributes.min ?? -Infinity;
    const fits = Number.isFinite(value) && value >= least && !(attributes.above !== undefined && value <= attributes.above);
    field.toggleAttribute("aria-invalid", !fits);
    if (fits) { field.removeAttribute("aria-invalid"); set(value); change(); } else field.setAttribute("aria-invalid", "true");
  },
});

/** A slider with the number that it stands for; on a logarithmic scale where `log`. */
const slider = (id, label, low, high, get, set, log = false, on = () => true) => {
  const to = log ? Math.log : (x) => x, from = log ? Math.exp : (x) => x;
  const range = el("input", {
    type: "range", id, min: to(low), max: to(high), step: "any",
    oninput: () => { set(Number(from(Number(range.value)).toPrecision(3))); change(); },
    onkeydown: (event) => {  // a step of "any" has no arrows
      const step = { ArrowLeft: -1, ArrowDown: -1, ArrowRight: 1, ArrowUp: 1, PageDown: -10, PageUp: 10 }[event.key];
      if (!step) return;
      event.preventDefault();
      range.value = Number(range.value) + (step * (to(high) - to(low))) / 100;
      range.dispatchEvent(new Event("input"));
    },
  });
  const field = numberField(label, set, log ? { above: 0 } : { min: low });
  const node = el("div", { class: "slider" }, el("label", { for: id }, label), range, field);
  const show = () => {
    const value = get();
    range.disabled = field.disabled = !on();
    range.value = to(value);
    range.setAttribute("aria-valuetext", round(value));
    write(field, value);
  };
  return { node, show };
};

// -- the controls of each kind ----------------------------------------------------------------------------------------

const shows = [];  // what brings each control to the settings
const add = (control) => { shows.push(control.show); return control.node; };
const largest = (cells) => Math.max(...cells.flat(Infinity).map(Math.abs), 1e-9);

const matrixControls = () => {
  const rows = data.outputs.length, columns = data.labels.length, square = rows === columns && !data.foreign.some(Boolean);
  const named = square && data.outputs.every((name, i) => name === data.labels[i]);
  const fill = (cost) => { settings.matrix = START.matrix.map((row, a) => row.map((_, b) => cost(a, b))); };
  const nodes = [];
  if (named) {
    const presets = {
      fitted: ["as in the report", () => { settings.matrix = clone(START.matrix); }],
      same: ["every mistake costs one", () => fill((a, b) => Number(a !== b))],
      distance: ["the distance between grades", () => fill((a, b) => Math.abs(a - b))],
      squared: ["the squared distance", () => fill((a, b) => (a - b) ** 2)],
    };
    if (columns < 3) { delete presets.distance; delete presets.squared; }
    const choice = el("select", { id: "tl-preset", onchange: () => { if (presets[choice.value]) { presets[choice.value][1](); change(); } } },
      el("option", { value: "own" }, "of your own"), ...Object.entries(presets).map(([key, [words]]) => el("option", { value: key }, words)));
    nodes.push(el("p", {}, el("label", { for: "tl-preset" }, "Start from "), choice));
    shows.push(() => {
      const same = JSON.stringify(settings.matrix), kept = settings.matrix;
      choice.value = Object.entries(presets).find(([, [, apply]]) => { apply(); return JSON.stringify(settings.matrix) === same; })?.[0] ?? "own";
      settings.matrix = kept;
    });
  }
  if (named && columns === 2) {
    const [none, some] = data.labels;
    nodes.push(add(slider("tl-ratio", `Deciding ${none} where it is ${some}, in units of the opposite mistake`, 0.05, 50,
      () => (settings.matrix[1][0] > 0 && settings.matrix[0][1] > 0 ? settings.matrix[0][1] / settings.matrix[1][0] : 1),
      (r) => { settings.matrix[0][1] = Number((r * (settings.matrix[1][0] || 1)).toPrecision(6)); if (!(settings.matrix[1][0] > 0)) settings.matrix[1][0] = 1; }, true)));
  } else if (named) {
    const grade = { power: 1, high: 1 };
    const apply = () => fill((a, b) => Number(((a > b ? grade.high : 1) * Math.abs(a - b) ** grade.power).toPrecision(6)));
    nodes.push(el("details", {}, el("summary", {}, "Costs of ordered grades"),
      el("p", { class: "note" }, "The labels in their order; a mistake costs a power of its distance, and more or less where it is too high."),
      add(slider("tl-power", "Power of the distance", 0.25, 3, () => grade.power, (x) => { grade.power = x; apply(); })),
      add(slider("tl-high", "Too high costs times", 0.1, 10, () => grade.high, (x) => { grade.high = x; apply(); }, true))));
  }
  if (rows * columns > MOST_CELLS) return [...nodes, el("p", { class: "note" }, `The table has ${rows} rows and ${columns} columns, too many to edit by hand here.`)];
  const cells = data.outputs.map((output, a) => data.labels.map((label, b) =>
    numberField(`Cost of deciding ${output} where it is ${label}`, (value) => { settings.matrix[a][b] = value; }, { class: a === b && named ? "right" : "" })));
  shows.push(() => cells.forEach((row, a) => row.forEach((field, b) => write(field, settings.matrix[a][b]))));
  const words = "Cost of each decision (rows), by what is true (columns)";
  nodes.push(el("p", { class: "caption" }, words), el("div", { class: "scroll" }, el("table", { class: "matrix", "aria-label": words },
    el("thead", {}, el("tr", {}, el("th", { scope: "col" }, "decision"), ...data.labels.map((label) => el("th", { scope: "col", class: "number" }, label)))),
    el("tbody", {}, ...cells.map((row, a) => el("tr", {}, el("th", { scope: "row" }, data.outputs[a]), ...row.map((field) => el("td", {}, field))))))));
  return nodes;
};

const setControls = () => {
  const nodes = [add(slider("tl-ratio", "A missed label, in units of a false one", 0.05, 50,
    () => settings.tables[0][0][1] / settings.tables[0][1][0] || 1,
    (r) => { settings.tables.forEach((table) => { table[0][1] = Number((r * table[1][0]).toPrecision(6)); }); }, true))];
  if (data.k > MOST_LABELS) return nodes;
  const cells = data.labels.map((label, j) => [
    numberField(`Cost of missing ${label}`, (value) => { settings.tables[j][0][1] = value; }),
    numberField(`Cost of a false ${label}`, (value) => { settings.tables[j][1][0] = value; })]);
  shows.push(() => cells.forEach(([miss, alarm], j) => { write(miss, settings.tables[j][0][1]); write(alarm, settings.tables[j][1][0]); }));
  nodes.push(el("details", {}, el("summary", {}, "Costs label by label"), el("div", { class: "scroll" }, el("table", { class: "matrix" },
    el("thead", {}, el("tr", {}, ...["label", "missed", "false"].map((name) => el("th", { scope: "col" }, name)))),
    el("tbody", {}, ...cells.map((row, j) => el("tr", {}, el("th", { scope: "row" }, data.labels[j]), ...row.map((field) => el("td", {}, field)))))))));
  return nodes;
};

const fControls = () => [
  add(slider("tl-beta", "beta: how much recall counts against precision", 0.1, 10, () => settings.beta, (x) => { settings.beta = x; }, true))];

const personControls = () => {
  const dearest = data.kind === "labels" ? largest(START.matrix) : data.dearest;
  let price = START.person ?? Number((dearest / 4).toPrecision(2));
  const box = el("input", { type: "checkbox", id: "tl-person", onchange: () => { settings.person = box.checked ? price : null; change(); } });
  shows.push(() => { box.checked = settings.person !== null; if (box.checked) price = settings.person; });
  return [
    el("p", {}, box, " ", el("label", { for: "tl-person" }, "Pass an example to a person where that is expected to cost less")),
    add(slider("tl-price", "What a person costs", 0, dearest, () => price, (x) => { settings.person = x; }, false, () => settings.person !== null))];
};

// -- what is shown ----------------------------------------------------------------------------------------------------

const figures = el("dl", { class: "figures", role: "status", "aria-live": "polite", "aria-atomic": "true" });
const confusionTitle = data.kind === "labels" ? "Decisions (rows) by what is true (columns)" : "Labels found, missed and false";
const confusion = el("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": confusionTitle });
const flips = el("div");
const link = el("input", { type: "text", readonly: true, id: "tl-link", onfocus: (event) => event.target.select() });
const said = el("span", { role: "status", class: "note" });

const card = (key, name, value, note = "") => el("div", { "data-figure": key }, el("dt", {}, name), el("dd", {}, el("strong", {}, value), el("span", { class: "note" }, note)));

const showFigures = (old, changed) => {
  const saved = old - now.total;
  figures.replaceChildren(
    card("total", "total cost", round(now.total), `${round(now.mean)} an example`),
    card("flips", "decisions that flip", round(changed), `${share(changed / model.n)} of ${model.n.toLocaleString("en")}`),
    card("saved", "saved by deciding anew", round(saved), `the report's decisions would cost ${round(old)}`),
    card("passed", "passed to a person", share(now.passed), settings.person === null ? "nobody is asked" : `at ${round(settings.person)} each`));
};

const heat = (value, most) => `--heat:${most > 0 ? Math.round((70 * value) / most) : 0}%`;
const showConfusion = () => {
  const sets = data.kind !== "labels";
  const names = sets ? data.labels : [...data.outputs, ...(settings.person === null ? [] : ["a person"])];
  const header = sets ? ["label", "found", "missed", "false", "rightly not there"] : ["decision", ...data.labels];
  const order = sets ? [3, 1, 2, 0] : data.labels.map((_, b) => b);
  const most = Math.max(...now.confusion.map((row) => Math.max(...row)));
  const rows = now.confusion.slice(0, MOST_LABELS);
  confusion.replaceChildren(el("table", { class: "confusion", "aria-label": confusionTitle },
    el("thead", {}, el("tr", {}, ...header.map((name, j) => el("th", { scope: "col", class: j ? "number" : "" }, name)))),
    el("tbody", {}, ...rows.map((row, a) => el("tr", {}, el("th", { scope: "row" }, names[a]),
      ...order.map((b) => el("td", { class: "number", style: heat(row[b], most) }, round(row[b]))))))));
  if (rows.length < now.confusion.length) confusion.append(el("p", { class: "note" }, `${rows.length} of ${now.confusion.length} rows.`));
};

const likeliest = (i) => model.law(i).map((p, j) => [p, j]).sort((a, b) => b[0] - a[0]).slice(0, 3)
  .map(([p, j]) => `${data.labels[j]} ${share(Math.max(p, 0))}`).join(", ");
const showFlips = (changed) => {
  const places = [];
  for (let i = 0; i < model.n && places.length < shown; i++) if (model.differ(before, now.z, i)) places.push(i);
  if (!places.length) { flips.replaceChildren(el("p", {}, "No decision is another than the report's.")); return; }
  const rows = places.map((i) => [data.ids ? data.ids[i] : i, model.name(before, i), model.name(now.z, i), model.known(i), likeliest(i)]);
  const header = ["example", "was", "is now", "known label", "likeliest, as the model sees it"];
  flips.replaceChildren(el("p", { class: "caption" }, `${places.length} of ${changed.toLocaleString("en")} examples that flip`),
    el("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "Examples that flip" }, el("table", { "aria-label": "Examples that flip" },
    el("thead", {}, el("tr", {}, ...header.map((name) => el("th", { scope: "col" }, name)))),
    el("tbody", {}, ...rows.map((row) => el("tr", {}, ...row.map((cell, j) => el(j ? "td" : "th", j ? {} : { scope: "row" }, String(cell)))))))));
  if (places.length < changed) flips.append(el("button", { type: "button", id: "tl-more", onclick: () => { shown += 4 * PAGE; showFlips(changed); } }, "Show more"));
};

// -- settings that change ---------------------------------------------------------------------------------------------

const update = () => {
  const start = performance.now();
  now = model.evaluate(settings, buffer);
  const old = model.priced(before, settings);
  let changed = 0;
  for (let i = 0; i < model.n; i++) if (model.differ(before, now.z, i)) changed++;
  shows.forEach((show) => show());
  showFigures(old, changed);
  showConfusion();
  showFlips(changed);
  timing = performance.now() - start;
  const hash = JSON.stringify(settings) === JSON.stringify(START) ? "" : `#s=${encodeURIComponent(JSON.stringify(settings))}`;
  link.value = location.href.split("#")[0] + hash;
  if (hash || location.hash.startsWith("#s=")) history.replaceState(null, "", hash || "#explorer");
  return { changed, old };
};

let waiting = false;
const change = () => {
  said.textContent = "";
  if (waiting) return;
  waiting = true;
  requestAnimationFrame(() => { waiting = false; shown = PAGE; update(); });
};

const fromLink = () => {
  if (!location.hash.startsWith("#s=")) return;
  const found = settingsOf(location.hash.slice(3), START);
  if (found) { settings = found; return; }
  said.textContent = "The link's settings are not of this page: the report's own are shown.";
};

const copy = async () => {
  try { await navigator.clipboard.writeText(link.value); } catch { link.focus(); link.select(); document.execCommand("copy"); }
  said.textContent = "The link is copied.";
};

const costs = { labels: matrixControls, sets: setControls, f: fControls }[data.kind];
root.append(figures,
  el("div", { class: "panel" },
    el("div", { class: "beside" },
      el("fieldset", {}, el("legend", {}, data.kind === "f" ? "The measure" : "Costs"), ...costs()),
      el("div", { class: "confused" }, el("p", { class: "caption" }, confusionTitle), confusion)),
    el("fieldset", {}, el("legend", {}, "A person"), ...personControls()),
    el("p", { class: "buttons" },
      el("button", { type: "button", id: "tl-reset", onclick: () => { settings = clone(START); change(); } }, "Back to the report's costs"),
      el("button", { type: "button", id: "tl-copy", onclick: copy }, "Copy a link to these settings"), said),
    el("p", { class: "link" }, el("label", { for: "tl-link" }, "Link "), link)),
  el("h3", {}, "Examples that flip"), flips);
fromLink();
update();
addEventListener("hashchange", () => { if (location.hash.startsWith("#s=")) { fromLink(); update(); } });
window.taskloss = { data, evaluate: (s) => model.evaluate(s, buffer), get settings() { return settings; }, get result() { return now; }, get timing() { return timing; }, model };

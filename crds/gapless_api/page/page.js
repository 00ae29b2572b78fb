"use strict";
for (const element of document.querySelectorAll(".scripted")) element.hidden = false;

// The theme: what the system prefers, until somebody chooses.
const root = document.documentElement;
const theme = document.getElementById("theme");
const isDark = () => (root.dataset.theme || (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light")) === "dark";
const nameTheme = () => { theme.textContent = isDark() ? "Light" : "Dark"; };
theme.addEventListener("click", () => { root.dataset.theme = isDark() ? "light" : "dark"; nameTheme(); });
nameTheme();

// Commands to copy; files opened from a disk may have no clipboard of their own, so the text is selected as well.
for (const button of document.querySelectorAll(".copy")) {
  button.addEventListener("click", () => {
    getSelection().selectAllChildren(button.previousElementSibling);
    button.textContent = document.execCommand("copy") ? "Copied" : "Selected";
  });
}

// Maps. A unit is an offset where every range is known, else one of the fine parts. BigInt, as offsets go up to 2^63-1.
const PARTS = 120n, TRACK = 32, HEIGHTS = [8, 14, 20, 26, 32];
const shown = (number) => number.toLocaleString("en-US");
const least = (a, b) => (a < b ? a : b), most = (a, b) => (a > b ? a : b);
const numbers = (text) => (text ? text.split(" ").map(BigInt) : []);
const shadeOf = (missing, size) => {
  if (missing === 0n) return -1;
  if (missing >= size) return 4;
  const found = [1n, 10n, 50n].findIndex((percent) => 100n * missing <= percent * size);
  return found < 0 ? 3 : found;
};

const percent = (part, whole) => `${Number(100000n * part / whole) / 1000}%`;
const made = (name, attributes) => {
  const element = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const [key, text] of Object.entries(attributes)) element.setAttribute(key, text);
  return element;
};

function mapOf(figure, source) {
  const svg = figure.querySelector("svg.track"), strip = figure.querySelector("svg.strip"), bars = svg.querySelector("g"), said = figure.querySelector("output");
  const [left, right] = figure.querySelectorAll(".ends span");
  const first = BigInt(source.first), span = BigInt(source.last) - first + 1n;
  const lists = { missing: numbers(source.missing), inferred: numbers(source.inferred) };
  const units = source.exact ? span : BigInt(lists.missing.length);
  const fewest = source.exact ? least(10n, units) : least(PARTS, units);
  const offset = (unit) => first + (span * unit) / units;
  let low = 0n, high = units, parts = [];

  // How many offsets of a list lie in the units from a to b (exclusive).
  function count(list, a, b) {
    let sum = 0n;
    if (!source.exact) { for (let unit = a; unit < b && list.length; unit += 1n) sum += list[Number(unit)]; return sum; }
    for (let index = 0; index < list.length; index += 2) {
      const from = most(list[index], first + a), to = least(list[index + 1], first + b - 1n);
      if (from <= to) sum += to - from + 1n;
    }
    return sum;
  }

  function draw() {
    const amount = least(PARTS, high - low), paths = ["", "", "", "", ""];
    parts = [];
    strip?.replaceChildren();
    for (let k = 0n; k < amount; k += 1n) {
      const a = low + ((high - low) * k) / amount, b = low + ((high - low) * (k + 1n)) / amount;
      const part = { from: offset(a), to: offset(b) - 1n, missing: count(lists.missing, a, b), inferred: count(lists.inferred, a, b) };
      const shade = shadeOf(part.missing, part.to - part.from + 1n);
      if (shade >= 0) paths[shade] += `M${k} ${TRACK - HEIGHTS[shade]}h1V${TRACK}h-1z`;
      if (part.inferred) strip.append(made("rect", { class: "inferred", x: percent(k, amount), width: percent(1n, amount), height: "100%" }));
      parts.push(part);
    }
    svg.setAttribute("viewBox", `0 0 ${amount} ${TRACK}`);
    svg.querySelector(".ground").setAttribute("width", String(amount));
    bars.replaceChildren();
    paths.forEach((path, shade) => { if (path) bars.append(made("path", { class: `s${shade}`, d: path })); });
    left.textContent = shown(offset(low));
    right.textContent = shown(offset(high) - 1n);
    figure.dataset.zoomed = String(high - low !== units);
  }

  function look(width, from) {
    const wanted = most(fewest, least(width, units));
    low = most(0n, least(from, units - wanted));
    high = low + wanted;
    draw();
    const missing = count(lists.missing, low, high), inferred = count(lists.inferred, low, high);
    said.textContent = `${shown(missing)} missing here${inferred ? `, ${shown(inferred)} of them inferred` : ""}`;
  }

  const zoom = (inward, at = 500n) => {
    const width = high - low, wanted = inward ? width / 2n : width * 2n;
    look(wanted, low + (width * at) / 1000n - (wanted * at) / 1000n);
  };
  const deeds = {
    in: () => zoom(true),
    out: () => zoom(false),
    left: () => look(high - low, low - (high - low) / 4n),
    right: () => look(high - low, low + (high - low) / 4n),
    all: () => look(units, 0n),
  };
  const keys = { "+": "in", "=": "in", "-": "out", ArrowLeft: "left", ArrowRight: "right", 0: "all" };
  const place = (event) => {
    const box = svg.getBoundingClientRect();
    return Math.min(Math.max((event.clientX - box.left) / box.width, 0), 0.999);
  };

  svg.setAttribute("tabindex", "0");
  svg.addEventListener("keydown", (event) => {
    const deed = deeds[keys[event.key]];
    if (!deed || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    deed();
  });
  svg.addEventListener("wheel", (event) => {
    if (document.activeElement !== svg) return;
    event.preventDefault();
    zoom(event.deltaY < 0, BigInt(Math.round(place(event) * 1000)));
  }, { passive: false });
  svg.addEventListener("click", () => svg.focus());
  svg.addEventListener("pointermove", (event) => {
    if (!parts.length) draw();
    const part = parts[Math.floor(place(event) * parts.length)];
    const inferred = part.inferred ? `, ${shown(part.inferred)} of them inferred` : "";
    said.textContent = `${shown(part.from)} to ${shown(part.to)}: ${shown(part.missing)} of ${shown(part.to - part.from + 1n)} missing${inferred}`;
  });
  for (const button of figure.querySelectorAll("button")) button.addEventListener("click", deeds[button.dataset.do]);
}

const sources = JSON.parse(document.getElementById("source").textContent);
for (const figure of document.querySelectorAll(".map")) mapOf(figure, sources[Number(figure.dataset.map)]);

// Tables that can be sorted.
const value = (row, column) => {
  const cell = row.cells[column], text = cell.textContent;
  if (!cell.classList.contains("n")) return text;
  return text === "-" ? -1n : BigInt(text.replaceAll(",", ""));
};
for (const table of document.querySelectorAll(".sortable")) {
  [...table.tHead.rows[0].cells].forEach((head, column) => {
    const button = document.createElement("button");
    button.type = "button";
    button.textContent = head.textContent;
    head.replaceChildren(button);
    button.addEventListener("click", () => {
      const up = head.getAttribute("aria-sort") === "descending";
      for (const other of table.tHead.rows[0].cells) other.removeAttribute("aria-sort");
      head.setAttribute("aria-sort", up ? "ascending" : "descending");
      const sign = up ? 1 : -1;
      const rows = [...table.tBodies[0].rows].map((row) => [value(row, column), row]);
      rows.sort(([a], [b]) => (a < b ? -sign : a > b ? sign : 0));
      table.tBodies[0].append(...rows.map(([, row]) => row));
    });
  });
}

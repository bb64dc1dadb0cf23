// What all parts of the page share: the document, elements, numbers as people read them, the theme.
// Text of the disk is only ever set as text; no part of this page makes elements from it.

const data = JSON.parse(document.getElementById("data").textContent);
const text = (number) => data.texts[number];
const $ = (id) => document.getElementById(id);
const SEVERITIES = { e: "error", w: "warning", n: "note" };
const RANK = { error: 0, warning: 1, note: 2 };

function fill(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes || {})) {
    if (value === null || value === undefined || value === false) continue;
    if (name === "on") for (const [event, handler] of Object.entries(value)) element.addEventListener(event, handler);
    else element.setAttribute(name, value === true ? "" : value);
  }
  for (const child of children.flat()) if (child !== null && child !== undefined) element.append(child);
  return element;
}
const el = (tag, attributes, ...children) => fill(document.createElement(tag), attributes, children);
const svg = (tag, attributes, ...children) => fill(document.createElementNS("http://www.w3.org/2000/svg", tag), attributes, children);

const count = (value) => (typeof value === "string" ? value : value.toLocaleString("en-US"));
const counted = (value, word) => `${count(value)} ${word}${value === 1 ? "" : "s"}`;
function sizeText(size) {
  let value = Number(size);
  for (const unit of ["B", "kB", "MB", "GB"]) {
    if (value < 1000) return unit === "B" ? `${value} B` : `${value.toFixed(1)} ${unit}`;
    value /= 1000;
  }
  return `${value.toFixed(1)} TB`;
}
function timeText(ms) {
  if (ms === null || ms === undefined || Number(ms) < 0) return "-";
  const moment = new Date(Number(ms));
  const isLong = Number.isNaN(moment.getTime()) || moment.getUTCFullYear() > 9999;
  return isLong ? `${ms} ms` : moment.toISOString().slice(0, 19).replace("T", " ");
}
const quote = (word) => (/^[\w@%+=:,./-]+$/.test(word) ? word : `'${word.replaceAll("'", `'"'"'`)}'`);
const chip = (severity, words) => el("span", { class: `chip ${severity}` }, words);

// Sentences of ours name commands in backticks.
const prose = (words) => words.split("`").map((part, number) => (number % 2 ? el("code", {}, part) : part));

function say(words) {
  $("live").textContent = words;
}

function command(words) {
  const code = el("code", { tabindex: 0 }, words);
  const button = el("button", { type: "button", "aria-label": `Copy: ${words}` }, "Copy");
  button.addEventListener("click", async () => {
    let isDone = true;
    try {
      await navigator.clipboard.writeText(words);
    } catch {
      const range = document.createRange();
      range.selectNodeContents(code);
      getSelection().removeAllRanges();
      getSelection().addRange(range);
      isDone = document.execCommand("copy");
    }
    button.textContent = isDone ? "Copied" : "Selected";
    say(isDone ? "The command was copied." : "The command is selected: copy it.");
    setTimeout(() => { button.textContent = "Copy"; }, 1500);
  });
  return el("div", { class: "command" }, code, button);
}

function pill(words, { pressed, dot, number, onChange }) {
  const button = el("button", { type: "button", class: "pill", "aria-pressed": String(pressed) },
    dot ? el("i", { class: dot, "aria-hidden": "true" }) : null, words, number === undefined ? null : el("b", {}, count(number)));
  button.addEventListener("click", () => {
    const isOn = button.getAttribute("aria-pressed") !== "true";
    button.setAttribute("aria-pressed", String(isOn));
    onChange(isOn);
  });
  return button;
}

const findings = data.findings.map((row, number) => {
  const [severity, kind, directory, partition, file, position, size, offset, times, words, consequence, remedy, region] = row;
  const found = {
    number, severity: SEVERITIES[severity], kind: text(kind), directory: text(directory), partition: text(partition),
    file: text(file), position, size, offset, times, words, consequence: text(consequence), remedy: text(remedy), region,
  };
  found.haystack = [found.kind, found.directory, found.partition, found.file, words, found.severity, offset, position].join("\n").toLowerCase();
  return found;
});
const findingsOf = new Map();
const placeKey = (directory, partition) => `${directory}\n${partition}`;
for (const found of findings) {
  const key = placeKey(found.directory, found.partition);
  if (!findingsOf.has(key)) findingsOf.set(key, []);
  findingsOf.get(key).push(found);
}
// For links between the parts: each part puts its functions here.
const parts = {};

const dark = matchMedia("(prefers-color-scheme: dark)");
let chosenTheme = null;
function applyTheme() {
  const theme = chosenTheme || (dark.matches ? "dark" : "light");
  document.documentElement.dataset.theme = theme;
  const other = theme === "dark" ? "Light" : "Dark";
  $("theme-words").textContent = other;
  $("theme").setAttribute("aria-label", `Show the page in ${other.toLowerCase()} colours`);
}
dark.addEventListener("change", applyTheme);
$("theme").addEventListener("click", () => {
  chosenTheme = document.documentElement.dataset.theme === "dark" ? "light" : "dark";
  applyTheme();
});
applyTheme();

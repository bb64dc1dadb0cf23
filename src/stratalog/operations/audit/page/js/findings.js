// The findings: filtered, sorted, some rows at a time.

const ROWS_AT_ONCE = 50;
const COLUMNS = [
  ["severity", "severity", (found) => RANK[found.severity]],
  ["kind", "what", (found) => found.kind],
  ["partition", "partition", (found) => found.partition || found.directory],
  ["file", "file", (found) => found.file],
  ["position", "byte", (found) => (found.position === null ? -1 : Number(found.position)), "number"],
  ["offset", "offset", (found) => (found.offset === null ? -1 : Number(found.offset)), "number"],
  ["words", "found", (found) => found.words],
];

function startFindings() {
  const state = { severities: new Set(["error", "warning"]), kind: "", query: "", sort: null, down: false, shown: ROWS_AT_ONCE };
  const totals = data.totals;
  if (!totals.errors && !totals.warnings) state.severities.add("note");
  const search = el("input", { type: "search", placeholder: "Filter by partition, file, words\u2026", "aria-label": "Filter by text", id: "findings-search" });
  const kinds = [...new Set(findings.map((found) => found.kind))].sort();
  const kind = el("select", { "aria-label": "Filter by kind", id: "findings-kind" }, el("option", { value: "" }, "every kind"), ...kinds.map((each) => el("option", { value: each }, each)));
  const counts = { error: totals.errors, warning: totals.warnings, note: totals.notes };
  const pills = Object.keys(RANK).map((severity) => pill(`${severity}s`, {
    pressed: state.severities.has(severity), dot: severity, number: counts[severity],
    onChange: (isOn) => { state.severities[isOn ? "add" : "delete"](severity); show(true); },
  }));
  $("filters").append(search, kind, ...pills);
  search.addEventListener("input", () => { state.query = search.value.trim().toLowerCase(); show(true); });
  kind.addEventListener("change", () => { state.kind = kind.value; show(true); });

  const table = $("findings-table"), body = table.tBodies[0];
  const headings = COLUMNS.map(([name, words, , style]) => {
    const button = el("button", { type: "button" }, words);
    const heading = el("th", { scope: "col", class: style, "aria-sort": "none", "data-column": name }, button);
    button.addEventListener("click", () => {
      state.down = state.sort === name ? !state.down : false;
      state.sort = name;
      headings.forEach((each) => each.setAttribute("aria-sort", each === heading ? (state.down ? "descending" : "ascending") : "none"));
      show(true);
    });
    return heading;
  });
  table.tHead.append(el("tr", {}, ...headings));

  function chosen() {
    const words = state.query.split(/\s+/).filter(Boolean);
    const rows = findings.filter((found) => state.severities.has(found.severity) && (!state.kind || found.kind === state.kind)
      && words.every((word) => found.haystack.includes(word)));
    if (!state.sort) return rows;
    const value = COLUMNS.find(([name]) => name === state.sort)[2], sign = state.down ? -1 : 1;
    const compare = (a, b) => (typeof a === "number" ? a - b : a < b ? -1 : a > b ? 1 : 0);
    return rows.map((row) => [value(row), row]).sort(([a, x], [b, y]) => sign * compare(a, b) || x.number - y.number).map(([, row]) => row);
  }

  function show(isNew) {
    if (isNew) state.shown = ROWS_AT_ONCE;
    const rows = chosen();
    body.replaceChildren(...rows.slice(0, state.shown).map(findingRow));
    if (!rows.length) body.append(el("tr", {}, el("td", { colspan: COLUMNS.length, class: "quiet" }, findings.length ? "No finding matches the filter." : "Nothing was found.")));
    $("findings-count").textContent = `${count(rows.length)} of ${count(findings.length)}`
      + (data.left.findings ? `; ${count(data.left.findings)} more are only in --json` : "");
    const left = rows.length - state.shown;
    const more = el("button", { type: "button", class: "plain-button" }, `Show ${count(Math.min(left, ROWS_AT_ONCE))} more of ${count(left)}`);
    more.addEventListener("click", () => { state.shown += ROWS_AT_ONCE; show(false); });
    $("findings-more").replaceChildren(...(left > 0 ? [more] : []));
  }
  parts.filterFindings = (words) => { search.value = words; search.dispatchEvent(new Event("input")); $("findings").scrollIntoView(); search.focus(); };
  show(true);
}

function findingRow(found) {
  const twist = el("button", { type: "button", class: "twist", "aria-expanded": "false", "aria-label": `${found.severity}: ${found.kind}, details` }, chip(found.severity, found.severity));
  const where = stripAt(found) < 0 ? found.partition || found.directory : el("button", { type: "button", class: "link" }, found.partition);
  if (where instanceof Element) where.addEventListener("click", () => parts.showSegment(stripAt(found), found));
  const more = found.times > 1 ? ` And ${count(found.times - 1)} more.` : "";
  const row = el("tr", { class: "row", "data-finding": found.number },
    el("td", {}, twist), el("td", { class: "kind mono" }, found.kind), el("td", { class: "partition" }, where), el("td", { class: "file mono" }, found.file),
    el("td", { class: "number" }, found.position === null ? "" : count(found.position)), el("td", { class: "number" }, found.offset === null ? "" : count(found.offset)),
    el("td", { class: "words" }, found.words + more));
  twist.addEventListener("click", () => {
    const isOpen = twist.getAttribute("aria-expanded") === "true";
    twist.setAttribute("aria-expanded", String(!isOpen));
    if (isOpen) row.nextElementSibling.remove();
    else row.after(findingDetail(found));
  });
  return row;
}

function findingDetail(found) {
  const facts = [["What follows", found.consequence], ["What to do", found.remedy], ["Directory", found.directory]];
  if (found.size !== null) facts.push(["Bytes", `${count(found.size)} from byte ${count(found.position ?? 0)} on`]);
  const buttons = [];
  if (found.region >= 0) buttons.push(el("button", { type: "button", class: "plain-button", on: { click: () => parts.showRegion(found.region) } }, "Show the bytes"));
  if (stripAt(found) >= 0) buttons.push(el("button", { type: "button", class: "plain-button", on: { click: () => parts.showSegment(stripAt(found), found) } }, "Show the segment"));
  return el("tr", { class: "detail" }, el("td", { colspan: COLUMNS.length },
    el("dl", {}, ...facts.flatMap(([name, words]) => [el("dt", {}, name), el("dd", {}, ...(name === "What to do" ? prose(words) : [words]))])), el("div", { class: "buttons" }, ...buttons)));
}

const stripNumbers = new Map(data.strips.map((strip, number) => [placeKey(text(strip.dir), strip.name), number]));
const stripAt = (found) => stripNumbers.get(placeKey(found.directory, found.partition)) ?? -1;

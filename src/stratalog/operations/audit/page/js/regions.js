// The damaged regions: a map of the bytes, the bytes themselves, and the headers before, inside and after.

const CELL_KINDS = { z: "zeros", f: "bytes 0xff", t: "text", b: "other bytes" };
const ROLES = { before: "before the damage", inside: "in the damage", after: "after the damage" };

function startRegions() {
  const list = $("region-list");
  const kindsOf = new Map();
  for (const found of findings) if (found.region >= 0) kindsOf.set(found.region, [...(kindsOf.get(found.region) || []), found]);
  const elements = data.regions.map((region, number) => {
    const found = kindsOf.get(number) || [];
    const summary = el("summary", {}, ...found.slice(0, 3).map((each) => chip(each.severity, each.kind)), el("b", {}, region.partition), el("span", { class: "mono" }, region.file),
      el("span", { class: "quiet" }, `${counted(region.size, "byte")} from byte ${count(region.position)} on`));
    const details = el("details", { class: "bytes", "data-region": number }, summary);
    details.addEventListener("toggle", () => {
      if (details.open && details.children.length === 1) details.append(regionBody(region, found));
    });
    return details;
  });
  list.append(...elements);
  if (!elements.length) list.append(el("p", { class: "quiet" }, "No finding is about bytes of a segment."));
  if (data.left.regions) list.append(el("p", { class: "quiet" }, `${counted(data.left.regions, "region")} more are not shown.`));
  parts.showRegion = (number) => {
    const details = elements[number];
    details.open = true;
    if (details.children.length === 1) details.append(regionBody(data.regions[number], kindsOf.get(number) || []));
    details.scrollIntoView({ block: "start" });
    details.firstChild.focus({ preventScroll: true });
  };
}

function regionBody(region, found) {
  if (region.problem) return el("div", { class: "bytes-body" }, el("p", {}, `The bytes could not be read: ${region.problem}`));
  const hex = hexView(region);
  const words = found.slice(0, 5).map((each) => el("p", {}, each.words));
  const legend = el("ul", { class: "legend", "aria-label": "Colours of the bytes" }, ...Object.entries(CELL_KINDS).map(([kind, name]) => el("li", {}, el("i", { class: `k-${kind}` }), name)),
    el("li", {}, el("i", { class: "k-edge" }), "damaged"), el("li", {}, el("i", { class: "k-head" }), "header of a batch"));
  const isLog = region.file.endsWith(".log");
  const dump = isLog ? `stratalog dump --position ${region.position} ${quote(region.path)}` : `stratalog dump ${quote(region.path)}`;
  return el("div", { class: "bytes-body" }, ...words, el("div", {}, byteMap(region), legend), hex.element,
    region.headers.length ? el("div", { class: "headers" }, ...region.headers.map((header) => headerCard(header, hex))) : null, command(dump));
}

function byteMap(region) {
  const cells = region.cells, across = cells.length > 768 ? 128 : 64, size = cells.length > 768 ? 8 : 16, high = 12;
  const rows = Math.ceil(cells.length / across);
  const end = region.position + region.size;
  const byteAt = (cell) => region.start + cell * region.cellSize;
  const isInside = (cell) => byteAt(cell) + region.cellSize > region.position && byteAt(cell) < end;
  const shapes = [];
  for (let cell = 0; cell < cells.length;) {
    let last = cell + 1;
    while (last < cells.length && last % across && cells[last] === cells[cell] && isInside(last) === isInside(cell)) last += 1;
    shapes.push(svg("rect", { class: `${cells[cell]} ${isInside(cell) ? "" : "outside"}`, x: (cell % across) * size, y: Math.floor(cell / across) * high, width: (last - cell) * size - 0.6, height: high - 1 }));
    cell = last;
  }
  for (const [, position, , , fields] of region.headers) {
    const length = fields.reduce((sum, field) => Math.max(sum, field[2] + field[3]), 0);
    shapes.push(...outline(Math.floor((position - region.start) / region.cellSize), Math.ceil((position + length - region.start) / region.cellSize), cells.length, across, size, high, "head-cell"));
  }
  shapes.push(...outline(Math.floor((region.position - region.start) / region.cellSize), Math.ceil((end - region.start) / region.cellSize), cells.length, across, size, high, "edge"));
  const cursor = svg("rect", { class: "cursor", width: size, height: high - 1, visibility: "hidden" });
  const readout = el("p", { class: "readout quiet", role: "status" }, `A cell is ${counted(region.cellSize, "byte")}. Choose one to see where it is.`);
  const picture = svg("svg", { class: "bytemap", viewBox: `-1 -1 ${across * size + 2} ${rows * high + 2}`, tabindex: 0, role: "application", "aria-label": "Map of the bytes; arrow keys go from cell to cell" }, ...shapes, cursor);
  let at = -1;
  const go = (cell) => {
    at = Math.min(Math.max(cell, 0), cells.length - 1);
    cursor.setAttribute("visibility", "visible");
    cursor.setAttribute("x", (at % across) * size);
    cursor.setAttribute("y", Math.floor(at / across) * high);
    const first = byteAt(at), last = Math.min(first + region.cellSize, region.fileSize) - 1;
    const place = isInside(at) ? `in the damage, ${counted(Math.max(first - region.position, 0), "byte")} after its start` : first < region.position ? "before the damage" : "after the damage";
    readout.textContent = `${first === last ? `Byte ${count(first)}` : `Bytes ${count(first)} to ${count(last)}`}: ${CELL_KINDS[cells[at]]}, ${place}.`;
  };
  picture.addEventListener("click", (event) => {
    const box = picture.getBoundingClientRect(), scale = (across * size + 2) / box.width;
    go(Math.floor(((event.clientY - box.top) * scale - 1) / high) * across + Math.min(Math.floor(((event.clientX - box.left) * scale - 1) / size), across - 1));
  });
  picture.addEventListener("keydown", (event) => {
    const step = { ArrowRight: 1, ArrowLeft: -1, ArrowDown: across, ArrowUp: -across }[event.key];
    if (event.key === "Home") go(Math.floor((region.position - region.start) / region.cellSize));
    else if (event.key === "End") go(Math.ceil((end - region.start) / region.cellSize) - 1);
    else if (step) go(at < 0 ? Math.floor((region.position - region.start) / region.cellSize) : at + step);
    else return;
    event.preventDefault();
  });
  return el("div", {}, picture, readout);
}

// The outline of a run of cells, as a selection of text that goes over several lines.
function outline(first, end, length, across, size, high, kind) {
  first = Math.max(first, 0);
  end = Math.min(end, length);
  if (end <= first) return [];
  const top = Math.floor(first / across), bottom = Math.floor((end - 1) / across);
  const left = (first % across) * size - 0.4, right = (((end - 1) % across) + 1) * size - 0.4, edge = across * size - 0.4;
  const y = top * high - 0.5, last = bottom * high - 0.5;
  const d = top === bottom ? `M${left} ${y}H${right}V${y + high}H${left}z`
    : `M${left} ${y}H${edge}V${last}H${right}V${last + high}H-0.4V${y + high}H${left}z`;
  return [svg("path", { class: kind, d })];
}

function hexView(region) {
  const spans = new Map();
  const lines = [];
  region.excerpts.forEach(([start, packed], number) => {
    if (number) lines.push(el("span", { class: "at" }, "        \u22ee\n"));
    const bytes = Uint8Array.from(atob(packed), (letter) => letter.charCodeAt(0));
    let before = "", isRepeated = false;
    for (let line = 0; line < bytes.length; line += 16) {
      // Lines that repeat are one star, as in hexdump.
      const same = bytes.slice(line, line + 16).join();
      if (same === before && line + 16 < bytes.length) {
        if (!isRepeated) lines.push(el("span", { class: "at" }, "         *\n"));
        isRepeated = true;
        continue;
      }
      before = same;
      isRepeated = false;
      const codes = [], letters = [];
      for (let at = line; at < line + 16; at += 1) {
        if (at >= bytes.length) { codes.push(at % 16 === 7 ? "    " : "   "); continue; }
        const position = start + at, byte = bytes[at];
        const kind = position >= region.position && position < region.position + region.size ? "in" : "outside";
        const code = el("span", { class: kind }, byte.toString(16).padStart(2, "0"));
        const letter = el("span", { class: kind }, byte >= 32 && byte < 127 ? String.fromCharCode(byte) : "\u00b7");
        spans.set(position, [code, letter]);
        codes.push(code, at % 16 === 7 ? "  " : " ");
        letters.push(letter);
      }
      lines.push(el("span", { class: "at" }, `${String(start + line).padStart(10)}  `), ...codes, " ", ...letters, "\n");
    }
  });
  const element = el("pre", { class: "hex", tabindex: 0, "aria-label": "Bytes at the damage, in hexadecimal and as text" }, ...lines);
  const light = (from, length, isOn) => {
    for (let position = from; position < from + length; position += 1) (spans.get(position) || []).forEach((span) => span.classList.toggle("lit", isOn));
  };
  return { element, light };
}

function headerCard([role, position, size, isValid, fields], hex) {
  const checksum = isValid === null ? chip("note", "checksum not computed") : isValid ? chip("ok", "checksum right") : chip("error", "checksum wrong");
  const rows = fields.map(([name, value, at, length]) => {
    const row = el("tr", { tabindex: 0, title: `bytes ${count(position + at)} to ${count(position + at + length - 1)}` }, el("td", {}, name), el("td", { class: "mono" }, value));
    for (const event of ["mouseenter", "focus"]) row.addEventListener(event, () => hex.light(position + at, length, true));
    for (const event of ["mouseleave", "blur"]) row.addEventListener(event, () => hex.light(position + at, length, false));
    return row;
  });
  const words = size === null ? "no batch can have this header" : counted(size, "byte");
  return el("section", { class: `header ${role}`, "aria-label": `Header at byte ${position}` }, el("div", { class: "header-top" }, el("b", {}, `Byte ${count(position)}`), el("span", { class: "quiet" }, `${ROLES[role]}, ${words}`), checksum),
    el("table", {}, el("tbody", {}, ...rows)));
}

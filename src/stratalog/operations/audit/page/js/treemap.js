// The disk: a rectangle for each topic, divided into its partitions; area is bytes.

const SMALLEST_CELL = 3;

// Squarified: rows of the shorter side, each as long as its worst aspect ratio gets better.
// Bruls, Huizing, van Wijk: Squarified Treemaps (2000).
function squarify(items, box) {
  const total = items.reduce((sum, item) => sum + item.value, 0);
  if (!total) return [];
  const scale = (box.w * box.h) / total;
  const placed = [];
  let { x, y, w, h } = box;
  let row = [], rowArea = 0, next = 0;
  const worst = (areas, sum, side) => {
    const largest = areas[0], smallest = areas[areas.length - 1];
    return Math.max((side * side * largest) / (sum * sum), (sum * sum) / (side * side * smallest));
  };
  const close = () => {
    const side = Math.min(w, h), thick = rowArea / side;
    let at = 0;
    for (const { item, area } of row) {
      const length = area / thick;
      placed.push(w >= h ? { item, x, y: y + at, w: thick, h: length } : { item, x: x + at, y, w: length, h: thick });
      at += length;
    }
    if (w >= h) { x += thick; w -= thick; } else { y += thick; h -= thick; }
    row = []; rowArea = 0;
  };
  while (next < items.length) {
    const area = items[next].value * scale, side = Math.min(w, h);
    const areas = row.map((each) => each.area);
    if (!row.length || worst([...areas, area], rowArea + area, side) <= worst(areas, rowArea, side)) {
      row.push({ item: items[next], area });
      rowArea += area;
      next += 1;
    } else close();
    // Many small ones: a row does not get better from so many.
    if (row.length > 200) close();
  }
  if (row.length) close();
  return placed;
}

function topicTree() {
  const topics = new Map(data.topics.map(([name, partitions, size]) => [name, { name, size, partitions, value: size, children: [] }]));
  data.strips.forEach((strip, number) => {
    const size = strip.segs.reduce((sum, seg) => sum + seg[2], 0);
    const severity = strip.counts[0] ? "error" : strip.counts[1] ? "warning" : "ok";
    const topic = topics.get(text(strip.topic));
    if (topic) topic.children.push({ name: strip.name, number, size, value: size, severity, counts: strip.counts });
  });
  const found = [...topics.values()].filter((topic) => topic.size > 0);
  for (const topic of found) {
    topic.children = topic.children.filter((child) => child.size > 0).sort((a, b) => b.size - a.size);
    const rest = topic.size - topic.children.reduce((sum, child) => sum + child.size, 0);
    if (rest > 0) topic.children.push({ name: `${topic.name}: other partitions`, number: -1, size: rest, value: rest, severity: "ok", counts: [0, 0, 0] });
  }
  return found.sort((a, b) => b.size - a.size);
}

function drawTreemap(host, topics) {
  const width = host.clientWidth || 1000, height = host.clientHeight || 300;
  const cells = svg("g"), frames = svg("g"), labels = svg("g");
  const order = [];
  squarify(topics, { x: 0, y: 0, w: width, h: height }).forEach((box, index) => {
    const topic = box.item;
    const hasName = box.w > 46 && box.h > 34;
    const top = hasName ? 21 : 0;
    for (const cell of squarify(topic.children, { x: box.x, y: box.y + top, w: box.w, h: box.h - top })) {
      const child = cell.item;
      if (cell.w < SMALLEST_CELL && cell.h < SMALLEST_CELL && child.severity === "ok") continue;
      const words = cellWords(child);
      const rect = svg("rect", {
        class: `cell ${child.severity} ${index % 2 ? "odd" : ""}`, x: cell.x.toFixed(1), y: cell.y.toFixed(1), width: Math.max(cell.w, 1).toFixed(1),
        height: Math.max(cell.h, 1).toFixed(1), role: "button", "aria-label": words, tabindex: order.length ? -1 : 0, "data-number": child.number,
      }, svg("title", {}, words));
      order.push(rect);
      cells.append(rect);
      if (cell.w > 60 && cell.h > 20) labels.append(fitted(cell.x + 6, cell.y + 15, [shortName(child, topic), sizeText(child.size)], cell.w - 8, ""));
      if (cell.w > 60 && cell.h > 38) labels.append(fitted(cell.x + 6, cell.y + 30, [troubles(child.counts)], cell.w - 8, ""));
    }
    if (hasName) {
      const severity = topic.children.some((each) => each.severity === "error") ? "error" : topic.children.some((each) => each.severity === "warning") ? "warning" : "ok";
      cells.append(svg("rect", { class: `cell ${severity} ${index % 2 ? "odd" : ""}`, x: box.x, y: box.y, width: box.w, height: top, "pointer-events": "none" }));
      labels.append(fitted(box.x + 6, box.y + 15, [topic.name, sizeText(topic.size)], box.w - 10, "topic-name"));
    }
    frames.append(svg("rect", { class: "frame", x: box.x, y: box.y, width: box.w, height: box.h }));
  });
  host.replaceChildren(svg("svg", { viewBox: `0 0 ${width} ${height}`, role: "group", "aria-label": "The disk by topic. Arrow keys go from partition to partition, Enter shows its segments." }, cells, frames, labels));
  return order;
}

const shortName = (child, topic) => (child.name.startsWith(`${topic.name}-`) ? child.name.slice(topic.name.length + 1) : child.name);

const troubles = ([errors, warnings]) => [errors ? counted(errors, "error") : "", warnings ? counted(warnings, "warning") : ""].filter(Boolean).join(", ");
const cellWords = (child) => `${child.name}, ${sizeText(child.size)}, ${troubles(child.counts) || "healthy"}`;

// About 6.4 pixels a letter: measuring each of thousands of labels would take longer than all the rest.
// Of several words, as many as there is room for.
function fitted(x, y, words, room, name) {
  const most = Math.floor(room / (name ? 7.9 : 6.5)), all = words.filter(Boolean);
  while (all.length > 1 && all.join(" \u00b7 ").length > most) all.pop();
  const line = all.join(" \u00b7 ");
  return svg("text", { x: x.toFixed(1), y: y.toFixed(1), class: name }, line.length > most ? `${line.slice(0, Math.max(most - 1, 0))}\u2026` : line);
}

function startTreemap() {
  const host = $("treemap"), topics = topicTree();
  if (!topics.length) {
    host.classList.add("empty");
    host.replaceChildren(el("p", { class: "quiet" }, "No partition has a byte."));
    return;
  }
  let order = drawTreemap(host, topics), at = 0;
  const choose = (target) => {
    const cell = target.closest(".cell[data-number]");
    if (cell && Number(cell.dataset.number) >= 0) parts.showPartition(Number(cell.dataset.number));
  };
  host.addEventListener("click", (event) => choose(event.target));
  host.addEventListener("keydown", (event) => {
    const step = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key];
    const current = order.indexOf(document.activeElement);
    if (current >= 0) at = current;
    if (event.key === "Enter" || event.key === " ") choose(event.target);
    else if (event.key === "Home" || event.key === "End") at = event.key === "Home" ? 0 : order.length - 1;
    else if (step) at = Math.min(Math.max(at + step, 0), order.length - 1);
    else return;
    event.preventDefault();
    if (event.key === "Enter" || event.key === " ") return;
    if (current >= 0) order[current].setAttribute("tabindex", -1);
    order[at].setAttribute("tabindex", 0);
    order[at].focus();
  });
  onResize(host, () => { order = drawTreemap(host, topics); });
}

function onResize(host, draw) {
  let width = host.clientWidth, waiting = 0;
  new ResizeObserver(() => {
    if (host.clientWidth === width || !host.clientWidth) return;
    width = host.clientWidth;
    cancelAnimationFrame(waiting);
    waiting = requestAnimationFrame(draw);
  }).observe(host);
}

// The partitions: a list that grows while it is scrolled, whose strips are drawn when they come into view.

const PARTS_AT_ONCE = 40;

for (const strip of data.strips) {
  strip.directory = text(strip.dir);
  strip.findings = findingsOf.get(placeKey(strip.directory, strip.name)) || [];
  strip.size = strip.segs.reduce((sum, seg) => sum + seg[SEG.size], 0);
  strip.segmentsCount = strip.segs.reduce((sum, seg) => sum + seg[SEG.count], 0);
}

function startPartitions() {
  const state = { query: "", onlyFound: false, order: "worst", shown: PARTS_AT_ONCE };
  const hasFindings = (strip) => strip.counts[0] + strip.counts[1] > 0;
  const search = el("input", { type: "search", placeholder: "Filter by topic or partition\u2026", "aria-label": "Filter the partitions by name", id: "partition-search" });
  const order = el("select", { "aria-label": "Order of the partitions" }, ...[["worst", "worst first"], ["size", "largest first"], ["name", "by name"]].map(([value, words]) => el("option", { value }, words)));
  const only = pill("with findings only", { pressed: false, number: data.strips.filter(hasFindings).length, onChange: (isOn) => { state.onlyFound = isOn; show(true); } });
  $("partition-filters").append(search, order, only);
  search.addEventListener("input", () => { state.query = search.value.trim().toLowerCase(); show(true); });
  order.addEventListener("change", () => { state.order = order.value; show(true); });

  const articles = new Map();
  const list = $("partition-list");
  const drawing = new IntersectionObserver((entries) => {
    for (const entry of entries) if (entry.isIntersecting) articles.get(Number(entry.target.dataset.strip)).draw();
  }, { rootMargin: "300px" });

  function chosen() {
    const numbers = data.strips.map((_, number) => number).filter((number) => {
      const strip = data.strips[number];
      return (!state.onlyFound || hasFindings(strip)) && (!state.query || `${strip.directory}/${strip.name}`.toLowerCase().includes(state.query));
    });
    const strips = data.strips;
    if (state.order === "size") numbers.sort((a, b) => strips[b].size - strips[a].size || a - b);
    if (state.order === "name") numbers.sort((a, b) => (strips[a].name < strips[b].name ? -1 : strips[a].name > strips[b].name ? 1 : a - b));
    return numbers;
  }

  function show(isNew) {
    if (isNew) state.shown = PARTS_AT_ONCE;
    const numbers = chosen(), shown = numbers.slice(0, state.shown);
    for (const number of shown) if (!articles.has(number)) articles.set(number, partitionArticle(number, drawing));
    list.replaceChildren(...shown.map((number) => articles.get(number).element));
    const left = data.left.partitions ? `; ${count(data.left.partitions)} more are only in the sums` : "";
    $("partitions-count").textContent = `${count(numbers.length)} of ${count(data.strips.length)}${left}`;
    if (!numbers.length) list.append(el("p", { class: "quiet" }, data.strips.length ? "No partition matches the filter." : "There are no partitions."));
    const rest = numbers.length - shown.length;
    const more = el("button", { type: "button", class: "plain-button" }, `Show ${count(Math.min(rest, PARTS_AT_ONCE))} more of ${count(rest)}`);
    more.addEventListener("click", () => { state.shown += PARTS_AT_ONCE; show(false); });
    $("partitions-more").replaceChildren(...(rest > 0 ? [more] : []));
  }

  function reveal(number) {
    if (!articles.get(number)?.element.isConnected) {
      search.value = data.strips[number].name;
      state.query = search.value.toLowerCase();
      state.onlyFound = false;
      only.setAttribute("aria-pressed", "false");
      show(true);
      if (!articles.get(number)?.element.isConnected) { state.shown = data.strips.length; show(false); }
    }
    const article = articles.get(number);
    article.draw();
    article.element.scrollIntoView({ block: "start" });
    article.element.classList.remove("lit");
    void article.element.offsetWidth;
    article.element.classList.add("lit");
    return article;
  }
  parts.showPartition = (number) => reveal(number).focus();
  parts.showSegment = (number, found) => {
    const article = reveal(number), at = segmentOf(data.strips[number], found);
    if (at >= 0) article.choose(at);
    article.focus();
  };
  show(true);
}

function partitionArticle(number, drawing) {
  const strip = data.strips[number];
  const picture = svg("svg", { class: "strip", role: "slider", tabindex: strip.segs.length ? 0 : null, "aria-label": `Segments of ${strip.name}`, "aria-valuemin": 0,
    "aria-valuemax": Math.max(strip.segs.length - 1, 0), "aria-valuenow": 0, "aria-valuetext": `${counted(strip.segmentsCount, "segment")}; arrow keys choose one` });
  const details = el("div");
  const element = el("article", { class: "part", "data-strip": number, "aria-label": strip.name }, partitionHead(strip), picture, details);
  let drawn = null, width = 0, chosen = -1;

  function draw() {
    const now = element.clientWidth;
    if (!now || (drawn && now === width)) return;
    width = now;
    drawn = drawStrip(strip, width);
    picture.setAttribute("viewBox", `0 0 ${width} 134`);
    picture.replaceChildren(...drawn.shapes);
    if (chosen >= 0) mark();
  }
  function mark() {
    picture.querySelectorAll(".chosen").forEach((each) => each.remove());
    const seg = strip.segs[chosen], from = drawn.offsets.at(seg[SEG.base]), to = drawn.offsets.at(endOf(strip, chosen));
    const range = drawn.times && timeRange(seg, drawn.times);
    picture.append(svg("rect", { class: "chosen", x: from, y: Y.offsets - 1, width: Math.max(to - from, 3), height: LANE + 2, rx: 2 }));
    if (range) picture.append(svg("rect", { class: "chosen", x: range[0], y: Y.times - 1, width: Math.max(range[1] - range[0], 3), height: LANE + 2, rx: 2 }));
  }
  function choose(at) {
    draw();
    chosen = Math.min(Math.max(at, 0), strip.segs.length - 1);
    if (drawn) mark();
    picture.setAttribute("aria-valuenow", chosen);
    picture.setAttribute("aria-valuetext", segmentWords(strip, chosen));
    details.replaceChildren(segmentDetails(strip, chosen));
  }
  picture.addEventListener("click", (event) => {
    const box = picture.getBoundingClientRect(), x = event.clientX - box.left, y = event.clientY - box.top;
    if (strip.segs.length && drawn) choose(y > Y.offsetAxis + 8 && drawn.times ? nearestInTime(strip, drawn.times, x) : nearest(strip, drawn.offsets, x));
  });
  picture.addEventListener("keydown", (event) => {
    const far = event.key === "PageDown" ? 1 : event.key === "PageUp" ? -1 : 0;
    const step = { ArrowRight: 1, ArrowUp: 1, ArrowLeft: -1, ArrowDown: -1 }[event.key];
    if (event.key === "Home") choose(0);
    else if (event.key === "End") choose(strip.segs.length - 1);
    else if (far) choose(nextFound(strip, chosen, far));
    else if (step) choose(chosen < 0 && step > 0 ? 0 : chosen + step);
    else if (event.key === "Enter") choose(Math.max(chosen, 0));
    else return;
    event.preventDefault();
  });
  drawing.observe(element);
  onResize(element, draw);
  return { element, draw, choose, focus: () => picture.focus({ preventScroll: true }) };
}

function partitionHead(strip) {
  const [errors, warnings] = strip.counts, chips = [];
  if (errors) chips.push(chip("error", counted(errors, "error")));
  if (warnings) chips.push(chip("warning", counted(warnings, "warning")));
  if (!errors && !warnings) chips.push(chip("ok", "healthy"));
  const records = strip.segs.reduce((sum, seg) => sum + seg[SEG.records], 0);
  return el("div", {}, el("div", { class: "part-head" }, el("h3", {}, strip.name), ...chips,
    el("span", { class: "quiet" }, `${counted(strip.segmentsCount, "segment")}, ${sizeText(strip.size)}, ${counted(records, "record")}`),
    el("span", { class: "quiet" }, strip.directory)), el("p", { class: "part-notes" }, stripNotes(strip).join(". ")));
}

function stripNotes(strip) {
  const [offset, due, time, next, policy, refusal] = strip.horizon, notes = [];
  if (refusal !== null) notes.push(`Retention is not shown: ${text(refusal).replace(/\.$/, "")}`);
  else {
    notes.push(`cleanup.policy ${policy || "none"}`);
    if (time !== null) notes.push(`Retention horizon ${timeText(time)}`);
    if (offset !== null) notes.push(`Retention would delete ${sizeText(due)}, all below offset ${count(offset)}`);
    else if (next !== null && time !== null) notes.push(`The first segment goes at ${timeText(next)}`);
  }
  const lost = strip.gaps.filter((gap) => gap[2]).length;
  if (strip.gapsCount) notes.push(`${counted(strip.gapsCount, "gap")} in the offsets${lost ? `, ${count(lost)} lost` : ""}`);
  if (strip.txns.length) notes.push(counted(strip.txns.length, "open transaction"));
  if (strip.epochs.length) notes.push(`Leader epochs ${strip.epochs[0][0]} to ${strip.epochs[strip.epochs.length - 1][0]}`);
  return notes;
}

// The segment at a pixel; of several that share it, one with findings.
function nearest(strip, offsets, x) {
  const at = segmentAt(strip, Math.floor(offsets.back(x)));
  const around = [segmentAt(strip, Math.floor(offsets.back(x - 3))), segmentAt(strip, Math.floor(offsets.back(x + 3)))];
  const found = strip.findings.filter((each) => each.severity !== "note").map((each) => segmentOf(strip, each));
  return found.find((number) => number >= around[0] && number <= around[1] && around[1] - around[0] > 1) ?? at;
}

function nearestInTime(strip, times, x) {
  let best = 0, distance = Infinity;
  strip.segs.forEach((seg, number) => {
    const range = timeRange(seg, times);
    if (!range) return;
    const away = x < range[0] ? range[0] - x : x > range[1] ? x - range[1] : 0;
    if (away < distance) { best = number; distance = away; }
  });
  return best;
}

function nextFound(strip, from, step) {
  const numbers = [...new Set(strip.findings.filter((each) => each.severity !== "note").map((each) => segmentOf(strip, each)))].filter((each) => each >= 0).sort((a, b) => a - b);
  const next = step > 0 ? numbers.find((number) => number > from) : numbers.findLast((number) => number < from);
  return next ?? Math.max(from, 0);
}

const segmentName = (strip, number) => `${String(strip.segs[number][SEG.base]).padStart(20, "0")}.log`;

function segmentWords(strip, number) {
  const seg = strip.segs[number];
  const state = seg[SEG.damaged] ? "damaged" : "no damage";
  return `Segment ${number + 1} of ${strip.segs.length}: offsets ${offsetsText(seg)}, ${sizeText(seg[SEG.size])}, ${state}`;
}

function segmentDetails(strip, number) {
  const seg = strip.segs[number];
  const facts = [
    ["offsets", offsetsText(seg)], ["size", `${sizeText(seg[SEG.size])} (${count(seg[SEG.size])} bytes)`],
    ["records", count(seg[SEG.records])], ["batches", count(seg[SEG.batches])], ["oldest record", timeText(seg[SEG.first])], ["newest record", timeText(seg[SEG.max])],
    ["codecs", text(seg[SEG.codecs]) || "-"], ["leader epochs", epochsOf(strip, seg)],
  ];
  if (seg[SEG.count] > 1) facts.unshift(["segments", count(seg[SEG.count])]);
  const found = strip.findings.filter((each) => segmentOf(strip, each) === number);
  const rows = found.slice(0, 50).map((each) => el("li", {}, chip(each.severity, each.kind), " ", each.words, " ",
    each.region >= 0 ? el("button", { type: "button", class: "link", on: { click: () => parts.showRegion(each.region) } }, "Show the bytes") : null));
  const name = segmentName(strip, number);
  return el("section", { class: "segment", "aria-label": `Segment ${name}` }, el("h4", { class: "mono" }, name),
    el("dl", { class: "facts wide" }, ...facts.map(([words, value]) => el("div", {}, el("dt", {}, words), el("dd", {}, value)))),
    rows.length ? el("ul", {}, ...rows) : el("p", { class: "quiet" }, "Nothing was found in this segment."),
    command(`stratalog dump ${quote(`${strip.directory.replace(/\/$/, "")}/${strip.name}/${name}`)}`));
}

function epochsOf(strip, seg) {
  const base = Number(seg[SEG.base]), last = Number(seg[SEG.last]);
  const inside = strip.epochs.filter(([, start], number) => {
    const next = strip.epochs[number + 1];
    return Number(start) <= last && (!next || Number(next[1]) > base);
  }).map(([epoch]) => epoch);
  return inside.length > 2 ? `${inside[0]} to ${inside[inside.length - 1]}` : inside.join(", ") || "-";
}

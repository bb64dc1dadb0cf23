// One partition as a strip: segments in offset and in time, with everything that is marked on them.

const LEFT = 58, RIGHT = 8;
const Y = { epochs: 4, offsets: 18, txns: 46, offsetAxis: 66, times: 80, timeAxis: 120 };
const LANE = 26;

const SEG = { base: 0, last: 1, size: 2, records: 3, batches: 4, first: 5, max: 6, codecs: 7, damaged: 8, count: 9 };
// Where a segment ends: of a damaged one, whose last offsets are not known, where the next one starts.
function endOf(strip, number) {
  const seg = strip.segs[number], next = strip.segs[number + 1];
  return seg[SEG.damaged] && next ? Number(next[SEG.base]) : Number(seg[SEG.last]) + 1;
}
const offsetsText = (seg) => (Number(seg[SEG.last]) < Number(seg[SEG.base]) ? "none that can be read" : `${count(seg[SEG.base])} to ${count(seg[SEG.last])}`);

function offsetScale(strip, width) {
  const segs = strip.segs;
  const low = segs.length ? Number(segs[0][SEG.base]) : 0;
  const high = Math.max(low + 1, ...segs.slice(-1).map((seg) => Number(seg[SEG.last]) + 1));
  const room = width - LEFT - RIGHT;
  const at = (offset) => LEFT + (Math.min(Math.max(Number(offset), low), high) - low) / (high - low) * room;
  return { low, high, at, back: (x) => low + (x - LEFT) / room * (high - low) };
}

function timeScale(strip, width) {
  let low = Infinity, high = -Infinity, hasFuture = false;
  for (const seg of strip.segs) {
    const first = Number(seg[SEG.first]), last = Number(seg[SEG.max]);
    if (first >= 0 && first <= data.now) low = Math.min(low, first);
    if (last > data.now + 3600000) hasFuture = true;
    else if (last >= 0) { high = Math.max(high, last); low = Math.min(low, last); }
  }
  if (low === Infinity) return null;
  if (hasFuture || high < low) high = Math.max(high, Math.min(data.now, low + Math.max(high - low, 1) * 1.05));
  const horizon = strip.horizon[2] === null ? null : Number(strip.horizon[2]), span = Math.max(high - low, 1);
  // The horizon is drawn where it is near; far from all records, a sentence says it.
  if (horizon !== null && horizon < low && low - horizon < span / 3) low = horizon - span / 50;
  if (horizon !== null && horizon > high && horizon - high < span / 3) high = horizon + span / 50;
  const room = width - LEFT - RIGHT, length = Math.max(high - low, 1);
  const short = (ms) => timeText(ms).slice(0, length < 3 * 3600000 ? 19 : 16);
  return { low, high: low + length, hasFuture, short, at: (ms) => LEFT + (Math.min(Math.max(Number(ms), low), low + length) - low) / length * room };
}

const rectPath = (x, y, w, h) => `M${x.toFixed(1)} ${y}h${w.toFixed(1)}v${h}h${(-w).toFixed(1)}z`;

// Thousands of segments are three paths, and segments that share a pixel are one piece of a path.
function segmentPaths(strip, ends, y) {
  const paths = { a: [], b: [], bad: [] };
  let run = null;
  const close = () => { if (run) paths[run.kind].push(rectPath(run.x, y, Math.max(run.end - run.x, 0.5), LANE)); run = null; };
  strip.segs.forEach((seg, number) => {
    const range = ends(seg, number);
    if (!range) return;
    const isWide = range[1] - range[0] > 2.5;
    const kind = seg[SEG.damaged] ? "bad" : number % 2 && isWide ? "b" : "a";
    if (run && !isWide && run.kind === kind && range[0] - run.end < 0.75) { run.end = Math.max(run.end, range[1]); return; }
    close();
    run = { kind, x: range[0], end: isWide ? range[1] - 0.8 : range[1] };
    if (isWide) close();
  });
  close();
  return Object.entries(paths).filter(([, d]) => d.length).map(([kind, d]) => svg("path", { class: kind, d: d.join("") }));
}

function drawStrip(strip, width) {
  const offsets = offsetScale(strip, width), times = timeScale(strip, width);
  const end = width - RIGHT;
  const shapes = [
    svg("rect", { class: "lane", x: LEFT, y: Y.offsets, width: end - LEFT, height: LANE, rx: 2 }),
    svg("text", { class: "lane-name", x: 0, y: Y.offsets + 17 }, "offsets"),
    ...segmentPaths(strip, (seg, number) => [offsets.at(seg[SEG.base]), offsets.at(endOf(strip, number))], Y.offsets),
    ...epochShapes(strip, offsets, end), ...gapShapes(strip, offsets), ...txnShapes(strip, offsets, end),
  ];
  if (times) {
    shapes.push(svg("rect", { class: "lane", x: LEFT, y: Y.times, width: end - LEFT, height: LANE, rx: 2 }), svg("text", { class: "lane-name", x: 0, y: Y.times + 17 }, "time"));
    shapes.push(...segmentPaths(strip, (seg) => timeRange(seg, times), Y.times), ...timeMarks(strip, times, end));
  }
  shapes.push(...retentionShapes(strip, offsets, times), ...damageShapes(strip, offsets, times), ...markShapes(strip, offsets));
  shapes.push(svg("text", { x: LEFT, y: Y.offsetAxis + 6 }, count(strip.segs.length ? strip.segs[0][SEG.base] : 0)),
    svg("text", { x: end, y: Y.offsetAxis + 6, "text-anchor": "end" }, `${count(offsets.high)} (end)`));
  return { shapes, offsets, times };
}

function timeRange(seg, times) {
  const last = Number(seg[SEG.max]), first = Number(seg[SEG.first]);
  if (last < 0) return null;
  const from = times.at(first >= 0 ? first : last);
  return [from, Math.max(times.at(last), from + 0.6)];
}

function epochShapes(strip, offsets, end) {
  return strip.epochs.flatMap(([epoch, start], number) => {
    const from = offsets.at(start), next = strip.epochs[number + 1];
    const to = next ? offsets.at(next[1]) : end;
    const words = `leader epoch ${epoch}, from offset ${count(start)} on`;
    const band = svg("rect", { class: `epoch${number % 2}`, x: from, y: Y.epochs, width: Math.max(to - from, 0.5), height: 11 }, svg("title", {}, words));
    return to - from > 60 ? [band, svg("text", { x: from + 4, y: Y.epochs + 9, class: "on", "font-size": 9.5 }, `epoch ${epoch}`)] : [band];
  });
}

function gapShapes(strip, offsets) {
  return strip.gaps.map(([first, last, isLost]) => {
    const from = offsets.at(first), to = offsets.at(Number(last) + 1), least = isLost ? 3 : 1;
    const words = `offsets ${count(first)} to ${count(last)} ${isLost ? "are lost" : "were removed"}`;
    return svg("rect", { class: isLost ? "lost" : "gap", x: from, y: Y.offsets, width: Math.max(to - from, least), height: LANE, opacity: isLost ? 1 : 0.6 }, svg("title", {}, words));
  });
}

function retentionShapes(strip, offsets, times) {
  const [offset, , time] = strip.horizon, shapes = [];
  if (offset !== null) {
    const to = offsets.at(offset);
    shapes.push(svg("rect", { class: "due", x: LEFT, y: Y.offsets, width: Math.max(to - LEFT, 2), height: LANE }), svg("line", { class: "due-line", x1: to, x2: to, y1: Y.offsets - 2, y2: Y.offsets + LANE + 2 }));
  }
  if (time !== null && times && Number(time) > times.low && Number(time) < times.high) {
    const x = times.at(time), isLeft = x > LEFT + 160;
    shapes.push(svg("rect", { class: "due", x: LEFT, y: Y.times, width: x - LEFT, height: LANE, opacity: 0.6 }), svg("line", { class: "due-line", x1: x, x2: x, y1: Y.times - 5, y2: Y.times + LANE + 4 }),
      svg("text", { x: isLeft ? x - 5 : x + 5, y: Y.timeAxis + 6, "text-anchor": isLeft ? "end" : "start" }, `retention ${times.short(time)}`));
  }
  return shapes;
}

function txnShapes(strip, offsets, end) {
  return strip.txns.map(([producer, epoch, first, last, isKnown]) => {
    const from = Math.min(offsets.at(first), end - 4);
    const words = `open transaction of producer ${producer} (epoch ${epoch}) since offset ${count(first)}, last batch ${timeText(last)}${isKnown ? "" : ", unknown to a coordinator"}`;
    return svg("path", { class: "txn", d: `M${from} ${Y.txns - 1}h3v2h${Math.max(end - from - 3, 1)}v3h${-Math.max(end - from - 3, 1)}h-3z` }, svg("title", {}, words));
  });
}

function timeMarks(strip, times, end) {
  const horizon = strip.horizon[2], isShown = horizon !== null && Number(horizon) > times.low && Number(horizon) < times.high;
  const shapes = [];
  // The label of the horizon goes first where both would meet.
  const x = isShown ? times.at(horizon) : -1;
  if (!isShown || x > LEFT + 280 || (x <= LEFT + 160 && x > LEFT + 125)) shapes.push(svg("text", { x: LEFT, y: Y.timeAxis + 6 }, times.short(times.low)));
  if (!isShown || x < end - 330 || x > LEFT + 160) shapes.push(svg("text", { x: end, y: Y.timeAxis + 6, "text-anchor": "end" }, times.short(times.high) + (times.hasFuture ? "  (later ones are at the edge)" : "")));
  if (data.now > times.low && data.now < times.high) shapes.push(svg("line", { class: "now", x1: times.at(data.now), x2: times.at(data.now), y1: Y.times - 4, y2: Y.times + LANE + 4 }, svg("title", {}, "now")));
  return shapes;
}

// Findings that name an offset or a segment: where they are, in both lanes.
function damageShapes(strip, offsets, times) {
  const shapes = [];
  for (const found of strip.findings.slice(0, 400)) {
    if (found.severity === "note") continue;
    const number = segmentOf(strip, found);
    if (found.offset === null && number < 0) continue;
    const kind = found.severity === "error" ? "damage" : "warn";
    const offset = found.offset !== null ? found.offset : strip.segs[number][SEG.base];
    const x = offsets.at(offset);
    const words = `${found.kind}: ${found.words}`;
    shapes.push(svg("path", { class: kind, d: `M${x - 4} ${Y.offsets - 3}h8l-3 6v${LANE}h-2v${-LANE}z` }, svg("title", {}, words)));
    const range = times && number >= 0 ? timeRange(strip.segs[number], times) : null;
    if (range) shapes.push(svg("rect", { class: kind, x: range[0], y: Y.times + LANE - 3, width: Math.max(range[1] - range[0], 3), height: 3 }, svg("title", {}, words)));
  }
  return shapes;
}

function markShapes(strip, offsets) {
  const names = ["log start offset", "recovery point", "high watermark", "cleaner offset"];
  return strip.marks.flatMap((offset, number) => {
    if (offset === null) return [];
    const x = offsets.at(offset), y = Y.offsets + LANE + 8;
    return [svg("path", { class: "mark", d: `M${x} ${y}l4.5 8h-9z`, opacity: 0.55 + number * 0.12 }, svg("title", {}, `${names[number]}: ${count(offset)}`))];
  });
}

// The segment of a finding: by its file's name, or else by its offset; -1 without either.
function segmentOf(strip, found) {
  const digits = /^(\d{20})\./.exec(found.file);
  if (digits) return segmentAt(strip, Number(digits[1]));
  return found.offset === null ? -1 : segmentAt(strip, Number(found.offset));
}

function segmentAt(strip, offset) {
  let low = 0, high = strip.segs.length - 1;
  while (low < high) {
    const middle = (low + high + 1) >> 1;
    if (Number(strip.segs[middle][SEG.base]) <= offset) low = middle; else high = middle - 1;
  }
  return strip.segs.length ? low : -1;
}

// The verdict, the totals, and the commands to run next.

function startAdvice() {
  const totals = data.totals, verdict = $("verdict");
  verdict.dataset.status = data.status;
  verdict.dataset.errors = totals.errors;
  $("status-words").textContent = { 0: "Healthy", 1: totals.errors ? "Errors found" : "Warnings found", 3: "Not everything could be read" }[data.status];
  $("where").textContent = data.directories.join("   ");
  const tiles = [
    ["errors", count(totals.errors), totals.errors ? "error" : ""], ["warnings", count(totals.warnings), totals.warnings ? "warning" : ""],
    ["notes", count(totals.notes), ""], ["partitions", count(totals.partitions), ""], ["segments", count(totals.segments), ""],
    ["batches", count(totals.batches), ""], ["records", count(totals.records), ""], ["bytes of logs", sizeText(totals.bytes), ""],
  ];
  if (totals.bytes_read !== totals.bytes) tiles.push(["read", sizeText(totals.bytes_read), ""]);
  $("tiles").append(...tiles.map(([name, value, kind]) => el("li", { class: kind }, el("b", {}, value), el("span", {}, name))));
  const list = $("commands");
  for (const [words, why, times, severity] of data.next) {
    const asked = times ? [chip(severity, counted(times, "finding")), " "] : [];
    list.append(el("li", {}, command(words), el("p", { class: "quiet" }, ...asked, ...prose(why))));
  }
  if (!data.next.length) {
    const hasFindings = totals.errors || totals.warnings;
    list.previousElementSibling.querySelector("p").remove();
    list.replaceWith(el("p", {}, hasFindings ? "No command mends these findings by itself: each says below what to do." : "Nothing: no finding needs a command."));
  }
  const notes = [...data.notes];
  if (data.partial) notes.push("An earlier audit had read some of the bytes, which were not read again.");
  if (data.left.merged > 1) notes.push(`Up to ${data.left.merged} neighbouring segments without damage are drawn as one.`);
  $("foot").replaceChildren(...notes.map((note) => el("p", {}, note)), el("p", {}, `Written by stratalog ${data.version}. Times are UTC; sizes are powers of ten. This page needs no network.`));
}

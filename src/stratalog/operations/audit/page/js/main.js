// Starts the parts. The hatching of the strips is defined once, for all of them.

document.body.append(svg("svg", { width: 0, height: 0, "aria-hidden": "true", class: "hidden" }, svg("defs", {},
  svg("pattern", { id: "hatch", width: 5, height: 5, patternUnits: "userSpaceOnUse", patternTransform: "rotate(45)" }, svg("path", { d: "M0 0v5" })))));
startAdvice();
startTreemap();
startFindings();
startPartitions();
startRegions();
document.documentElement.dataset.ready = "true";

// Draws the figures of class "chart" with uPlot when they come into view.
// Text from logs is only ever read from the page and set as textContent.
(() => {
  "use strict";
  const {SECONDS, inText, inPercent, atTime, timeTicks, logExtent, logSplits, logLabels} = axes;
  const PRINTED_WIDTH = 660;
  const DASHES = {recorded: [2, 3], with: [], without: [8, 3], other: [6, 2, 2, 2]};
  const FURTHER_DASHES = [[14, 3, 2, 3], [4, 2], [1, 4]];
  const SVG = "http://www.w3.org/2000/svg";
  const charts = new Map();
  const add = (parent, name, of) => parent.appendChild(Object.assign(document.createElement(name), of));

  // Colours are not all that tells lines apart: styles differ in their dashes, lines of one style too.
  const placeInStyle = (chart, i) => chart.lines.slice(0, i).filter(line => line.style === chart.lines[i].style).length;
  function dashOf(chart, i) {
    const place = placeInStyle(chart, i);
    return place ? FURTHER_DASHES[(place - 1) % 3] : DASHES[chart.lines[i].style] ?? DASHES.other;
  }

  // A figure of the page: its parts, its lines, and what is marked; of time that is what happened to the cluster.
  function read(figure) {
    const parsed = element => JSON.parse(element?.textContent ?? "[]");
    const {lines, zero} = parsed(figure.querySelector("script")), {x: scale, y: yScale} = figure.dataset;
    const marked = scale === "time" ? parsed(figure.closest(".page")?.querySelector(".events")) : [];
    const chart = {
      figure, lines, zero, scale, yScale, plot: figure.querySelector(".plot"), at: figure.querySelector(".at"), entries: [],
      group: scale === "time" ? figure.closest(".fold")?.id : undefined, stepped: yScale === "share", points: scale !== "time" && yScale !== "share",
      marks: marked.map(([x, symbol, text]) => ({x, symbol, text})), shown: lines.map(() => true),
    };
    const all = lines.flatMap(line => line.x).concat(marked.map(it => it[0]).filter(x => x > 0 || scale !== "log"));
    const [least, most] = all.reduce(([a, b], x) => [Math.min(a, x), Math.max(b, x)], [Infinity, -Infinity]);
    chart.extent = most < least ? null : scale === "log" ? chart.points ? [least / 1.15, most * 1.15] : logExtent(least, most)
      : least < most ? [least, most] : [least - 1, most + 1];
    return chart;
  }
  // Charts of one group are under each other on one axis.
  function fullRange(chart) {
    const group = chart.group ? [...charts.values()].filter(it => it.group === chart.group) : [chart];
    return [Math.min(...group.map(it => it.extent[0])), Math.max(...group.map(it => it.extent[1]))];
  }
  function columns(chart, full) {
    // A distribution is 0 before its first value.
    const tables = chart.lines.map(({x, y}) => chart.stepped && x[0] > full[0] ? [[full[0], ...x], [0, ...y]] : [x, y]);
    const joined = uPlot.join(tables);
    chart.values = joined;
    if (chart.yScale !== "log") return joined;
    const above = joined.slice(1).flat().filter(y => y > 0);
    chart.yExtent = above.length ? logExtent(Math.min(...above), Math.max(...above)) : [1, 10];
    // Nothing is below a log axis: zero is at its edge.
    return joined.map((column, i) => i ? column.map(y => y <= 0 && y != null ? chart.yExtent[0] : y) : column);
  }

  // Zero has its place at the edge of a log axis.
  const xText = (chart, x, digits) => x === chart.zero ? "0" : inText(x, digits);
  const cursorOf = chart => ({
    y: false, drag: {x: true, y: false}, points: {size: 8, fill: (u, i) => chart.tones[i - 1]}, bind: {dblclick: () => () => showAll(chart)},
    sync: chart.group && {key: chart.group, filters: {pub: type => /move|leave/.test(type), sub: () => true}},
  });
  const percents = (u, all) => all.map(inPercent);
  const logAxis = (look, least) => ({
    splits: (u, axis, min, max) => logSplits(min, max), filter: logLabels(least), grid: {...look.grid, filter: logLabels(least)},
  });
  function axesOf(chart, look) {
    const isTime = chart.scale === "time", ticks = (u, all) => all.map(value => value == null ? "" : inText(value, 3));
    const xTicks = (u, all) => all.map(value => value == null ? "" : xText(chart, value, 3));
    // What was tried has its figures, but for what would be upon its neighbour.
    const tried = (u, axis, min, max) => chart.values[0].filter(x => x >= min && x <= max).reduce((kept, x) =>
      kept.length && u.valToPos(x, "x") - u.valToPos(kept.at(-1), "x") < 36 ? kept : [...kept, x], []);
    const x = chart.points ? {splits: tried, filter: (u, all) => all} : chart.scale === "log" ? logAxis(look, 44) : {};
    return [
      isTime ? {...look, size: 48, space: 84, incrs: SECONDS, values: timeTicks} : {...look, size: 34, space: 64, values: xTicks, ...x},
      {...look, size: 58, space: 34, ...chart.yScale === "log" && logAxis(look, 22), values: chart.yScale === "share" ? percents : ticks},
    ];
  }
  function scalesOf(chart, full) {
    const distr = scale => scale === "log" ? 3 : 1;
    const yRange = {share: () => [0, 1], log: () => chart.yExtent};
    const fromZero = (u, least, most) => least === null ? [0, 1] : uPlot.rangeNum(Math.min(0, least), most || 1, 0.1, true);
    return {
      x: {time: false, distr: distr(chart.scale), range: (u, least, most) => u.scales.x.min == null ? full : [least, most]},
      y: {distr: distr(chart.yScale), range: yRange[chart.yScale] ?? fromZero},
    };
  }

  // Points between two gaps, which no line goes through.
  function lone(column) {
    const places = [...column.keys()].filter(i => column[i] !== undefined);
    return places.filter((place, i) => column[place] !== null && column[places[i - 1]] == null && column[places[i + 1]] == null);
  }

  function draw(chart, width) {
    const style = (element, name) => getComputedStyle(element).getPropertyValue(name).trim();
    const [ink, soft, grid, paper] = ["--ink", "--soft", "--grid", "--paper"].map(name => style(chart.plot, name));
    const full = fullRange(chart), data = columns(chart, full);
    // What is zoomed stays so, and what comes into view late follows its group.
    const zoomed = chart.u ? chart : [...charts.values()].find(it => it.u && chart.group && it.group === chart.group);
    const {min, max} = zoomed?.u.scales.x ?? {}, range = min == null ? full : [min, max];
    chart.u?.destroy();
    chart.tones = chart.entries.map(entry => style(entry, "--tone") || ink);
    const font = "12px " + style(chart.plot, "font-family");
    const look = {stroke: soft, font, grid: {stroke: grid, width: 1}, ticks: {stroke: grid, width: 1, size: 5}};
    chart.u = new uPlot({
      width: width || chart.plot.clientWidth || PRINTED_WIDTH, height: window.innerWidth < 520 ? 210 : 250,
      padding: [chart.marks.length ? 24 : 10, 30, 0, 0], legend: {show: false},
      cursor: cursorOf(chart), scales: scalesOf(chart, full), axes: axesOf(chart, look),
      series: [{}, ...chart.entries.map((entry, i) => ({
        stroke: chart.tones[i], width: chart.points || placeInStyle(chart, i) ? 1.3 : 2, dash: dashOf(chart, i), show: chart.shown[i],
        points: {show: chart.points, size: 7, fill: paper, width: 2, ...!chart.points && {filter: () => lone(data[i + 1])}},
        ...chart.stepped ? {paths: uPlot.paths.stepped({align: 1, extend: true})} : {},
      }))],
      hooks: {draw: [u => drawMarks(chart, u, ink, soft)], setCursor: [() => tell(chart)], setScale: [(u, key) => key === "x" && follow(chart)]},
    }, data, chart.plot);
    if (range[0] !== full[0] || range[1] !== full[1]) setRange(chart, range);
    chart.tip = add(chart.u.over, "div", {className: "tip", hidden: true});
  }

  // Events have a symbol above the picture.
  function drawMarks(chart, u, ink, soft) {
    const {ctx, bbox} = u, ratio = uPlot.pxRatio;
    const {min, max} = u.scales.x;
    let taken = -Infinity;
    ctx.save();
    ctx.lineWidth = ratio;
    ctx.font = `${12 * ratio}px ${getComputedStyle(chart.plot).fontFamily}`;
    for (const mark of [...chart.marks].sort((a, b) => a.x - b.x)) {
      if (mark.x < min || mark.x > max) continue;
      const x = u.valToPos(mark.x, "x", true);
      ctx.strokeStyle = soft;
      ctx.setLineDash([3 * ratio, 3 * ratio]);
      ctx.beginPath();
      ctx.moveTo(x, bbox.top);
      ctx.lineTo(x, bbox.top + bbox.height);
      ctx.stroke();
      const width = ctx.measureText(mark.symbol).width;
      const left = Math.max(bbox.left, Math.min(x - width / 2, ctx.canvas.width - width));
      // None covers another; the list below has all of them.
      if (left < taken) continue;
      taken = left + width + 4 * ratio;
      ctx.fillStyle = ink;
      ctx.textAlign = "left";
      ctx.textBaseline = "alphabetic";
      ctx.fillText(mark.symbol, left, bbox.top - 7 * ratio);
    }
    ctx.restore();
  }

  // The value of a line at a place: in a distribution the last one before it, elsewhere the nearest.
  function valueAt(chart, line, at) {
    const column = chart.values[line];
    if (column[at] !== undefined) return column[at];
    let before = at, after = at;
    while (before >= 0 && column[before] === undefined) before--;
    if (chart.stepped) return column[before];
    while (after < column.length && column[after] === undefined) after++;
    return column[after] === undefined || at - before < after - at ? column[before] : column[after];
  }
  function tell(chart) {
    const {u} = chart, at = u?.cursor.idx;
    const none = at == null || u.cursor.left < 0;
    const x = none ? null : chart.values[0][at];
    const span = u ? u.scales.x.max - u.scales.x.min : 0;
    const place = none ? "" : chart.scale === "time" ? atTime(x, span < 60 ? 0.1 : 1) : xText(chart, x, 6);
    chart.at.textContent = place;
    const values = [];
    chart.entries.forEach((entry, i) => {
      const value = none ? undefined : valueAt(chart, i + 1, at);
      const text = none ? "" : value == null ? "–" : chart.yScale === "share" ? inPercent(value) : inText(value);
      entry.querySelector(".value").textContent = text;
      if (!none && chart.shown[i]) values.push(`${chart.lines[i].name} ${text}`);
    });
    const near = none ? [] : chart.marks.filter(mark => Math.abs(u.valToPos(mark.x, "x") - u.cursor.left) < 7);
    if (chart.tip) {
      chart.tip.hidden = !near.length;
      chart.tip.textContent = near.slice(0, 6).map(mark => `${mark.symbol} ${mark.text}`).join("\n") + (near.length > 6 ? `\nand ${near.length - 6} more` : "");
      const isRight = u.cursor.left > u.over.clientWidth / 2;
      chart.tip.style.left = isRight ? "auto" : `${u.cursor.left + 8}px`;
      chart.tip.style.right = isRight ? `${u.over.clientWidth - u.cursor.left + 8}px` : "auto";
    }
    const spoken = none ? [] : chart.marks.filter(mark => near.includes(mark) || u.valToIdx(mark.x) === at);
    chart.words = none ? "" : [place, ...values, ...spoken.map(mark => mark.text)].join(", ");
  }

  const setRange = (chart, [min, max]) => chart.u.setScale("x", {min, max});
  const showAll = chart => setRange(chart, fullRange(chart));
  function follow(chart) {
    const {min, max} = chart.u?.scales.x ?? {};
    if (!chart.group || min == null) return;
    for (const other of charts.values()) {
      const at = other.u?.scales.x;
      if (other !== chart && other.group === chart.group && at && (at.min !== min || at.max !== max)) setRange(other, [min, max]);
    }
  }
  // Half or twice of what is seen, around the cursor; on a log axis half of the decades.
  function zoom(chart, factor) {
    const {u} = chart, full = fullRange(chart);
    const [to, from] = chart.scale === "log" ? [Math.log10, x => 10 ** x] : [x => x, x => x];
    const min = to(u.scales.x.min), max = to(u.scales.x.max);
    const middle = u.cursor.left >= 0 ? to(u.posToVal(u.cursor.left, "x")) : (min + max) / 2;
    const range = [from(middle - (middle - min) * factor), from(middle + (max - middle) * factor)];
    range[0] = Math.max(range[0], full[0]);
    range[1] = Math.min(range[1], full[1]);
    if (range[1] - range[0] > (full[1] - full[0]) * 1e-6) setRange(chart, range);
  }
  const KEYS = {
    "+": chart => zoom(chart, 0.5), "=": chart => zoom(chart, 0.5), "-": chart => zoom(chart, 2),
    0: showAll, Escape: showAll,
    ArrowRight: (chart, event) => move(chart, event.shiftKey ? 10 : 1),
    ArrowLeft: (chart, event) => move(chart, event.shiftKey ? -10 : -1),
    Home: chart => move(chart, -Infinity), End: chart => move(chart, Infinity),
  };
  function move(chart, steps) {
    const {u} = chart, x = chart.values[0], {min, max} = u.scales.x;
    const first = x.findIndex(value => value >= min);
    let last = x.length - 1;
    while (last > first && x[last] > max) last--;
    const at = u.cursor.left >= 0 || !isFinite(steps) ? u.cursor.idx + steps : steps < 0 ? last : first;
    const to = Math.min(Math.max(at, first), last);
    u.setCursor({left: u.valToPos(x[to], "x"), top: u.over.clientHeight / 2});
    chart.spoken.textContent = chart.words;
  }

  // Gives a chart its room, so that nothing moves when it is drawn, and its controls.
  function prepare(chart) {
    chart.figure.querySelector(".drawing").hidden = false;
    chart.figure.classList.add("ready");
    Object.assign(chart.plot, {role: "img", tabIndex: 0});
    chart.plot.ariaLabel = chart.figure.querySelector(".described").textContent + " Arrow keys move along it, + and − zoom, 0 shows all.";
    chart.spoken = add(chart.plot.parentElement, "p", {className: "spoken", ariaLive: "polite"});
    const bar = add(chart.figure.querySelector(".axis-name"), "span", {className: "zoom"});
    for (const [text, name, does] of [["+", "Zoom in", KEYS["+"]], ["−", "Zoom out", KEYS["-"]], ["All", "Show all", showAll]]) {
      add(bar, "button", {type: "button", textContent: text, ariaLabel: name, title: name}).addEventListener("click", () => does(chart));
    }
    chart.plot.addEventListener("keydown", event => {
      if (!(event.key in KEYS) || event.ctrlKey || event.metaKey || event.altKey) return;
      event.preventDefault();
      KEYS[event.key](chart, event);
    });
    chart.entries = chart.lines.map(({name, style}, i) => {
      const entry = add(chart.figure.querySelector(".legend"), "li", {className: style});
      const button = add(entry, "button", {type: "button", ariaPressed: "true"});
      const path = button.appendChild(document.createElementNS(SVG, "svg")).appendChild(document.createElementNS(SVG, "path"));
      path.setAttribute("d", "M0 5h26");
      path.style.strokeDasharray = dashOf(chart, i).join(" ") || "none";
      add(button, "bdi", {textContent: name});
      add(entry, "span", {className: "value"});
      button.addEventListener("click", () => {
        chart.shown[i] = !chart.shown[i];
        button.ariaPressed = String(chart.shown[i]);
        chart.u.setSeries(i + 1, {show: chart.shown[i]});
      });
      return entry;
    });
    new ResizeObserver(([{contentRect: {width}}]) => {
      if (chart.u && width && Math.abs(chart.u.width - width) > 1 && !printing) chart.u.setSize({width, height: chart.u.height});
    }).observe(chart.plot);
  }

  const visible = new IntersectionObserver(seen => {
    for (const {isIntersecting, target} of seen) {
      const chart = charts.get(target);
      if (isIntersecting && !chart.u) draw(chart);
    }
  }, {rootMargin: "200px"});
  for (const figure of document.querySelectorAll("figure.chart")) {
    const chart = read(figure);
    if (chart.extent === null) continue;
    charts.set(figure, chart);
    prepare(chart);
    visible.observe(figure);
  }

  const redraw = () => charts.forEach(chart => chart.u && draw(chart));
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redraw);
  // Paper is white: what dark pages look like is switched off while printing.
  let printing = false;
  const darkRules = () => [...document.styleSheets].flatMap(sheet => [...sheet.cssRules]).filter(rule => rule.media?.mediaText.includes("prefers-color-scheme: dark") || rule.wasDark);
  addEventListener("beforeprint", () => {
    printing = true;
    for (const rule of darkRules()) [rule.wasDark, rule.media.mediaText] = [rule.media.mediaText, "not all"];
    charts.forEach(chart => chart.plot.checkVisibility() && draw(chart, PRINTED_WIDTH));
  });
  addEventListener("afterprint", () => {
    for (const rule of darkRules()) rule.media.mediaText = rule.wasDark;
    printing = false;
    redraw();
  });
})();

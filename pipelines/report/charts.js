// Draws the figures of class "chart" with uPlot, once they have room on the screen.
// Text from logs is only ever read from the page and set as textContent.
(() => {
  "use strict";
  const PRINTED_WIDTH = 660, heightOf = plot => plot.closest(".pictures") ? 180 : 250;
  // Colours are not all that tells lines apart.
  const DASHES = [[[], "solid"], [[8, 3], "dashed"], [[2, 3], "dotted"], [[14, 3, 2, 3], "dashed"]];
  const [SHORT, LONG, SHARE] = [{}, {notation: "compact"}, {style: "percent"}]
    .map(form => new Intl.NumberFormat("en", {maximumSignificantDigits: 4, ...form}));
  const number = value => (Math.abs(value) < 1e6 ? SHORT : LONG).format(value);
  // Labels of ticks by the seconds between them; the day is below the first, and where it changes.
  const TIMES = [[86400, "{YYYY}-{MM}-{DD}"], [60, "{HH}:{mm}"], [1, "{HH}:{mm}:{ss}"], [0.001, "{HH}:{mm}:{ss}.{fff}"]]
    .map(([step, label]) => [step, label, null, null, step < 86400 ? "\n{YYYY}-{MM}-{DD}" : null, null, null, null, 1]);
  const FROM_ZERO = {min: {soft: 0, mode: 1}, max: {pad: 0.1}};
  const utc = seconds => uPlot.tzDate(new Date(seconds * 1e3), "Etc/UTC");
  const inWords = uPlot.fmtDate("{YYYY}-{MM}-{DD} {HH}:{mm}:{ss}");
  const root = document.documentElement;
  const colour = name => () => getComputedStyle(root).getPropertyValue("--" + name).trim();
  const charts = new Map();

  // Incidents: a band each from begin to end, at least two pixels wide, and a mark on its top.
  function drawBands(u, bands) {
    const {ctx, bbox: {left, top, width, height}} = u, place = at => Math.min(Math.max(u.valToPos(at, "x", true), left), left + width);
    for (const [begin, end, isPlanned] of bands) {
      if (begin > u.scales.x.max || (end ?? begin) < u.scales.x.min) continue;
      const from = place(begin), wide = Math.max(place(end ?? u.scales.x.max) - from, 2 * uPlot.pxRatio);
      ctx.fillStyle = colour(isPlanned ? "soft" : "missed")();
      for (const [alpha, high] of [[.15, height], [1, 4 * uPlot.pxRatio]]) {
        ctx.globalAlpha = alpha;
        ctx.fillRect(from, top, wide, high);
      }
    }
    ctx.globalAlpha = 1;
  }

  function draw(plot, width) {
    const figure = plot.parentElement, {x, y, right, xScale, yScale} = figure.dataset, isTime = xScale === "time";
    const isSmall = figure.closest(".pictures"), size = isSmall ? 44 : 58;
    const lines = JSON.parse(figure.querySelector("script").textContent);
    const bands = isTime ? JSON.parse(figure.closest(".page").querySelector(".bands").textContent) : [];
    const inText = value => value == null ? "" : yScale === "share" ? SHARE.format(value) : number(value);
    const line = {stroke: colour("grid"), width: 1};
    const look = {stroke: colour("soft"), grid: line, ticks: line, labelFont: "12px sans-serif", labelSize: 18};
    // uPlot labels decades alone along x; where there is room, 2 and 5 help.
    const decades = (u, values) => {
      const labeled = u.valToPos(10, "x") - u.valToPos(1, "x") > 120 ? /[125]/ : /1/;
      return values.map(value => labeled.test(value.toExponential()[0]) || value === 0 ? value : null);
    };
    const from = (u, one, other) => u.valToPos(one, "x") - u.valToPos(other, "x");
    const at = (u, x) => bands.filter(([begin, end]) => from(u, x, begin) > -7 && from(u, x, end ?? x) < 7).map(([, , , text]) => text);
    const place = (u, x) => x == null ? "" : !isTime ? number(x) : [inWords(utc(x)), ...at(u, x)].join(" · ");
    // A log axis has no 0: what is below its first value is at its edge, or, along x, on a stretch without logarithms.
    const positive = lines.flatMap(line => line.x).filter(value => value > 0), isFromZero = lines.some(line => line.x[0] <= 0);
    const distr = scale => scale === "log" ? 3 : 1;
    const atEdge = (u, value, least) => least;
    return new uPlot({
      width, height: heightOf(plot), padding: [isSmall ? 8 : null, right ? 0 : 24, 0, 0], tzDate: utc, hooks: {drawClear: [u => drawBands(u, bands)]},
      cursor: {y: false, sync: isTime ? {key: figure.closest(".fold, .page").id} : undefined},
      scales: {
        x: {time: isTime, distr: xScale === "log" && isFromZero ? 4 : distr(xScale), asinh: Math.min(...positive)},
        y: {distr: distr(yScale), clamp: atEdge, range: {share: [0, 1], number: FROM_ZERO}[yScale]},
        ...right && {right: {range: FROM_ZERO}},
      },
      axes: [
        {
          ...look, ...isSmall ? {size: 46, space: 84} : {label: x, ...isTime ? {size: 48, space: 84} : {size: 34}}, ...xScale === "log" && {filter: decades},
          values: isTime ? TIMES : (u, values) => values.map(value => value == null ? "" : number(value)),
        },
        {...look, label: y, size, values: (u, values) => values.map(inText)},
        ...right ? [{...look, label: right, size, side: 1, scale: "right", grid: {show: false}, values: (u, values) => values.map(inText)}] : [],
      ],
      series: [{label: x, value: place}, ...lines.map(({name, style, right}, i) => ({
        scale: right ? "right" : "y",
        label: name, stroke: colour(style), dash: DASHES[i % DASHES.length][0], width: 2, points: {fill: colour("paper")}, value: (u, value) => inText(value),
        paths: yScale === "share" ? uPlot.paths.stepped({align: 1}) : undefined,
      }))],
      legend: {markers: {stroke: (u, i) => `var(--${lines[i - 1].style})`, dash: (u, i) => DASHES[(i - 1) % DASHES.length][1]}},
    }, uPlot.join(lines.map(line => [line.x, line.y])), plot);
  }

  function fit(plot, width) {
    if (!charts.has(plot)) charts.set(plot, draw(plot, width));
    const chart = charts.get(plot);
    chart.setSize({width, height: heightOf(plot)});
    chart.redraw(false, true);
  }
  const sizes = new ResizeObserver(entries => {
    requestAnimationFrame(() => entries.forEach(({target, contentRect: {width}}) => width && fit(target, width)));
  });
  for (const figure of document.querySelectorAll("figure.chart")) {
    figure.classList.add("ready");
    sizes.observe(figure.querySelector(".plot"));
  }

  const fitAll = width => charts.forEach((chart, plot) => plot.checkVisibility() && fit(plot, width ?? plot.clientWidth));
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => fitAll());
  // Paper is white, and narrower than most windows.
  for (const [event, width] of [["beforeprint", PRINTED_WIDTH], ["afterprint", undefined]]) {
    addEventListener(event, () => {
      root.classList.toggle("printing", event === "beforeprint");
      fitAll(width);
    });
  }
})();

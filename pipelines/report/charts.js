// Draws the figures of class "chart" with uPlot, once they have room on the screen.
// Text from logs is only ever read from the page and set as textContent.
(() => {
  "use strict";
  const HEIGHT = 250, PRINTED_WIDTH = 660;
  // Colours are not all that tells lines apart.
  const DASHES = [[[], "solid"], [[8, 3], "dashed"], [[2, 3], "dotted"], [[14, 3, 2, 3], "dashed"]];
  const [SHORT, LONG, SHARE] = [{}, {notation: "compact"}, {style: "percent"}]
    .map(form => new Intl.NumberFormat("en", {maximumSignificantDigits: 4, ...form}));
  const number = value => (Math.abs(value) < 1e6 ? SHORT : LONG).format(value);
  // Labels of ticks by the seconds between them; the day is below the first, and where it changes.
  const TIMES = [[86400, "{YYYY}-{MM}-{DD}"], [60, "{HH}:{mm}"], [1, "{HH}:{mm}:{ss}"], [0.001, "{HH}:{mm}:{ss}.{fff}"]]
    .map(([step, label]) => [step, label, null, null, step < 86400 ? "\n{YYYY}-{MM}-{DD}" : null, null, null, null, 1]);
  const utc = seconds => uPlot.tzDate(new Date(seconds * 1e3), "Etc/UTC");
  const inWords = uPlot.fmtDate("{YYYY}-{MM}-{DD} {HH}:{mm}:{ss}");
  const root = document.documentElement;
  const colour = name => () => getComputedStyle(root).getPropertyValue("--" + name).trim();
  const charts = new Map();

  // What happened to the cluster: symbols above the picture, each with a line through it.
  function eventAxis(events) {
    const seen = u => events.filter(([at]) => at >= u.scales.x.min && at <= u.scales.x.max);
    let taken;
    // Of symbols that would cover each other the first; the table of events has all.
    const fitting = u => seen(u).map(([at, symbol], i) => {
      const left = u.valToPos(at, "x");
      if (i && left < taken) return null;
      taken = left + 14;
      return symbol;
    });
    return {
      side: 0, scale: "x", size: 22, gap: 2, stroke: colour("ink"), ticks: {show: false},
      grid: {stroke: colour("soft"), width: 1, dash: [3, 3]}, splits: u => seen(u).map(([at]) => at), values: fitting,
    };
  }

  function draw(plot, width) {
    const figure = plot.parentElement, {x, y, xScale, yScale} = figure.dataset, isTime = xScale === "time";
    const lines = JSON.parse(figure.querySelector("script").textContent);
    const events = isTime ? JSON.parse(figure.closest(".page").querySelector(".events").textContent) : [];
    const inText = value => value == null ? "" : yScale === "share" ? SHARE.format(value) : number(value);
    const line = {stroke: colour("grid"), width: 1};
    const look = {stroke: colour("soft"), grid: line, ticks: line, labelFont: "12px sans-serif", labelSize: 18};
    // uPlot labels decades alone along x; where there is room, 2 and 5 help.
    const decades = (u, values) => {
      const labeled = u.valToPos(10, "x") - u.valToPos(1, "x") > 120 ? /[125]/ : /1/;
      return values.map(value => labeled.test(value.toExponential()[0]) || value === 0 ? value : null);
    };
    const near = (u, at) => events.filter(event => Math.abs(u.valToPos(event[0], "x") - u.valToPos(at, "x")) < 7);
    const place = (u, at) => at == null ? "" : !isTime ? number(at)
      : [inWords(utc(at)), ...near(u, at).map(([, symbol, text]) => `${symbol} ${text}`)].join(" ");
    // A log axis has no 0: what is below its first value is at its edge, or, along x, on a stretch without logarithms.
    const positive = lines.flatMap(line => line.x).filter(value => value > 0), isFromZero = lines.some(line => line.x[0] <= 0);
    const distr = scale => scale === "log" ? 3 : 1;
    const atEdge = (u, value, least) => least;
    return new uPlot({
      width, height: HEIGHT, padding: [events.length ? 0 : null, 24, 0, 0], tzDate: utc,
      cursor: {y: false, sync: isTime ? {key: figure.closest(".fold").id} : undefined},
      scales: {
        x: {time: isTime, distr: xScale === "log" && isFromZero ? 4 : distr(xScale), asinh: Math.min(...positive)},
        y: {distr: distr(yScale), clamp: atEdge, range: {share: [0, 1], number: {min: {soft: 0, mode: 1}, max: {pad: 0.1}}}[yScale]},
      },
      axes: [
        {
          ...look, label: x, ...isTime ? {size: 48, space: 84} : {size: 34}, ...xScale === "log" && {filter: decades},
          values: isTime ? TIMES : (u, values) => values.map(value => value == null ? "" : number(value)),
        },
        {...look, label: y, size: 58, values: (u, values) => values.map(inText)},
        ...events.length ? [eventAxis(events)] : [],
      ],
      series: [{label: x, value: place}, ...lines.map(({name, style}, i) => ({
        label: name, stroke: colour(style), dash: DASHES[i % DASHES.length][0], width: 2, points: {fill: colour("paper")}, value: (u, value) => inText(value),
        paths: yScale === "share" ? uPlot.paths.stepped({align: 1}) : undefined,
      }))],
      legend: {markers: {stroke: (u, i) => `var(--${lines[i - 1].style})`, dash: (u, i) => DASHES[(i - 1) % DASHES.length][1]}},
    }, uPlot.join(lines.map(line => [line.x, line.y])), plot);
  }

  function fit(plot, width) {
    if (!charts.has(plot)) charts.set(plot, draw(plot, width));
    const chart = charts.get(plot);
    chart.setSize({width, height: HEIGHT});
    chart.redraw(false);
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

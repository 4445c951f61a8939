// What is at axes: numbers and times in words, the places of ticks, the ends of log axes.
const axes = (() => {
  "use strict";
  const SECONDS = [0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900,
    1800, 3600, 7200, 10800, 21600, 43200, 86400, 172800, 345600, 864000, 2592000, 8640000, 31536000];
  const inText = (value, digits = 4) => {
    const size = Math.abs(value);
    const [scale, unit] = size >= 1e9 ? [1e9, " G"] : size >= 1e6 ? [1e6, " M"] : size >= 1e5 ? [1e3, " k"] : [1, ""];
    return (value / scale).toLocaleString("en", {maximumSignificantDigits: digits}).replace("-", "−") + unit;
  };
  const inPercent = value => (value * 100).toLocaleString("en", {maximumFractionDigits: 2}) + " %";
  const stamp = value => new Date(Math.round(value * 1e3)).toISOString();
  const atTime = (value, step) => stamp(value).slice(0, step < 1 ? 23 : 19).replace("T", " ");
  const timeTicks = (u, splits, axis, space, step) => splits.map((value, at) => {
    const [day, time] = stamp(value).split("T");
    if (step >= 86400) return day;
    const shown = time.slice(0, step >= 60 ? 5 : step >= 1 ? 8 : 12);
    return at === 0 || stamp(splits[at - 1]).slice(0, 10) !== day ? `${shown}\n${day}` : shown;
  });

  function logExtent(least, most) {
    const low = Math.floor(Math.log10(least)), high = Math.ceil(Math.log10(most) - 1e-9);
    return [10 ** low, 10 ** Math.max(high, low + 1)];
  }
  // 1 to 9 of each decade; even steps where less than that is seen.
  function logSplits(min, max) {
    const found = [];
    for (let power = Math.floor(Math.log10(min)); power <= Math.log10(max); power++) {
      for (let digit = 1; digit < 10; digit++) found.push(+`${digit}e${power}`);
    }
    const seen = found.filter(value => value >= min && value <= max);
    if (seen.length > 2) return seen;
    const step = 10 ** Math.floor(Math.log10(max - min)), first = Math.ceil(min / step);
    return Array.from({length: Math.floor(max / step) - first + 1}, (_, i) => +((first + i) * step).toPrecision(12));
  }
  // As many figures as keep `least` pixels apart: all, 1, 2 and 5, or 1 of each or of some decades.
  const logLabels = least => (u, splits, axis) => {
    const {min, max} = u.scales[u.axes[axis].scale];
    const decade = (axis ? u.height - 60 : u.width - 80) / Math.log10(max / min);
    const digits = decade * 0.045 > least || max < 3 * min ? "123456789" : decade * 0.3 > least ? "125" : "1";
    const every = Math.max(1, Math.ceil(least / decade));
    return splits.map(value => digits.includes(value.toExponential()[0]) && Math.floor(Math.log10(value * 1.001)) % every === 0 ? value : null);
  };

  return {SECONDS, inText, inPercent, atTime, timeTicks, logExtent, logSplits, logLabels};
})();

// Evaluates the formulas of "My fleet": names, numbers, + - * / ( ) and min.
(() => {
  "use strict";
  function evaluate(text, valueOf) {
    const tokens = text.match(/[a-z_]\w*|[\d.]+|[-+*/(),]/gi) ?? [];
    const next = () => tokens.shift();
    function atom() {
      const token = next();
      if (token === "(") return closed(sum());
      if (token === "min") {
        next();
        const values = [sum()];
        while (tokens[0] === ",") next(), values.push(sum());
        return closed(Math.min(...values));
      }
      return /^[\d.]/.test(token) ? +token : valueOf(token);
    }
    const closed = value => (next(), value);
    function product() {
      let value = atom();
      while (tokens[0] === "*" || tokens[0] === "/") value = next() === "*" ? value * atom() : value / atom();
      return value;
    }
    function sum() {
      let value = product();
      while (tokens[0] === "+" || tokens[0] === "-") value = next() === "+" ? value + product() : value - product();
      return value;
    }
    return sum();
  }

  for (const form of document.querySelectorAll(".calculator")) {
    const {costs, terms} = JSON.parse(form.querySelector("script").textContent);
    const inputs = [...form.querySelectorAll("input")];
    const show = () => {
      const values = {...costs, ...Object.fromEntries(inputs.map(it => [it.name, it.value === "" ? NaN : +it.value]))};
      const valueOf = name => name in terms ? evaluate(terms[name], valueOf) : values[name] ?? NaN;
      for (const cell of form.querySelectorAll("[data-formula]")) {
        const value = cell.dataset.formula ? evaluate(cell.dataset.formula, valueOf) : NaN;
        cell.textContent = Number.isFinite(value) ? value.toLocaleString("en", {maximumSignificantDigits: 3}) : "–";
      }
    };
    form.addEventListener("input", show);
    show();
  }
})();

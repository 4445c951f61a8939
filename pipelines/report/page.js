// Folds, lists of slow requests and what is there to be copied. Without scripts all of it is shown.
(() => {
  "use strict";
  const make = (name, text = "") => Object.assign(document.createElement(name), {textContent: text});

  // A link to something opens what it is folded in, and goes there.
  function open() {
    const target = document.getElementById(location.hash.slice(1));
    for (let it = target; it; it = it.parentElement) if (it.tagName === "DETAILS") it.open = true;
    target?.scrollIntoView();
  }
  addEventListener("hashchange", open);
  // Also where the hash is the same again.
  addEventListener("click", event => event.target.closest("a[href^='#']") && setTimeout(open));
  open();

  for (const pre of document.querySelectorAll("pre.paste")) {
    const button = make("button", "Copy");
    const text = pre.textContent;
    button.type = "button";
    button.className = "copy";
    button.addEventListener("click", async () => {
      try {
        await navigator.clipboard.writeText(text);
        button.textContent = "Copied";
      } catch {
        getSelection().selectAllChildren(pre);
        button.textContent = "Selected";
      }
      setTimeout(() => { button.textContent = "Copy"; }, 2000);
    });
    pre.before(button);
  }

  const ROLES = [["table", "table"], ["thead, tbody", "rowgroup"], ["tr", "row"], ["th", "columnheader"], ["td", "cell"]];
  for (const figure of document.querySelectorAll("figure.slowest")) {
    const body = figure.querySelector("tbody"), rows = [...body.rows];
    const heads = [...figure.querySelectorAll("th")];
    // On a phone rows are cards, which are no table without this.
    for (const [name, role] of ROLES) for (const it of figure.querySelectorAll(name)) it.setAttribute("role", role);
    const count = make("p");
    count.className = "small soft";
    count.ariaLive = "polite";
    const filters = make("div");
    filters.className = "filters";
    const tests = [];
    const show = () => {
      for (const row of rows) row.hidden = !tests.every(test => test(row));
      const shown = rows.filter(row => !row.hidden).length;
      count.textContent = shown === rows.length ? `${shown} shown` : `${shown} of ${rows.length} shown`;
    };
    const control = (name, element) => {
      const label = make("label", name);
      label.append(element);
      filters.append(label);
      element.addEventListener("input", show);
    };
    for (const [column, name] of [[1, "node"], [2, "client"], [3, "topic"]]) {
      const of = row => row.cells[column].textContent;
      const values = [...new Set(rows.map(of))].sort((a, b) => a.localeCompare(b, "en", {numeric: true}));
      if (values.length < 2) continue;
      const select = make("select");
      select.append(new Option("all", ""), ...values.map((value, i) => new Option(value.slice(0, 60) || "none", i)));
      control(name, select);
      tests.push(row => select.value === "" || of(row) === values[select.value]);
    }
    const words = make("input");
    words.type = "search";
    control("text", words);
    tests.push(row => row.textContent.toLowerCase().includes(words.value.toLowerCase()));
    figure.querySelector(".rows").before(filters, count);
    show();

    heads.forEach((head, column) => {
      const button = make("button", head.textContent);
      button.type = "button";
      head.replaceChildren(button);
      button.addEventListener("click", () => {
        const isDown = head.ariaSort ? head.ariaSort === "ascending" : column === 0;
        for (const other of heads) other.removeAttribute("aria-sort");
        head.ariaSort = isDown ? "descending" : "ascending";
        const cell = row => row.cells[column];
        const order = (a, b) => column === 0 ? cell(a).dataset.of - cell(b).dataset.of
          : cell(a).textContent.localeCompare(cell(b).textContent, "en", {numeric: true});
        body.append(...rows.sort((a, b) => isDown ? order(b, a) : order(a, b)));
      });
    });
    const took = rows.map(row => +row.cells[0].dataset.of);
    if (took.every((ms, i) => !i || ms <= took[i - 1])) heads[0].ariaSort = "descending";
  }
})();

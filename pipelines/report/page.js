// Folds and tables. Without scripts all of it is shown.
(() => {
  "use strict";
  const make = (name, of = {}) => Object.assign(document.createElement(name), of);

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

  const all = make("button", {textContent: "Open all", type: "button", className: "copy"});
  all.addEventListener("click", () => document.querySelectorAll("details").forEach(it => { it.open = true; }));
  document.querySelector("h1").before(all);

  // A click on a head sorts by its column: numbers from the largest, what is not known last.
  for (const table of document.querySelectorAll("table.sorted")) {
    const body = table.tBodies[0], heads = [...table.tHead.rows[0].cells];
    heads.forEach((head, column) => {
      const button = make("button", {type: "button"});
      button.append(...head.childNodes);
      head.replaceChildren(button);
      button.addEventListener("click", () => {
        const of = row => row.cells[column].dataset.of, rows = [...body.rows];
        const isNumber = rows.some(row => of(row) !== undefined);
        const isDown = head.ariaSort ? head.ariaSort === "ascending" : isNumber;
        for (const other of heads) other.removeAttribute("aria-sort");
        head.ariaSort = isDown ? "descending" : "ascending";
        const text = row => row.cells[column].textContent;
        const [known, unknown] = [true, false].map(is => rows.filter(row => !isNumber || (of(row) !== undefined) === is));
        const order = (a, b) => isNumber ? of(a) - of(b) || of(a).localeCompare(of(b)) : text(a).localeCompare(text(b), "en", {numeric: true});
        body.append(...known.sort((a, b) => isDown ? order(b, a) : order(a, b)), ...isNumber ? unknown : []);
      });
    });
  }
})();

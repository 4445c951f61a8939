// Folds, tables and what is there to be copied. Without scripts all of it is shown.
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

  for (const pre of document.querySelectorAll("pre.paste")) {
    const button = make("button", {textContent: "Copy", type: "button", className: "copy"});
    const text = pre.textContent;
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

  // Rows of a long table by any text.
  for (const table of document.querySelectorAll(".tabled table")) {
    const rows = [...table.tBodies[0].rows];
    if (rows.length <= 30) continue;
    const text = make("input", {type: "search", placeholder: "rows with this text", ariaLabel: "Rows with this text"});
    text.addEventListener("input", () => {
      for (const row of rows) row.hidden = !row.textContent.toLowerCase().includes(text.value.toLowerCase());
    });
    table.parentElement.before(text);
  }
})();

"use strict";
// Lights the lines of the term that is pointed at, or that has the focus. A click keeps it lit.
(() => {
  document.documentElement.classList.add("script");
  const linesOf = (term) => document.querySelectorAll(`.l[data-t~="${CSS.escape(term)}"]`);
  const same = (term) => document.querySelectorAll(`.term[data-t="${CSS.escape(term)}"]`);
  let kept = null;

  const light = (term) => {
    for (const lit of document.querySelectorAll(".lit")) lit.classList.remove("lit");
    if (term === null) return;
    for (const lit of [...linesOf(term), ...same(term)]) lit.classList.add("lit");
  };
  // Each text scrolls to the first of some lines that is no comment. The page does not scroll.
  const show = (some) => {
    const seen = new Set();
    for (const line of some) {
      const text = line.parentElement;
      if (seen.has(text) || line.classList.contains("comment")) continue;
      seen.add(text);
      text.scrollTop = line.offsetTop - text.clientHeight / 3;
    }
  };
  const found = (event) => event.target.closest?.(".term")?.dataset.t ?? null;

  document.addEventListener("pointerover", (event) => {
    const term = found(event);
    if (kept === null) light(term);
  });
  document.addEventListener("focusin", (event) => {
    const term = found(event);
    if (term !== null && kept === null) light(term);
  });
  document.addEventListener("click", (event) => {
    const term = found(event);
    if (term === null) return;
    kept = kept === term ? null : term;
    light(term);
    show(linesOf(term));
  });
  document.addEventListener("keydown", (event) => {
    if (event.key === "Escape") { kept = null; light(null); }
    if (event.key === "Enter" && found(event) !== null) {
      kept = kept === found(event) ? null : found(event);
      light(found(event));
      show(linesOf(found(event)));
    }
  });
  // A click on a column's head sorts its table.
  const sortable = (table) => {
    for (const [place, head] of [...table.tHead.rows[0].cells].entries()) {
      const button = document.createElement("button");
      button.append(...head.childNodes);
      head.append(button);
      button.addEventListener("click", () => {
        const value = (row) => row.cells[place].textContent.trim();
        const number = (row) => Number(value(row).replace(/,/g, ""));
        const rows = [...table.tBodies[0].rows];
        const numeric = rows.some((row) => !Number.isNaN(number(row)));
        const up = head.getAttribute("aria-sort") !== "ascending";
        for (const other of head.parentElement.cells) other.removeAttribute("aria-sort");
        head.setAttribute("aria-sort", up ? "ascending" : "descending");
        rows.sort((a, b) => {
          if (!numeric) return value(a).localeCompare(value(b));
          return (Number.isNaN(number(a)) ? Infinity : number(a))
            - (Number.isNaN(number(b)) ? Infinity : number(b));
        });
        table.tBodies[0].append(...(up ? rows : rows.reverse()));
      });
    }
  };

  // What a part of the page needs once: `rnnc explore` calls it again for what it replaces.
  const prepare = (root) => {
    const marked = [...root.querySelectorAll(".l[data-t]")];
    show([...marked.filter((line) => line.textContent.includes("RNNC_INLINE")), ...marked]);
    // Functions and names can be reached by the keyboard.
    for (const term of root.querySelectorAll(".term")) term.setAttribute("tabindex", "0");
    root.querySelectorAll("table.sortable").forEach(sortable);
  };
  prepare(document);
  globalThis.rnncPrepare = prepare;
})();
